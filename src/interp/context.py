# SPDX-License-Identifier: Apache-2.0
"""One context of Python code: variables live from call to call (docs/design/interpreter.md).

Runs inside of the sandbox, as `python3 -c`, from Python 3.8 on, with the standard library alone. Reads one
JSON object a line, {"id", "code", "args"} or {"interrupt": id}, and writes {"type", "id", ...} lines:

    ready                                   once, id 0
    out   stream, text                      what was written
    show  value, data {mime: text}          something to look at; value: it is that of the last expression
    fail  name, message, trace              an exception
    done  end (ok, error, exit, interrupted), code

Everything that is said goes through one thread, so that no exception in the code (an interrupt, an alarm)
can break a line, and nothing is said outside of a call."""
import sys

sys.path[:] = [p for p in sys.path if p]  # a json.py of the workspace is not for this program

import ast
import base64
import builtins
import codecs
import importlib.util
import inspect
import io
import json
import linecache
import os
import queue
import select
import signal
import threading
import time
import traceback
import types
import warnings

CHUNK = 1 << 15
TEXT_MAX = 1 << 16  # characters of a value as plain text
LINE_MAX = 8 << 20  # as brig reads it (interp_answer.h)
DATA_MAX = 4 << 20  # of one representation, as it is sent
SHOWN_MAX = 32  # results of a call
LATE_MAX = 1 << 16  # characters written between calls, told with the next
QUEUED = 4096  # pieces that wait to be sent; who writes more waits
PID = os.getpid()

REPRS = (("text/html", "_repr_html_"), ("text/markdown", "_repr_markdown_"), ("text/latex", "_repr_latex_"),
         ("image/svg+xml", "_repr_svg_"), ("image/png", "_repr_png_"), ("image/jpeg", "_repr_jpeg_"),
         ("application/json", "_repr_json_"))
MIMES = frozenset(mime for mime, _ in REPRS) | {"text/plain"}
MAGIC = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}


def plain(text):
    """Without what a strict reader of JSON refuses."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\u2400")


# ---- what is said ----


class Line(threading.Thread):
    """The only one that writes. Items: ("begin", id, ""), ("out", stream, text), ("say", frame), ("done", frame)."""

    def __init__(self, fd):
        super().__init__(daemon=True, name="brig-line")
        self.fd, self.items, self.open, self.late = fd, queue.SimpleQueue(), None, []

    def put(self, *item):
        most = QUEUED if len(item[-1]) < CHUNK else QUEUED // 256
        while self.items.qsize() > most:
            time.sleep(0.001)
        self.items.put(item)

    def send(self, frame):
        data = memoryview(json.dumps(frame).encode("ascii") + b"\n")
        if len(data) > LINE_MAX:
            kept = {"text/plain": frame["data"].get("text/plain", "")[:TEXT_MAX] + "\n[the rest of it is too large to be shown]"}
            data = memoryview(json.dumps({**frame, "data": kept}).encode("ascii") + b"\n")
        while data:
            data = data[os.write(self.fd, data):]

    def out(self, stream, text):
        if self.open is not None:
            for at in range(0, len(text), CHUNK):
                self.send({"type": "out", "id": self.open, "stream": stream, "text": plain(text[at:at + CHUNK])})
        elif sum(len(t) for _, t in self.late) + len(text) <= LATE_MAX:
            self.late.append((stream, text))

    def take(self, kind, *rest):
        if kind == "begin":
            self.open = rest[0]
            late, self.late = self.late, []
            for stream, text in late:
                self.out(stream, text)
        elif kind == "ready" or self.open is not None:
            self.send({**rest[0], "id": self.open or 0})
        if kind == "done":
            self.open = None

    def gather(self, stream, texts):
        """What was written to one stream piece by piece becomes one; what comes behind it, or None."""
        size = len(texts[0])
        while size < CHUNK and not self.items.empty():
            item = self.items.get()
            if item[:2] != ("out", stream):
                return item
            texts.append(item[2])
            size += len(item[2])
        return None

    def run(self):
        item = None
        try:
            while True:
                item = item or self.items.get()
                if item[0] == "out":
                    texts = [item[2]]
                    behind = self.gather(item[1], texts)
                    self.out(item[1], "".join(texts))
                    item = behind
                else:
                    self.take(*item)
                    item = None
        except OSError:
            os._exit(1)  # nobody listens any more


class Bytes(io.RawIOBase):
    def __init__(self, to):
        self.to = to

    def writable(self):
        return True

    def write(self, data):
        self.to.take_bytes(bytes(data))
        return len(data)


class Stream(io.TextIOBase):
    """sys.stdout and sys.stderr. A child of the code's has no line: what it writes goes through the pipes."""

    encoding, errors, newlines, mode = "utf-8", "replace", None, "w"

    def __init__(self, line, name, fd):
        self.line, self.name, self.fd = line, name, fd
        self.held = []  # of a child
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.buffer = Bytes(self)

    def writable(self):
        return True

    def fileno(self):
        return self.fd

    def isatty(self):
        return False

    def take_bytes(self, data):
        self.write(self.decoder.decode(data))

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if os.getpid() == PID:
            if text:
                self.line.put("out", self.name, text)
        else:
            self.held.append(text)
            if "\n" in text:
                self.flush()
        return len(text)

    def writelines(self, lines):
        for text in lines:
            self.write(text)

    def flush(self):
        held, self.held = self.held, []
        if held:
            os.write(self.fd, "".join(held).encode("utf-8", "replace"))


