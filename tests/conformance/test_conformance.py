# SPDX-License-Identifier: Apache-2.0
"""One table of requests on every backend: the same answer as native, or a documented refusal."""

import json
import os
import pathlib
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "lib")]

from backends import BACKENDS
from harness import brig, identity, main, start_brig, test, wait_until, workspace
from table import TABLE

COMPARED = ("outcome", "exit_code", "signal", "stdout", "stdout_bytes", "stdout_truncated", "stderr_bytes", "stderr_truncated",
            "limits_hit", "error.code")
# The text of a traceback names the file where the backend has it.
LOOSE = {"python, error": ("stderr_bytes",), "python, read-only": ("stderr_bytes",), "readonly": ("stderr_bytes",),
         "mount": ("stderr_bytes",), "read path": ("stderr_bytes",), "pids": ("stderr_bytes",), "memory": ("stderr_bytes",)}
# An engine does not tell that a process could not be made; the limit itself holds.
UNTOLD = {("docker", "pids"): ("limits_hit", "outcome", "exit_code", "signal")}


def field(said, name):
    for part in name.split("."):
        said = said.get(part) if isinstance(said, dict) else None
    return said


def ask(request, backend, fixture):
    """What brig answers: the object of --json, or with raw the bytes."""
    if request.setup:
        request.setup()
    argv = [request.verb, *backend.options(fixture), *request.options(), *([] if request.raw else ["--json"])]
    argv += ["--quiet"] if request.raw else []
    argv += ["--", *request.argv] if request.verb == "run" else request.argv
    if request.signal:
        return cancelled(request, argv, backend.env(fixture))
    done = brig(*argv, input=request.input, env={**request.env, **backend.env(fixture)})
    return done.stdout if request.raw else done.json


def cancelled(request, argv, env):
    """A signal to brig once the command runs, which says so by a file, for output is kept."""
    started = workspace() / "started"
    started.unlink(missing_ok=True)
    p = start_brig(*argv, env=env)
    assert wait_until(started.exists, 15)
    time.sleep(0.3)  # what it has written is on its way through an engine
    p.send_signal(request.signal)
    out, _ = p.communicate(timeout=15)
    started.unlink()
    return json.loads(out)


def normal(said, backend):
    """Names of the host's own, where there is no inside, are the one difference that is no difference."""
    names = {str(workspace()): "/workspace", "/proc/self/fd/3": "/code/_run.py"}
    if not isinstance(said, dict) or not backend.host_paths:
        return said
    said = dict(said)
    for host, inside in names.items():
        said["stdout_bytes"] -= said["stdout"].count(host) * (len(host) - len(inside))
        said["stdout"] = said["stdout"].replace(host, inside)
    return said


def wrong(request, said):
    """What native says and should not, as a list of words."""
    if request.raw:
        return [] if said == request.says else [f"{said[:80]!r}"]
    bad = []
    for name, want in request.says.items():
        got = field(said, name)
        if not (want(got) if callable(want) else got == want):
            bad.append(f"{name}: {got!r}, not {want!r}")
    return bad


def differs(request, backend, said, reference):
    if request.raw:
        return [] if said == reference else [f"{said[:80]!r}"]
    loose = (*LOOSE.get(request.name, ()), *UNTOLD.get((backend.name, request.name), ()))
    names = [n for n in COMPARED if n not in loose]
    return [f"{n}: {field(said, n)!r}, native {field(reference, n)!r}" for n in names if field(said, n) != field(reference, n)]


def is_refusal(said):
    return isinstance(said, dict) and said["outcome"] == "refused" and "cannot honour" in said["error"]["what"]


def judge(request, backend, said, reference):
    if backend.name in request.refused:
        return ("r", []) if is_refusal(said) else ("X", [f"not refused: {said if request.raw else said['outcome']}"])
    bad = differs(request, backend, normal(said, backend), reference)
    if not request.raw and (backend.name, request.name) not in UNTOLD:
        bad += [w for w in wrong(request, normal(said, backend)) if w not in bad]
    return ("X", bad) if bad else ("=", [])


def show(matrix, columns):
    width = max(len(name) for name in matrix)
    lines = [f"{'as ' + identity():{width}}  {'  '.join(columns)}"]
    for name, marks in matrix.items():
        lines.append(f"{name:{width}}  {'  '.join(f'{m:^{len(c)}}' for m, c in zip(marks, columns))}")
    folder = os.environ.get("CONFORMANCE_OUT")
    if folder:
        pathlib.Path(folder, f"matrix-{identity()}").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


@test(limit=180)
def every_backend_answers_as_native_does():
    reference, matrix, failures, columns = {}, {r.name: [] for r in TABLE}, [], []
    for backend in BACKENDS:
        if identity() not in backend.who:
            continue
        with backend.fixture() as fixture:
            if not backend.ready(fixture):
                continue
            columns.append(backend.name)
            for request in TABLE:
                said = ask(request, backend, fixture)
                if backend.name == "native":
                    reference[request.name] = said
                mark, bad = judge(request, backend, said, reference[request.name])
                matrix[request.name].append(mark)
                failures += [f"{backend.name}: {request.name}: {b}" for b in bad]
    show(matrix, columns)
    assert not failures, "\n".join(failures)
    assert {"native", "none", "ssh", "ssh-brig"} <= set(columns)


if __name__ == "__main__":
    main()
