#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""2.9 of the attack corpus: lifecycle.

A105 (a jumping wall clock) has no test: setting the clock would disturb the machine. brig reads CLOCK_MONOTONIC only."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import (INSIDE, alive, as_identity, canary, finish, held, mount, on_host, program, signal,  # noqa: E402
                    timed)
from harness import (IS_ROOT, PATIENCE, brig, brig_argv, brig_environment, descendants, main, namespaces, scratch, seconds, start_brig, test, tree,  # noqa: E402
                     wait_until, workspace)
from victim import checker_of  # noqa: E402

STUBBORN = ("import os, signal, time\n"
            "for s in range(1, 65):\n  try: signal.signal(s, signal.SIG_IGN)\n  except (OSError, ValueError): pass\n"
            "if os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\n    os._exit(0)\n  time.sleep(60)\n")


@test(alone=True)
def a097_nothing_outlives_the_main_program():
    p = subprocess.Popen(as_identity(["/usr/bin/python3", "-c", STUBBORN + "os._exit(0)"]), stdin=subprocess.DEVNULL)
    p.wait()
    assert wait_until(lambda: len(descendants()) == 2), "the control proves nothing"
    for pid in descendants():
        os.kill(pid, signal.SIGKILL)
    with held("run", "--", "python3", "-c", STUBBORN + "open('ready', 'w')\nwhile not os.path.exists('go'): time.sleep(0.02)\nos._exit(0)") as h:
        assert wait_until(lambda: len(h.pids()) >= 4)
        pids = h.pids()
    assert wait_until(lambda: not alive(pids), 1), alive(pids)


@test
def a097_nothing_outlives_a_timeout_or_a_signal():
    took, done = timed(brig, "run", "--timeout", "1s", "--kill-after", "300ms", "--", "python3", "-c", STUBBORN + "time.sleep(60)")
    assert done.status == 124 and took < 4 and not descendants()
    with held("run", "--", "python3", "-c", STUBBORN + "open('ready', 'w')\ntime.sleep(60)") as h:
        pids = h.pids()
        h.process.terminate()
        took, _ = timed(h.process.wait, 10 * PATIENCE)
        assert took < 3 and not alive(pids), "a command that ignores the signal is killed after its grace"


@test
def a098_a_grandchild_that_holds_stdout_does_not_hold_brig():
    took, done = timed(brig, "run", "--", "sh", "-c", "echo out; (setsid sleep 60 &) ; exit 3")
    assert (done.status, done.stdout) == (3, b"out\n") and took < 3
    took, done = timed(brig, "run", "--json", "--", "sh", "-c", "setsid sleep 60 & echo out")
    assert done.json["stdout"] == "out\n" and took < 3


def leftovers():
    """Placeholders that a dead run left in the workspace."""
    return {n for n in tree(workspace()) if n.startswith(".")}


@test(alone=True)
def a100_when_the_launcher_is_killed_everything_inside_dies():
    with held("run", "--", "python3", "-c", STUBBORN + "open('ready', 'w')\ntime.sleep(60)") as h:
        pids = h.pids()
        checker_of(h.process.pid)  # from here on somebody tidies up
        h.process.kill()
        h.process.wait()
        assert wait_until(lambda: not alive(pids), 1), f"alive: {alive(pids)}"
    assert wait_until(lambda: leftovers() == set(), 20), "the checker does not tidy up"
    assert brig("run", "--", "true").status == 0


@test(alone=True)
def a100_the_next_run_tidies_up_in_another_workspace():
    with held("run", "--", "sh", "-c", "touch ready; sleep 60") as h:
        os.kill(checker_of(h.process.pid), 9)
        h.process.kill()
        h.process.wait()
        assert wait_until(lambda: not descendants(), 20), descendants()  # what is about to die still has its locks
    assert ".vscode" in leftovers(), "nothing held the missing names"
    assert brig("run", "--workdir", scratch(), "--", "true").status == 0
    assert leftovers() == set(), leftovers()


@test(alone=True)
def a100_killed_in_every_phase_nothing_stays():
    """At every half millisecond of its start."""
    for i in range(60):
        p = start_brig("run", "--", "sleep", "60", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.0005 * i)
        p.kill()
        p.wait()
    assert wait_until(lambda: not descendants(), 2), descendants()
    assert brig("run", "--", "true").status == 0
    assert leftovers() == set(), leftovers()


@test(alone=True)
def a100_what_the_host_put_in_the_place_of_a_placeholder_is_kept():
    with held("run", "--", "sh", "-c", "touch ready; sleep 60") as h:
        h.process.kill()
        h.process.wait()
    on_host("sh", "-c", "rm -f .vscode; mkdir .vscode; echo '{}' > .vscode/settings.json")
    assert brig("run", "--", "true").status == 0
    assert (workspace() / ".vscode/settings.json").read_text() == "{}\n"
    assert leftovers() == {".vscode", ".vscode/settings.json"}


@test
def a102_orphans_are_reaped_and_do_not_use_up_the_limit():
    done = brig("run", "--pids", "32", "--timeout", seconds(60), *mount("resources"), "--", INSIDE, "orphans", "3000", timeout=70)
    assert b"= orphans 3000\n" in done.stdout, (done.status, done.stdout, done.stderr)