class Pipes(threading.Thread):
    """What programs write that the code starts: descriptors 1 and 2 are pipes that end here."""

    def __init__(self, line, streams):
        super().__init__(daemon=True, name="brig-pipes")
        self.line, self.streams, self.ends = line, streams, {}
        self.asked, self.answered = threading.Event(), threading.Event()
        self.wake_read, self.wake_write = os.pipe()
        for stream in streams:
            read, write = os.pipe()
            os.set_blocking(read, False)
            os.dup2(write, stream.fd, inheritable=True)
            os.close(write)
            self.ends[read] = (stream.name, codecs.getincrementaldecoder("utf-8")("replace"))

    def read(self, fd):
        name, decoder = self.ends[fd]
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return False
        if data:
            self.line.put("out", name, decoder.decode(data))
        return bool(data)

    def drain(self):
        """Called by the code's thread: all that was written so far is told."""
        self.answered.clear()
        self.asked.set()
        os.write(self.wake_write, b"x")
        self.answered.wait(2)

    def run(self):
        poll = select.poll()
        for fd in (self.wake_read, *self.ends):
            poll.register(fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self.wake_read in ready:
                os.read(self.wake_read, 4096)
            for fd in self.ends:
                rounds = 64 if self.asked.is_set() else fd in ready
                while rounds and self.read(fd):
                    rounds -= 1
            if self.asked.is_set():
                self.asked.clear()
                self.answered.set()


# ---- what there is to look at ----


def as_text(mime, value):
    """A representation as it is sent, or None; an image is base64."""
    if mime in MAGIC:
        if isinstance(value, str):
            value = base64.b64decode(value)
        if not isinstance(value, (bytes, bytearray, memoryview)) or not bytes(value).startswith(MAGIC[mime]):
            return None
        return base64.b64encode(bytes(value)).decode("ascii")
    if mime == "application/json" and not isinstance(value, str):
        value = json.dumps(value, default=repr)
    return plain(value) if isinstance(value, str) else None


def ask(value, name):
    """value._repr_X_(), without the metadata that may come with it; None where it has none, or none to give."""
    method = None if isinstance(value, type) else getattr(value, name, None)
    if not callable(method):
        return None
    try:
        found = method()
    except Exception:
        return None
    return found[0] if isinstance(found, tuple) and found else found


def bundle_of(value):
    found = {}
    bundle = ask(value, "_repr_mimebundle_")
    if isinstance(bundle, dict):
        found.update((m, v) for m, v in bundle.items() if m in MIMES)
    for mime, name in REPRS:
        if mime not in found:
            found[mime] = ask(value, name)
    if not isinstance(found.get("text/plain"), str):
        try:
            found["text/plain"] = repr(value)
        except Exception as e:
            found["text/plain"] = f"<{type(value).__name__}: its repr raises {type(e).__name__}>"
    return found


def data_of(found):
    data, left_out = {}, []
    for mime, value in found.items():
        try:
            text = None if value is None else as_text(mime, value)
        except Exception:
            text = None
        if text is None:
            continue
        if mime == "text/plain" and len(text) > TEXT_MAX:
            text = text[:TEXT_MAX] + f"... [{len(text)} characters]"
        if len(text.encode("utf-8")) > DATA_MAX:
            left_out.append(f"[{mime} of {len(text)} characters left out: at most {DATA_MAX} bytes are shown]")
        else:
            data[mime] = text
    if left_out:
        data["text/plain"] = "\n".join([data.get("text/plain", "")] + left_out)
    return data


class Shows:
    def __init__(self, line):
        self.line, self.count = line, 0

    def show(self, found, value=False):
        self.count += 1
        if self.count <= SHOWN_MAX:
            self.line.put("say", {"type": "show", "value": value, "data": data_of(found)})
        elif self.count == SHOWN_MAX + 1:
            note = f"[the rest is left out: a call shows at most {SHOWN_MAX} results]"
            self.line.put("say", {"type": "show", "value": False, "data": {"text/plain": note}})

    def display(self, *values, **_unused):
        for value in values:
            self.show(bundle_of(value))

    def figures(self):
        """What matplotlib has open, as PNG; in place of plt.show, and at the end of a call."""
        plt = sys.modules.get("matplotlib.pyplot")
        for number in plt.get_fignums() if plt else ():
            figure, data = plt.figure(number), io.BytesIO()
            figure.savefig(data, format="png", bbox_inches="tight")
            self.show({"image/png": data.getvalue(), "text/plain": repr(figure)})
            plt.close(figure)


class Pyplot:
    """Puts Shows.figures in the place of plt.show when matplotlib.pyplot is imported."""

    def __init__(self, figures):
        self.figures = figures

    def find_spec(self, name, path=None, target=None):
        if name != "matplotlib.pyplot":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                # A function, not the method: matplotlib before 3.7 writes down its signature on it.
                module.show = lambda *words, **more: self.figures()

            spec.loader.exec_module = exec_module
        return spec


# ---- the code ----


class Context:
    def __init__(self, line, pipes, shows):
        self.line, self.pipes, self.shows, self.loop, self.number = line, pipes, shows, None, 0
        self.busy = self.interrupted = None
        self.open = False
        module = types.ModuleType("__main__")
        self.names = module.__dict__
        self.names.update(__builtins__=builtins, display=shows.display)
        sys.modules["__main__"] = module

    def compile(self, code, name):
        flags = getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0)
        tree, last = compile(code, name, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True), None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
            last = compile(ast.Expression(tree.body.pop().value), name, "eval", flags, dont_inherit=True)
        return compile(tree, name, "exec", flags, dont_inherit=True), last

    def evaluate(self, code):
        found = eval(code, self.names)
        if not code.co_flags & inspect.CO_COROUTINE:
            return found
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(found)
        try:
            return self.loop.run_until_complete(task)
        except BaseException:
            task.cancel()
            raise

    def execute(self, code):
        self.number += 1
        name = f"<cell {self.number}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        body, last = self.compile(code, name)
        self.evaluate(body)
        value = self.evaluate(last) if last else None
        if value is not None:
            self.names["_"] = value
            self.shows.show(bundle_of(value), value=True)
        self.shows.figures()

    def fail(self, error):
        at = error.__traceback__
        while at and not at.tb_frame.f_code.co_filename.startswith("<cell "):
            at = at.tb_next
        try:
            trace = "".join(traceback.format_exception(type(error), error, at))
        except Exception:
            trace = f"{type(error).__name__}\n"
        try:
            message = str(error)
        except Exception:
            message = ""
        return {"type": "fail", "name": plain(type(error).__name__)[:256], "message": plain(message)[:TEXT_MAX],
                "trace": plain(trace)[-TEXT_MAX:]}

    def attempt(self, code):
        """How it ended, as frames."""
        try:
            self.execute(code)
        except KeyboardInterrupt as e:
            return [self.fail(e), {"type": "done", "end": "interrupted", "code": 130}]
        except SystemExit as e:
            status = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
            said = [] if e.code is None or isinstance(e.code, int) else [f"{e.code}\n"]
            for text in said:
                self.line.put("out", "stderr", text)
            return [{"type": "done", "end": "exit", "code": status & 255}]
        except BaseException as e:
            return [self.fail(e), {"type": "done", "end": "error", "code": 1}]
        return [{"type": "done", "end": "ok", "code": 0}]

    def call(self, request):
        sys.argv = [""] + request["args"]
        sys.stdin = open(os.devnull)
        self.shows.count = 0
        self.line.put("begin", request["id"], "")
        ends = [{"type": "done", "end": "interrupted", "code": 130}]
        try:
            signal.signal(signal.SIGINT, self.interrupt)
            self.open, self.busy = True, request["id"]
            if self.interrupted != self.busy:  # before it had begun
                ends = self.attempt(request["code"])
            self.open = False
        except BaseException:  # an interrupt, or a signal of the code's own, at the very end
            pass
        for _ in range(9):
            try:
                self.finish(ends)
                break
            except BaseException:
                continue

    def interrupt(self, *_unused):
        """One for each call, and only where it is caught: at its end none is."""
        if self.open:
            self.open = False
            raise KeyboardInterrupt

    def finish(self, ends):
        """A second time it says nothing more: the line takes one end of a call."""
        self.open, self.busy = False, None
        signal.signal(signal.SIGINT, nothing)
        if os.getpid() != PID:  # a child that came out at the other end
            for stream in self.pipes.streams:
                stream.flush()
            os._exit(ends[-1]["code"])
        sys.stdout, sys.stderr = self.pipes.streams
        self.pipes.drain()
        for frame in ends:
            self.line.put("done" if frame["type"] == "done" else "say", frame)


