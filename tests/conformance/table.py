# SPDX-License-Identifier: Apache-2.0
"""The requests. Each is asked of every backend; `says` is what native must answer."""

import dataclasses
import signal
import typing

from harness import scratch, workspace

MIB = 1 << 20


@dataclasses.dataclass
class Request:
    name: str
    argv: list  # of the command, or of brig python and brig script with `verb`
    says: dict  # fields of --json; a function is asked
    options: typing.Callable = list  # made when the test's folders are known
    verb: str = "run"
    input: bytes = b""
    env: dict = dataclasses.field(default_factory=dict)
    refused: tuple = ()  # the backends that may refuse it
    signal: int = 0  # sent to brig once it prints
    raw: bool = False  # without --json: the bytes themselves
    setup: typing.Callable = None
    short: bool = False  # on the short list, which has one of each kind
    stops: bool = False  # what the backend needs dies meanwhile

    @property
    def python(self):
        return self.verb == "python" or "python3" in self.argv


def sh(text):
    return ["sh", "-c", text]


def exits(code, **more):
    return {"outcome": "exited", "exit_code": code, "signal": None, **more}


def dies(number, **more):
    return {"outcome": "signalled", "exit_code": 128 + number, "signal": number, **more}


def ok(text, **more):
    return exits(0, stdout=text, **more)


def data_file():
    (scratch() / "data").mkdir(exist_ok=True)
    (scratch() / "data/file").write_text("shown\n")
    (scratch() / "data").chmod(0o777)
    (scratch() / "data/file").chmod(0o666)


def hooked_role():
    (scratch() / "role.yaml").write_text("security: {tools: {audit_hooks_enabled: true}, sandbox: {backend: auto}}\n")


def nested_folders():
    data_file()
    for name in ("b", "b/c"):
        (scratch() / "data" / name).mkdir(exist_ok=True)
        (scratch() / "data" / name).chmod(0o777)


def nested(*grants, base=None):
    """Options for grants of scratch/data and what is in it; base is where they appear."""
    top = f"{scratch()}/data"
    base = base or top
    words = []
    for flag, name, *mode in grants:
        words += [flag, f"{top}{name}:{base}{name}{mode[0]}" if mode else f"{top}{name}"]
    return [*words, "--env", f"P={base}"]


TRY_EACH = "for d in . b b/c; do (: > $P/$d/new) 2>/dev/null && printf '%s ' $d && rm $P/$d/new; done; true"
PLAIN = ("none", "ssh")  # not sandboxes: they refuse what they cannot hold
NO_LIMITS = PLAIN
NO_MOUNTS = (*PLAIN, "kubernetes")  # nothing of this host is there
ODD = ["a b", "it's", "$HOME", "*", "new\nline", "\\", "", "-n", "\"", "`id`", "é"]
BYTES = b"\xff\xfe\x81".decode("utf8", "surrogateescape")

def Short(*args, **more):
    return Request(*args, short=True, **more)


