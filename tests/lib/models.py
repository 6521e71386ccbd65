# SPDX-License-Identifier: Apache-2.0
"""A model by script, over the protocols of three vendors: it asks for one shell command, and when the command's output has come back, it is done.

Model is a handler for door.Web. Its server notes in `asked` each call as (path, fields, body): what an agent really sent, behind the door."""

import http.server
import json

DONE = "The work is done."


def _tool_names(body):
    """Codex 0.169 has its tools in the first item of `input`, in groups; Gemini has groups, too."""
    groups = [*(body.get("tools") or []), *(t for i in body.get("input") or [] if i.get("type") == "additional_tools" for t in i["tools"])]
    tools = [t for g in groups for t in g.get("functionDeclarations", g.get("tools", [g]))]
    return {t.get("name") for t in tools}


def _fitting(schema):
    """An answer to a question with a form: what each part may be at its simplest."""
    plain = {"number": 1, "integer": 1, "boolean": False, "array": []}
    return {k: v["enum"][0] if "enum" in v else plain.get(str(v.get("type")).lower(), "it is easy") for k, v in schema.get("properties", {}).items()}


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    command_line = "true"  # what it asks for; tests make a class of their own

    # ---- HTTP ----

    def do_GET(self):
        self.server.asked.append((self.path, dict(self.headers), {}))
        if self.path.endswith("/hello"):  # can it be reached?
            self.answer({"message": "hello"})
            return
        self.answer({"error": {"type": "not_found_error", "message": "no such page"}}, 404)

    do_HEAD = do_GET

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw)
        except ValueError:
            body = {}
        self.server.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        path = self.path.split("?")[0]
        if path.endswith("/v1/messages"):
            self.anthropic(body)
        elif path.endswith("/responses"):
            self.openai(body)
        elif path.endswith("Content"):
            self.google(body)
        elif path.endswith(":loadCodeAssist"):
            self.answer({"currentTier": {"id": "free-tier"}, "cloudaicompanionProject": "some-project"})
        else:
            self.answer({"input_tokens": 1, "totalTokens": 1})

    def answer(self, value, status=200):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def events(self, events, named=True):
        data = b"".join((f"event: {e['type']}\n" if named else "").encode() + f"data: {json.dumps(e)}\n\n".encode() for e in events)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass

    # ---- the vendors ----

    def anthropic(self, body):
        back = any(isinstance(m["content"], list) and any(c.get("type") == "tool_result" for c in m["content"]) for m in body["messages"])
        name = next((n for n in ("Bash", "bash") if n in _tool_names(body)), None)
        call = name and not back
        block = ({"type": "tool_use", "id": "toolu_1", "name": name, "input": {"command": self.command_line, "description": "do it"}} if call
                 else {"type": "text", "text": DONE})
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": [block], "stop_reason": "tool_use" if call else "end_turn",
                   "stop_sequence": None, "usage": usage}
        if not body.get("stream"):
            self.answer(message)
            return
        begin, delta = ({**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}) if call else (
            {**block, "text": ""}, {"type": "text_delta", "text": DONE})
        self.events([{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
                     {"type": "content_block_start", "index": 0, "content_block": begin},
                     {"type": "content_block_delta", "index": 0, "delta": delta},
                     {"type": "content_block_stop", "index": 0},
                     {"type": "message_delta", "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None}, "usage": usage},
                     {"type": "message_stop"}])

    def openai(self, body):
        back = any(i.get("type", "").endswith("_call_output") for i in body.get("input", []))
        given = {"exec": f"text(JSON.stringify(await tools.exec_command({{cmd: {json.dumps(self.command_line)}}})));", "exec_command": {"cmd": self.command_line}, "shell_command": {"command": self.command_line}, "shell": {"command": ["sh", "-c", self.command_line]},
                 "bash": {"command": self.command_line, "description": "do it"}}
        name = next((n for n in given if n in _tool_names(body)), None)
        item = ({"type": "custom_tool_call", "id": "ct_1", "call_id": "call_1", "status": "completed", "namespace": "functions", "name": name, "input": given[name]}
                if name == "exec" and not back
                else {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name, "arguments": json.dumps(given[name])} if name and not back
                else {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": DONE, "annotations": []}]})
        response = {"id": "resp_1", "object": "response", "status": "completed", "model": body.get("model"), "output": [item],
                    "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}
        self.events([{"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
                     {"type": "response.output_item.added", "output_index": 0, "item": item},
                     {"type": "response.output_item.done", "output_index": 0, "item": item},
                     {"type": "response.completed", "response": response}])

    def google(self, body):
        wrapped = "request" in body  # of a login with Google: the same in an envelope
        body = body.get("request", body)
        parts = [p for c in body.get("contents", []) for p in c.get("parts", [])]
        call = "run_shell_command" in _tool_names(body) and not any("functionResponse" in p for p in parts)
        form = body.get("generationConfig", {})
        form = form.get("responseJsonSchema") or form.get("responseSchema")
        part = ({"text": json.dumps(_fitting(form))} if form
                else {"functionCall": {"name": "run_shell_command", "args": {"command": self.command_line, "description": "do it"}}} if call else {"text": DONE})
        answer = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
                  "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}
        answer = {"response": answer} if wrapped else answer
        if "stream" in self.path:
            self.events([answer], named=False)
        else:
            self.answer(answer)
