# SPDX-License-Identifier: Apache-2.0
"""Frames of HTTP/2 as bytes, for both sides and for breaking rules. Its text runs inside of sandboxes, too."""

import collections
import select
import socket
import ssl
import struct

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM = ACK = 1
END_HEADERS = 4
CALM = 11
Frame = collections.namedtuple("Frame", "kind flags stream data")


def frame(kind, flags, stream, data=b""):
    return struct.pack(">I", len(data))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + data


def literal(name, value, index=False):
    """A field as it stands, whatever it is: no table, no Huffman."""
    def text(t):
        t = t if isinstance(t, bytes) else t.encode()
        return (bytes([len(t)]) if len(t) < 127 else b"\x7f" + number(len(t) - 127)) + t
    return (b"\x40" if index else b"\x00") + text(name) + text(value)


def number(n):
    out = b""
    while n >= 128:
        out += bytes([n % 128 + 128])
        n //= 128
    return out + bytes([n])


def fields(*pairs):
    return b"".join(literal(n, v) for n, v in pairs)


def get(host, path="/", *more, method="GET"):
    return ((":method", method), (":scheme", "https"), (":authority", host), (":path", path), *more)


class Peer:
    def __init__(self, s, client=True, settings=b""):
        self.s, self.decoder, self.buffer, self.eof, self.block = s, hpack.Decoder(), b"", False, b""
        self.decoder.max_header_list_size = 1 << 20
        self.send((PREFACE if client else b"") + frame(SETTINGS, 0, 0, settings))
        if not client:
            while len(self.buffer) < len(PREFACE) and self.more():
                pass
            self.buffer = self.buffer[len(PREFACE):]

    def send(self, *data):
        try:
            self.s.sendall(b"".join(data))
            return True
        except OSError:
            self.eof = True
            return False

    def head(self, stream, pairs, end=True):
        return self.send(frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, fields(*pairs)))

    def more(self):
        try:
            d = self.s.recv(65536)
        except socket.timeout:
            raise
        except OSError:
            d = b""
        self.buffer += d
        self.eof |= not d
        return bool(d)

    def read(self):
        """The next frame; None at the end. SETTINGS are acknowledged."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            if self.eof or not self.more():
                return None
        n = int.from_bytes(self.buffer[:3], "big")
        f = Frame(self.buffer[3], self.buffer[4], int.from_bytes(self.buffer[5:9], "big"), self.buffer[9:9 + n])
        self.buffer = self.buffer[9 + n:]
        if f.kind == SETTINGS and not f.flags & ACK:
            self.send(frame(SETTINGS, ACK, 0))
        return f

    def answer(self, stream):
        """(what ended it, status, fields, body): 'end', 'reset N', 'goaway N' or 'closed'."""
        status, got, body = None, [], b""
        while f := self.read():
            if f.kind == GOAWAY and int.from_bytes(f.data[4:8], "big"):
                return "goaway %d" % int.from_bytes(f.data[4:8], "big"), status, got, body
            if f.kind in (HEADERS, CONTINUATION):
                self.block += f.data
                if f.flags & END_HEADERS:
                    these, self.block = self.decoder.decode(self.block), b""
                    if f.stream == stream:
                        got += these
                        status = status or dict(these).get(":status")
            if f.stream != stream:
                continue
            if f.kind == RST:
                return "reset %d" % int.from_bytes(f.data, "big"), status, got, body
            if f.kind == DATA:
                body += f.data
                if f.data:
                    self.send(frame(WINDOW, 0, 0, struct.pack(">I", len(f.data))), frame(WINDOW, 0, stream, struct.pack(">I", len(f.data))))
            if f.kind in (DATA, HEADERS) and f.flags & END_STREAM:
                return "end", status, got, body
        return "closed", status, got, body


def dial(host, settings=b"", port=443):
    c = ssl.create_default_context()
    c.set_alpn_protocols(["h2"])
    s = c.wrap_socket(socket.create_connection((host, port), timeout=10), server_hostname=host)
    assert s.selected_alpn_protocol() == "h2"
    return Peer(s, settings=settings)


def ask(host, pairs, peer=None, stream=1):
    """How one request ends, in words."""
    p = peer or dial(host)
    p.head(stream, pairs)
    how, status, _, body = p.answer(stream)
    return "%s %s %d" % (how, status, len(body))