@test
def a103_ends_are_made_by_pidfd():
    """With kill() and its kin taken away from brig, it must still be able to end a run."""
    if IS_ROOT:  # a workspace of root's needs a helper process, which is not the matter here
        subprocess.run(["chown", "4242:4242", workspace()], check=True)
    control = on_host(program("without"), "signals", "sh", "-c", "kill -0 $$")
    assert control.returncode != 0, "the control proves nothing"
    argv = brig_argv("run", "--timeout", "1s", "--", "sleep", "60")
    at = next(i for i, a in enumerate(argv) if a.endswith("/brig"))
    argv[at:at] = [str(program("without")), "signals"]
    with canary():
        took, p = timed(subprocess.run, argv, env=brig_environment(), cwd=workspace(), capture_output=True, timeout=30 * PATIENCE, check=False, stdin=subprocess.DEVNULL)
    assert p.returncode == 124 and took < 5, p.stderr


@test
def a106_every_end_is_told_apart():
    (workspace() / "plain").write_text("data\n")
    (workspace() / "script").write_text("#!/no/such/interpreter\n")
    (workspace() / "script").chmod(0o755)
    (workspace() / "binary").write_bytes(b"\x7fELF nonsense")
    (workspace() / "binary").chmod(0o755)
    seen = {}
    for name, argv in {"126": ("sh", "-c", "exit 126"), "127": ("sh", "-c", "exit 127"), "137": ("sh", "-c", "exit 137"), "signal": ("sh", "-c", "kill -9 $$"),
                       "segv": ("sh", "-c", "kill -SEGV $$"), "missing": ("no-such-command",), "plain": ("./plain",), "folder": ("/usr",),
                       "interpreter": ("./script",), "format": ("./binary",)}.items():
        done = brig("run", "--json", "--", *argv)
        r = done.json
        seen[name] = (done.status, r["outcome"], r["signal"], bool(r["error"]))
    assert seen["126"] == (126, "exited", None, False) and seen["127"] == (127, "exited", None, False), seen
    assert seen["137"] == (137, "exited", None, False) and seen["signal"] == (137, "signalled", 9, False), seen
    assert seen["segv"] == (139, "signalled", 11, False), seen
    assert seen["missing"][0] == 127 and seen["missing"][3], seen
    assert all(seen[n][0] == 126 and seen[n][3] for n in ("plain", "folder", "interpreter", "format")), seen


@test
def a107_removing_the_workspace_under_a_run_is_survived():
    work = scratch() / "w"
    work.mkdir()
    script = "touch ready; while [ ! -e /tmp/never ]; do sleep 0.02; ls >/dev/null 2>&1 || true; done"
    with held("run", "--timeout", "2s", "--workdir", work, "--", "sh", "-c", script, folder=work) as h:
        shutil.rmtree(work, ignore_errors=True)  # brig removes its placeholders at the same time
        attempt = finish(h.process)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
    assert attempt.status in (124, 125) and b"rig:" in attempt.stderr, (attempt.status, attempt.stderr)


@test
def a107_moving_the_workspace_under_a_run_is_survived():
    work = scratch() / "w"
    work.mkdir()
    with held("run", "--timeout", seconds(5), "--workdir", work, "--", "sh", "-c", "touch ready; sleep 0.5; echo still > made; cat made", folder=work) as h:
        os.rename(work, scratch() / "moved")
        attempt = finish(h.process)
        work.mkdir()
    assert attempt.status in (0, 125), attempt.stderr
    assert not [n for n in tree(scratch() / "moved") if n.startswith(".")], "placeholders stay in a folder that was moved"


@test(by_root=True)
def a107_unmounting_the_workspace_under_a_run_is_survived():
    work, real = scratch() / "w", scratch() / "real"
    work.mkdir()
    real.mkdir()
    subprocess.run(["mount", "--bind", real, work], check=True)  # no tmpfs, which older kernels cannot map
    try:
        with held("run", "--timeout", seconds(5), "--workdir", work, "--", "sh", "-c", "touch ready; sleep 0.4; touch made; ls", folder=work) as h:
            subprocess.run(["umount", "-l", work], check=True)
            attempt = finish(h.process)
        assert attempt.status in (0, 125) and b"made" in attempt.stdout, (attempt.status, attempt.stderr)
    finally:
        subprocess.run(["umount", "-l", work], check=False, capture_output=True)


@test(alone=True)
def a108_many_runs_leave_nothing_behind():
    before = len(namespaces()), len(os.listdir("/proc/self/fd"))
    for _ in range(6):
        running = [start_brig("run", "--", "sh", "-c", "true & true") for _ in range(8)]
        ends = [p.communicate(timeout=30 * PATIENCE) for p in running]
        assert [p.returncode for p in running] == [0] * 8, {e for _, e in ends if e}
    assert leftovers() == set(), leftovers()
    assert len(os.listdir("/proc/self/fd")) == before[1]
    assert not descendants()


if __name__ == "__main__":
    sys.exit(main())
