# SPDX-License-Identifier: Apache-2.0
"""One table of requests on every backend: the same answer as native, or a documented refusal."""

import itertools
import json
import os
import pathlib
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "lib")]

from backends import BACKENDS, CLUSTER, ENGINES
from harness import PATIENCE, brig, identity, main, start_brig, test, wait_until, workspace
from table import TABLE

COMPARED = ("outcome", "exit_code", "signal", "stdout", "stdout_bytes", "stdout_truncated", "stderr_bytes", "stderr_truncated",
            "limits_hit", "error.code")
# The text of a traceback names the file where the backend has it.
LOOSE = {"python, error": ("stderr_bytes",), "python, read-only": ("stderr_bytes",), "readonly": ("stderr_bytes",),
         "mount": ("stderr_bytes",), "read path": ("stderr_bytes",), "pids": ("stderr_bytes",), "memory": ("stderr_bytes",)}


def field(said, name):
    for part in name.split("."):
        said = said.get(part) if isinstance(said, dict) else None
    return said


def ask(request, backend, fixture):
    """What brig answers: the object of --json, or with raw the bytes."""
    if request.setup:
        request.setup()
    argv = [request.verb, *backend.options(fixture, request), *request.options(), *([] if request.raw else ["--json"])]
    argv += ["--quiet"] if request.raw else []
    argv += ["--", *request.argv] if request.verb == "run" else request.argv
    if request.signal or request.stops:
        return disturbed(argv, backend, fixture, lambda p: backend.stop(fixture) if request.stops else p.send_signal(request.signal))
    done = brig(*argv, input=request.input, env={**request.env, **backend.env(fixture)})
    return done.stdout if request.raw else done.json


def disturbed(argv, backend, fixture, strike):
    """Something happens to brig once the command runs, which says so by a file, for output is kept; or the backend knows."""
    started = workspace() / "started"
    started.unlink(missing_ok=True)
    p = start_brig(*argv, env=backend.env(fixture))
    assert wait_until(lambda: backend.began(fixture, argv[-1].split(";")[-1].strip()) if backend.began else started.exists(), 15)
    time.sleep(0.3)  # what it has written is on its way through an engine
    strike(p)
    out, _ = p.communicate(timeout=30 * PATIENCE)
    started.unlink(missing_ok=bool(backend.began))
    return json.loads(out)


def normal(said, backend):
    """The workspace is at its own path everywhere. Names of the host's own, where there is no inside, are the one difference that is no difference."""
    names = {str(workspace()): "/workspace", **({"/proc/self/fd/3": "/code/_run.py"} if backend.host_paths else {})}
    if not isinstance(said, dict):
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


def enforcer(said):
    return field(said, "isolation.limits.pids")


def differs(request, backend, said, reference):
    if request.raw:
        return [] if said == reference else [f"{said[:80]!r}"]
    loose = LOOSE.get(request.name, ())
    if request.name == "pids" and enforcer(said) != enforcer(reference):
        loose += ("outcome", "exit_code", "signal")  # a control group refuses the fork, the watch ends the run
    names = [n for n in COMPARED if n not in loose]
    return [f"{n}: {field(said, n)!r}, native {field(reference, n)!r}" for n in names if field(said, n) != field(reference, n)]


def is_refusal(said):
    return isinstance(said, dict) and said["outcome"] == "refused" and any(
        words in said["error"]["what"] for words in ("cannot honour", "cannot enforce"))


def judge(request, backend, said, reference):
    if request.name in backend.may_refuse() and said["outcome"] == "refused" and said["error"]["what"]:
        return "r", []
    if backend.kind in request.refused:
        return ("r", []) if is_refusal(said) else ("X", [f"not refused: {said if request.raw else said['outcome']}"])
    bad = differs(request, backend, normal(said, backend), normal(reference, backend)) if not request.stops else []
    if not request.raw:
        bad += [w for w in wrong(request, normal(said, backend)) if w not in bad]
    return ("X", bad) if bad else ("=", [])


def asked(request, backend):
    """Not everything is asked of everybody: see the short list, and who has something that can be stopped."""
    return (not request.stops or backend.stop) and (request.short or identity() not in backend.short)


def show(matrix, columns):
    width = max(len(name) for name in matrix)
    lines = [f"{'as ' + identity():{width}}  {'  '.join(columns)}"]
    for name, marks in matrix.items():
        lines.append(f"{name:{width}}  {'  '.join(f'{m:^{len(c)}}' for m, c in zip(marks, columns))}")
    folder = os.environ.get("CONFORMANCE_OUT")
    if folder:
        pathlib.Path(folder, f"matrix-{identity()}-{columns[-1]}").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def column(backend, fixture, table, reference, matrix, failures):
    for request in table:
        if not asked(request, backend):
            matrix[request.name].append(" ")
            continue
        said = ask(request, backend, fixture)
        if backend.name == "native":
            reference[request.name] = said
        mark, bad = judge(request, backend, said, reference.get(request.name))
        matrix[request.name].append(mark)
        if request.stops:  # the next run removes what nobody could before it
            backend.again(fixture)
            assert backend.ready(fixture, request)
        failures += [f"{backend.name}: {request.name}: {b}" for b in bad]


def compare(*names):
    """Native first, which says what is right. What nobody of these is asked is left out."""
    mine = [b for b in BACKENDS if b.name in ("native", *names) and identity() in b.who]
    table = [r for r in TABLE if any(asked(r, b) for b in mine if b.name != "native")]
    reference, matrix, failures, columns = {}, {r.name: [] for r in table}, [], []
    for make, group in itertools.groupby(mine, lambda b: b.fixture):
        with make() as fixture:
            for backend in group:
                began = time.monotonic()
                if backend.ready(fixture, table[0]):
                    columns.append(backend.name)
                    column(backend, fixture, table, reference, matrix, failures)
                    print(f"{backend.name}: {time.monotonic() - began:.1f} s")
    show(matrix, columns)
    assert not failures, "\n".join(failures)
    assert columns == [b.name for b in mine]


@test(limit=300)
def the_backends_of_this_host_answer_as_native_does():
    compare("bwrap", "none")


@test(limit=300)
def ssh_answers_as_native_does():
    compare("ssh", "ssh-brig")


if CLUSTER:

    @test(limit=300)
    def slurm_answers_as_native_does():
        compare("slurm")

    @test(limit=900, alone=True)
    def kubernetes_answers_as_native_does():
        compare("kubernetes")


if ENGINES:  # started by root, whoever uses them

    @test(limit=300)
    def docker_answers_as_native_does():
        compare("runsc", "docker")

    @test(limit=300)
    def podman_answers_as_native_does():
        compare("podman")


if __name__ == "__main__":
    sys.exit(main())
