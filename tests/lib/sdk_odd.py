# SPDX-License-Identifier: Apache-2.0
"""Answers that no daemon of brig's gives, and what a client must make of each: (call, answers, what it becomes)."""

import base64
import json

BOX = {"id": "sb_x", "name": None, "state": "ready", "reason": None, "created": "2026-01-01T00:00:00Z", "labels": {}, "companions": [],
       "execs_running": 0}
END = {"outcome": "exited", "exit_code": 0, "signal": None, "duration_ms": 1}


def answer(body, kind="application/json", status="200 OK", length=None):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body


def chunked(*pieces, kind="text/event-stream", end=True):
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + (b"0\r\n\r\n" if end else b"")


def event(kind, data):
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()


def wrote(seq, text):
    return event("stdout", {"seq": seq, "data": base64.b64encode(text).decode()})


STARTED = event("start", {"exec": "ex_1"})

CASES = {
    "garbage": ("get", [b"\x00\xffhello\r\n\r\n"], "ProtocolError"),
    "another_protocol": ("get", [b"SSH-2.0-OpenSSH_9.2\r\n"], "ProtocolError"),
    "nothing": ("get", [b""], "ConnectionCut"),
    "half_a_head": ("get", [b"HTTP/1.1 200 OK\r\nContent-Ty"], "ConnectionCut"),
    "half_a_body": ("get", [answer(BOX, length=10000)], "ConnectionCut"),
    "half_a_chunk": ("exec", [chunked(STARTED)[:-20]], "ConnectionCut"),
    "a_head_without_end": ("get", [b"HTTP/1.1 200 OK\r\n" + b"A: bcd\r\n" * 40000], "ProtocolError"),
    "a_field_without_name": ("get", [b"HTTP/1.1 200 OK\r\n: x\r\n\r\n"], "ProtocolError"),
    "a_length_below_zero": ("get", [answer(BOX, length=-1)], "ProtocolError"),
    "a_length_that_is_none": ("get", [answer(BOX, length="1e3")], "ProtocolError"),
    "a_chunk_that_is_none": ("get", [
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"], "ProtocolError"),
    "a_step_on_the_way": ("get", [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"], "ProtocolError"),
    "led_elsewhere": ("get", [b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"], "ProtocolError"),
    "a_web_page": ("get", [answer(b"<html>", "text/html")], "ProtocolError"),
    "a_web_page_that_fails": ("get", [answer(b"<html>", "text/html", "502 Bad Gateway")], "ProtocolError"),
    "no_json": ("get", [answer(b"{]")], "ProtocolError"),
    "a_list_for_an_object": ("get", [answer([])], "ProtocolError"),
    "very_deep_json": ("get", [answer(b"[" * 200000)], "ProtocolError"),
    "no_id": ("get", [answer({k: v for k, v in BOX.items() if k != "id"})], "ProtocolError"),
    "an_unknown_code": ("get", [answer({"code": "too-early", "detail": "wait"}, "application/problem+json", "425 Too Early")],
                        "ApiError too-early wait"),
    "a_problem_that_is_none": ("get", [answer(b"[]", "application/problem+json", "404 Not Found")], "ProtocolError"),
    "a_known_code": ("get", [answer({"code": "sandbox-paused", "detail": "it stands", "hint": "resume it"}, "application/problem+json",
                                    "409 Conflict")],
                     "SandboxPaused sandbox-paused it stands (resume it)"),
    "a_newer_schema": ("get", [answer({"version": "9", "schema": 2})], "VersionError"),
    "a_list_without_end": ("list", [answer({"sandboxes": [], "next": "a"})], "ProtocolError"),
    "a_list_that_goes_in_circles": ("list", [answer({"sandboxes": [BOX], "next": "a"}), answer({"sandboxes": [BOX], "next": "b"})], "ProtocolError"),
    "a_list_of_numbers": ("list", [answer({"sandboxes": [1, 2]})], "ProtocolError"),
    "a_sandbox_that_failed": ("create", [answer({**BOX, "state": "failed", "reason": "no-luck"}, status="201 Created"), answer(b"why", "text/plain")],
                              "SandboxFailed"),
    "created_at_the_second_try": ("create", [b"", answer(BOX, status="201 Created")], "sb_x"),
    "created_without_a_key": ("create", [answer({"code": "quota", "detail": "keys"}, "application/problem+json", "429 Too Many Requests"),
                                         answer(BOX, status="201 Created")], "sb_x"),
    "created_while_busy": ("create", [answer({"code": "conflict", "detail": "busy"}, "application/problem+json", "409 Conflict"),
                                      answer(BOX, status="201 Created")], "sb_x"),
    "created_and_pending": ("create", [answer({**BOX, "state": "pending"}, status="202 Accepted"), answer(BOX)], "sb_x"),
    "cut_and_attached_again": ("exec", [chunked(STARTED, wrote(0, b"one "), end=False),
                                        chunked(STARTED, wrote(0, b"one "), wrote(2, b"e two"), event("end", END))],
                               "one two"),
    "a_place_that_is_no_number": ("exec", [chunked(STARTED, event("stdout", {"seq": 1.5, "data": ""}))], "ProtocolError"),
    "a_command_elsewhere": ("exec", [chunked(event("start", {"exec": "../../x"}))], "BrigError"),
    "output_that_is_not_base64": ("exec", [chunked(STARTED, event("stdout", {"seq": 0, "data": "*"}))], "ProtocolError"),
    "an_end_without_outcome": ("exec", [chunked(STARTED, event("end", {}))], "ProtocolError"),
    "an_event_that_is_not_json": ("exec", [chunked(b"event: start\ndata: {]\n\n")], "ProtocolError"),
    "an_event_without_end": ("exec", [chunked(STARTED, b"data: " + b"x" * (17 << 20))], "ProtocolError"),
    "an_event_of_empty_lines": ("exec", [chunked(STARTED, *[b"data:\n" * (1 << 16)] * 40)], "ProtocolError"),
    "a_command_that_took_for_ever": ("exec", [chunked(STARTED, wrote(0, b"done"), event("end", {**END, "duration_ms": 10 ** 400}))], "done"),
    "companions_that_are_none": ("get", [answer({**BOX, "companions": [None, 1]})], "sb_x"),
    "an_end_that_never_comes": ("exec", [chunked(STARTED)], "ConnectionCut"),
    "events_that_expired": ("events", [chunked(event("error", {"code": "events-expired", "oldest": 7}))], "EventsExpired"),
    "events_that_always_end": ("events", [chunked()], "ConnectionCut"),
    "a_file_that_is_too_large": ("read", [answer(b"x" * 1000, "application/octet-stream")], "ProtocolError"),
    "a_file_that_ends_early": ("read", [answer(b"x", "application/octet-stream", length=9)], "ConnectionCut"),
}


def answers():
    """For sdk.odd_servers()."""
    return {name: [base64.b64encode(a).decode() for a in given] for name, (_, given, _) in CASES.items()}


def check(found):
    """`found` has a text for each case: the name of the error's class first, where there was one."""
    wrong = {name: (found.get(name), becomes) for name, (_, _, becomes) in CASES.items()
             if not (found.get(name, "") + " ").startswith(becomes + " ")}
    assert not wrong, wrong