TABLE = [
    Request("exit 0", ["true"], exits(0)),
    Request("exit 1", ["false"], exits(1)),
    Short("exit 7", sh("exit 7"), exits(7)),
    Request("exit 255", sh("exit 255"), exits(255)),
    Short("signal TERM", sh("kill -TERM $$"), dies(signal.SIGTERM)),
    Short("signal KILL", sh("kill -KILL $$"), dies(signal.SIGKILL)),
    Request("signal SEGV", sh("kill -SEGV $$"), dies(signal.SIGSEGV)),
    Request("signal INT", sh("kill -INT $$"), dies(signal.SIGINT)),
    Short("streams", sh("echo out; echo err >&2"), ok("out\n", stderr="err\n", stdout_bytes=4, stderr_bytes=4)),
    Short("timeout, tidied up after", sh("trap 'echo tidy; exit 7' TERM; sleep 60"),
            {"outcome": "timeout", "exit_code": 124, "limits_hit": ["timeout"], "stdout": "tidy\n"},
            lambda: ["--timeout", "1s"]),
    Short("timeout, detached", sh("setsid sleep 60 & sleep 60"), {"outcome": "timeout", "exit_code": 124},
            lambda: ["--timeout", "300ms"]),
    Short("left behind", sh("sleep 60 & echo done"), ok("done\n")),
    Short("output cap", sh("yes | head -c 5000"),
            exits(0, stdout_bytes=5000, stdout_truncated=True, limits_hit=["output"], stdout="y\n" * 50),
            lambda: ["--output-limit", "100b"]),
    Request("large output", sh("yes | head -c 3000000"), exits(0, stdout_bytes=3000000, stdout_truncated=False),
            lambda: ["--output-limit", "4m"]),
    Short("binary output", sh("head -c 70000 /dev/zero; printf '\\377\\036\\000'"), b"\0" * 70000 + b"\xff\x1e\0", raw=True),
    Short("memory", ["python3", "-c", "b = bytearray(300 << 20)"], {"outcome": "oom", "exit_code": 137, "limits_hit": ["memory"]},
            lambda: ["--memory", "64m"], refused=NO_LIMITS),
    # An engine's counters are found a moment after the start.
    Short("pids", ["python3", "-c", "import os, time\ntime.sleep(0.2)\nfor i in range(40):\n if not os.fork(): time.sleep(9)\ntime.sleep(9)"],
            {"limits_hit": ["pids"]}, lambda: ["--pids", "12"], refused=NO_LIMITS),
    Short("env", sh("echo $A; echo \"$B\""), ok("1\ntwo words\n"), lambda: ["--env", "A=1", "--env", "B=two words"]),
    Short("env is scrubbed", sh("echo ${API_TOKEN-none} ${MARK-none}"), ok("none yes\n"), lambda: ["--env-pass", "MARK"],
            env={"API_TOKEN": "secret", "MARK": "yes"}),
    Short("arguments", ["printf", "<%s>", *ODD], "".join(f"<{a}>" for a in ODD).encode(), raw=True),
    # Engines speak JSON, which has no such bytes.
    Short("arguments, any byte", ["printf", "<%s>", BYTES], ok("<\ufffd\ufffd\ufffd>", stdout_bytes=5), refused=("docker",)),
    Short("input", ["cat"], ok("given\n"), input=b"given\n"),
    Request("no input", ["wc", "-c"], ok("0\n")),
    Short("large input", ["wc", "-c"], ok(f"{2 * MIB}\n"), input=b"x" * (2 * MIB)),
    Request("input not read", ["true"], exits(0), input=b"x" * MIB),
    Request("folder", ["pwd"], ok("/workspace\n")),  # a name for its own path
    Short("writes", sh("echo new > made && cat made"), ok("new\n"), setup=lambda: (workspace() / "made").unlink(missing_ok=True)),
    Short("readonly", sh("echo no > kept || exit 2"), exits(2), lambda: ["--policy", "readonly"], refused=PLAIN),
    Short("mount", sh("cat /data/file; echo x > /data/new || exit 2"), exits(2, stdout="shown\n"),
            lambda: ["--mount", f"{scratch()}/data:/data"], setup=data_file, refused=NO_MOUNTS),
    Short("read path", sh("cat $P/file; echo x > $P/new || exit 2"), exits(2, stdout="shown\n"),
            lambda: ["--read", f"{scratch()}/data", "--env", f"P={scratch()}/data"], setup=data_file, refused=NO_MOUNTS),
    Short("write path", sh("echo changed > $P/file && cat $P/file"), ok("changed\n"),
            lambda: ["--write", f"{scratch()}/data", "--env", f"P={scratch()}/data"], setup=data_file, refused=NO_MOUNTS),
    Short("grants in one another", sh(TRY_EACH), ok(". b/c "), lambda: nested(("--read", "/b"), ("--write", ""), ("--write", "/b/c")), setup=nested_folders,
          refused=NO_MOUNTS),
    Request("grants in one another, mounts", sh(TRY_EACH), ok("b "), lambda: nested(("--mount", "/b", ":rw"), ("--mount", "", ""), ("--mount", "/b/c", "")),
            setup=nested_folders, refused=NO_MOUNTS),
    Short("a part to be read of a mount", sh(TRY_EACH), ok(". b "), lambda: [*nested(("--mount", "", ":rw"), base="/data"), "--read", f"{scratch()}/data/b/c"],
          setup=nested_folders, refused=NO_MOUNTS),
    Short("cancel", sh("echo go; touch started; sleep 60"), {"outcome": "cancelled", "exit_code": 143, "signal": 15}, signal=signal.SIGTERM),
    Short("cancel, handled", sh("trap 'exit 7' TERM; echo go; touch started; sleep 60"), {"outcome": "cancelled", "exit_code": 7, "signal": 15},
            signal=signal.SIGTERM),
    Short("missing command", ["no-such-command"], {"outcome": "refused", "exit_code": 127, "error.code": "not_found"}),
    Short("not executable", ["./plain"], {"outcome": "refused", "exit_code": 126, "error.code": "not_executable"},
            setup=lambda: (workspace() / "plain").write_text("text\n")),
    Short("image", ["true"], {"outcome": "refused", "exit_code": 125}, lambda: ["--image", "no/such:image"]),
    Short("python", ["-c", "import sys; print(__file__, sys.argv[1:])", "a b"], ok("/code/_run.py ['a b']\n"), verb="python"),
    Request("python, input", ["-c", "print(input())"], ok("line\n"), verb="python", input=b"line\n"),
    Request("python, error", ["-c", "print(1)\nraise ValueError('x')"],
            exits(1, stdout="1\n", stderr=lambda text: text.endswith("ValueError: x\n")), verb="python"),
    Request("python, audit hook", ["-c", "import os, sys\ntry: os.system('true')\nexcept RuntimeError as e: print(sys.argv[1:], e)", "a b"],
            ok("['a b'] [os.system] starting a program blocked\n"),
            verb="python", setup=hooked_role, options=lambda: ["--config", f"{scratch()}/role.yaml"], refused=("ssh", "ssh-brig", "slurm")),
    Request("python, read-only", ["-c", "open(__file__, 'w')"], exits(1), verb="python"),
    Request("python, long", ["program.py"], ok("1048576\n"), verb="python",
            setup=lambda: (workspace() / "program.py").write_text(f"s = '{'x' * MIB}'\nprint(len(s))\n")),
    Short("script", ["--param", "who=you", "-"], ok("hello you\n"), verb="script", input=b"echo hello $WHO\n"),
    Request("script, status", ["--interpreter", "python3", "-"], exits(4), verb="script", input=b"raise SystemExit(4)\n"),
    # Not asked of those who need nobody. What was begun is not known to have ended in any way.
    Short("engine stopped", sh("echo go; touch started; sleep 60"), {"outcome": "failed", "exit_code": 125, "error.code": "unavailable",
          "stdout": "go\n", "error.what": lambda text: any(w in text for w in ("went away", "was lost"))}, stops=True),
]