def nothing(*_unused):
    """An interrupt that came too late."""


def listen(fd, context, requests):
    """The requests' thread. An interrupt is a signal to this very process: it also ends a sleep, unless it comes
    a moment before that begins; so it is repeated until it was heard."""
    with open(fd, "rb") as lines:
        for line in lines:
            request = json.loads(line)
            if "interrupt" not in request:
                requests.put(request)
                continue
            context.interrupted = request["interrupt"]
            while context.busy == context.interrupted:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                time.sleep(0.05)
                if not context.open or signal.getsignal(signal.SIGINT) != context.interrupt:
                    break
    os._exit(0)


def main():
    asked, said = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0, inheritable=True)
    os.close(null)
    line = Line(said)
    streams = Stream(line, "stdout", 1), Stream(line, "stderr", 2)
    pipes = Pipes(line, streams)
    os.register_at_fork(after_in_child=lambda: (os.close(said), os.close(asked)))
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__ = streams
    os.environ.setdefault("MPLBACKEND", "agg")
    warnings.filterwarnings("ignore", message=".*non-interactive.*")
    shows, requests = Shows(line), queue.SimpleQueue()
    context = Context(line, pipes, shows)
    signal.signal(signal.SIGINT, nothing)
    sys.meta_path.insert(0, Pyplot(shows.figures))
    sys.path.insert(0, "")
    line.start()
    pipes.start()
    threading.Thread(target=listen, args=(asked, context, requests), daemon=True, name="brig-asked").start()
    line.put("ready", {"type": "ready"})
    while True:
        context.call(requests.get())


main()
