#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A kernel with AppArmor: containers in the engine's own profile, and brig in the one that its package brings."""

import contextlib
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("docker", "lib", "egress")]
import common  # noqa: E402
from common import box, container_of, engine, gone, ours, settle, sh, start_box, token  # noqa: E402
from door import Web, configure  # noqa: E402
from harness import around, brig, main, start_brig, test, wait_until, workspace  # noqa: E402
from open_sandbox import Sandbox  # noqa: E402

OWN = "docker-default (enforce)"  # what Docker puts its containers into
PROFILES = pathlib.Path("/sys/kernel/security/apparmor/profiles")
LABEL = "cat /proc/self/attr/current"


def load(text):
    """As the package does it, for the program under test and by this machine's parser: before 4.0 that knows no `userns`."""
    if not pathlib.Path("/etc/apparmor.d/abi/4.0").exists():
        text = text.replace("abi/4.0", "abi/3.0").replace("  userns,\n", "")
    done = subprocess.run(["apparmor_parser", "-r", "-K"], input=text.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@contextlib.contextmanager
def confined(folder):
    """The engine, and brig's profile in force for the program that is tested."""
    assert pathlib.Path("/sys/module/apparmor/parameters/enabled").read_text().strip() == "Y", "this kernel has no AppArmor"
    with engine.Dockerd(folder) as e:
        e.import_image(engine.busybox_tar())
        e.import_image(engine.curl_tar(), engine.CURL_IMAGE)
        common.shared = e
        load((HERE.parents[1] / "debian/apparmor/brig").read_text().replace("/usr/bin/brig", str(folder.parent / "bin/brig")))
        yield
        (PROFILES.parent / ".remove").write_text("brig")


around(confined)


@test
def the_profile_of_the_package_is_in_force_and_takes_nothing_away():
    assert "brig (unconfined)" in PROFILES.read_text()
    for backend in ("native", "bwrap"):
        r = brig("run", "--json", "--backend", backend, "--", "sh", "-c", f"{LABEL}; touch made; kill -9 $$").json
        assert r["outcome"] == "signalled" and r["stdout"] == "brig (unconfined)\n" and (workspace() / "made").exists(), r
        (workspace() / "made").unlink()
        p = start_brig("run", "--backend", backend, "--", "sh", "-c", "touch begun; sleep 600")
        assert wait_until((workspace() / "begun").exists, 20)
        p.terminate()
        assert p.wait(60) == 143
        (workspace() / "begun").unlink()


@test(limit=120)
def a_container_is_in_the_engines_profile_and_its_gate_passes():
    r = sh(f"{LABEL}; {LABEL.replace('self', '1')}; touch made; exit 7", "--json").json
    assert r["exit_code"] == 7 and r["stdout"] == f"{OWN}\n{OWN}\n" and (workspace() / "made").exists(), r
    r = sh("touch /x && echo made", "--json", "--set", "read_only_root=false").json
    assert r["outcome"] == "exited" and gone(r["id"]), r


@test(limit=120)
def its_signals_and_its_end_are_brigs():
    """The profile takes signals of nobody but its own kind and the unconfined, and brig has a name of its own here."""
    r = box("--json", "--timeout", "2s", "--", "sleep", "600").json
    assert r["outcome"] == "timeout" and gone(r["id"]), r
    word = token()
    p = start_box("--", "sh", "-c", f"trap 'exit 5' TERM; touch begun; while :; do sleep 0.1; done; : {word}")
    assert wait_until((workspace() / "begun").exists, 30)
    p.terminate()
    assert p.wait(100) in (5, 143)
    p = start_box("--", "sh", "-c", f"sleep 600; : {word}")
    name = container_of(word, running=True)
    p.kill()
    p.wait()
    assert wait_until(lambda: name not in ours(), 60, 0.1)


@test(limit=180)
def its_door_is_the_only_way_out():
    with Web("api.test") as web:
        r = box("--json", "--config", configure(web), "--", "sh", "-c", f"{LABEL}; curl -sS https://api.test/; curl -sS https://other.test/",
                image=engine.CURL_IMAGE, timeout=60).json
        assert r["stdout"].startswith(OWN) and web.seen and r["egress"]["allowed"] == 1 and r["egress"]["denied"] >= 1, r
        assert gone(r["id"])


@test(limit=180)
def a_sandbox_that_stays_open_has_its_line():
    settle()
    with Sandbox("docker", f"image={engine.IMAGE}", env=common.environment()) as s:
        s.start(1, LABEL)
        r = s.wait(1)
        assert (r["outcome"], r["stdout"]) == ("exited", f"{OWN}\n"), r
        s.start(2, "touch begun; sleep 600")
        s.until("begun")
        assert s.say("cancel 2") == "ok" and s.wait(2)["outcome"] == "cancelled"


if __name__ == "__main__":
    sys.exit(main())
