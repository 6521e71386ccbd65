# SPDX-License-Identifier: Apache-2.0
"""A second reader of brig's record, written from docs/design/audit.md alone: what brig writes must satisfy it."""

import datetime
import hashlib
import hmac
import json
import pathlib


def folder(state):
    return pathlib.Path(state) / "brig" / "audit"


def segments(where):
    return sorted(pathlib.Path(where).glob("[0-9]*.jsonl"))


def records(where):
    """All records as objects, oldest first; a record that is not JSON on one line fails."""
    return [json.loads(line) for path in segments(where) for line in path.read_bytes().splitlines()]


def head(where, key):
    """The newest valid slot of the head as (seq, segment, offset, mac)."""
    data = (pathlib.Path(where) / "head").read_bytes()
    assert len(data) == 512, len(data)
    found = []
    for slot in (data[:256], data[256:]):
        line, _, signature = slot.decode().rstrip().rpartition(" ")
        assert hmac.new(key, f"{line} ".encode(), hashlib.sha256).hexdigest() == signature, slot
        word, version, _, seq, segment, offset, _, mac = line.split(" ")
        assert (word, version) == ("brig-head", "1")
        found.append((int(seq), int(segment), int(offset), mac))
    return max(found)


def _slot(key, name, seq, offset, microseconds, mac):
    line = f"brig-head 1 {name} {seq} 1 {offset} {microseconds} {mac} "
    return (line + hmac.new(key, line.encode(), hashlib.sha256).hexdigest()).ljust(255).encode() + b"\n"


def forge(where, key, count, seconds):
    """A log of that many records at one time, as somebody who has the key can make it."""
    where, key = pathlib.Path(where), bytes.fromhex(key)
    name = hmac.new(key, b"brig audit: name of the record", hashlib.sha256).hexdigest()[:16]
    stamp = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    previous, data, slots = "0" * 64, b"", [b"", b""]
    for number in range(1, count + 1):
        signed = f'{{"seq":{number},"time":"{stamp}","type":"sandbox.stop","backend":"native","prev":"{previous}"'
        previous = hmac.new(key, signed.encode(), hashlib.sha256).hexdigest()
        data += f'{signed},"mac":"{previous}"}}\n'.encode()
        slots[number % 2] = _slot(key, name, number, len(data), int(seconds) * 1000000, previous)
    (where / "000001.jsonl").write_bytes(data)
    (where / "head").write_bytes(b"".join(slots))


def verified(where, key=None):
    """The records of a log that is checked from its first to its last byte."""
    where = pathlib.Path(where)
    key = bytes.fromhex(key or (where / "key").read_text().strip())
    previous, number, last = "0" * 64, 0, ""
    for path in segments(where):
        for line in path.read_bytes().splitlines(keepends=True):
            assert line.endswith(b'"}\n'), line
            signed, _, mac = line[:-3].rpartition(b',"mac":"')
            assert hmac.new(key, signed, hashlib.sha256).hexdigest() == mac.decode(), line
            record = json.loads(line)
            number += 1
            assert record["seq"] == number and record["prev"] == previous, (number, line)
            assert record["time"] >= last, (last, line)
            previous, last = record["mac"], record["time"]
    assert head(where, key) == (number, int(segments(where)[-1].stem), segments(where)[-1].stat().st_size, previous)
    return records(where)
