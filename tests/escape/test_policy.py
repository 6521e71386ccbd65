#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""2.11 of the attack corpus: policy and start-up."""

import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from attack import INSIDE, inside, mount, on_host, program  # noqa: E402
from harness import PATIENCE, brig, brig_argv, brig_environment, home, main, scratch, test, tree, uid, workspace  # noqa: E402


def refused(*args, **more):
    """Nothing was started, and the refusal is a typed one."""
    before = tree(workspace())
    done = brig(*args, "--", "touch", "started", **more)
    assert done.status == 125, (args, done.status)
    assert done.errors.startswith("brig: ") and tree(workspace()) == before, args
    return done


def without(feature, *args):
    """brig on a machine that lacks a feature."""
    argv = brig_argv(*args)
    at = next(i for i, a in enumerate(argv) if a.endswith("/brig"))
    argv[at:at] = [str(program("without")), feature]
    return subprocess.run(argv, env=brig_environment(), cwd=workspace(), capture_output=True, timeout=30 * PATIENCE, check=False, stdin=subprocess.DEVNULL)


@test
def a133_malformed_settings_are_refused():
    """Configuration files come later; on the command line every value is as strict."""
    for args in (("--network", ""), ("--network", "None"), ("--network", "none "), ("--network", "none,host"), ("--network=",), ("--policy", ""), ("--policy", "READONLY"),
                 ("--memory", ""), ("--memory", "64m\n"), ("--memory", "64m;"), ("--memory", "0x40m"), ("--pids", "٣٢"), ("--timeout", "1s 2"), ("--set", "network"), ("--set", "netwrk=none"),
                 ("--set", "=none"), ("--set", "network="), ("--set", "policy.x=1"), ("--env", "A"), ("--mount", ""), ("--mount", "a"), ("--mount", ":"), ("--mount", "a:b:c:d"),
                 ("--user", ""), ("--user", "1000:"), ("--json=maybe",), ("--tty=yes",), ("--profile", "unconfined")):
        refused("run", *args)


@test
def a133_malformed_files_are_refused_and_missing_values_deny():
    malformed = ("brig: 1\nnetwork: [none]\n", "brig: 1\nnetwork: {}\n", "brig: 1\nnetwork: 7\n", "brig: 1\nnetwrok: none\n", "brig: 1\nnetwork: none\nnetwork: host\n",
                 "brig: 1\nnetwork: none\n---\nbrig: 1\nnetwork: host\n", "brig: 1\negress: " + "[" * 100000, "brig: 1\nnetwork: none\n\0network: host\n", "brig: 1\nnetwork: \"none\n",
                 "brig: 2\n", "brig: 1\nlimits: none\n", "brig: 1\na: &a [*a]\n", "\xff\xfe", "brig: 1\nmounts: /:/data\n", "brig: 1\nnetwork: !!python/object:os.system none\n")
    for text in malformed:
        (scratch() / "c.yaml").write_bytes(text.encode("latin-1"))
        refused("run", "--config", scratch() / "c.yaml")
    for text in ("brig: 1\n", "brig: 1\nnetwork: null\n", "brig: 1\nnetwork:\n", "brig: 1\nnetwork: none\n"):
        (scratch() / "c.yaml").write_text(text)
        done = brig("run", "--config", scratch() / "c.yaml", "--", "sh", "-c", "tail -n +3 /proc/net/dev | cut -d: -f1")
        assert done.status == 125 or done.text.split() == ["lo"], (text, done.text)


@test
def a133_a_long_or_deep_value_is_refused_or_harmless():
    for args in (("--workdir", "a/" * 3000), ("--mount", f"{'a/' * 3000}:/data"), ("--set", f"{'a.' * 40000}=1"), ("--env", f"A={'x' * 131000}"), ("--read", "/" * 100000)):
        done = brig("run", *args, "--", "true")
        assert done.status in (0, 125), (args[0], done.status)


@test
def a133_empty_never_means_everything():
    """An empty allow-list, an empty network: nothing is opened by what is missing."""
    for env in ({"BRIG_NETWORK": ""}, {"BRIG_POLICY": ""}, {"BRIG_BACKEND": ""}, {"BRIG_NETWORK": "any"}, {"BRIG_BACKEND": "nones"}):
        done = brig("run", "--", "sh", "-c", "cat /proc/net/dev; touch started", env=env)
        assert done.status == 125 or (done.status == 0 and done.text.count(":") == 1 + done.text.count("lo:")) or "eth" not in done.text, (env, done.text)
        assert done.status == 125 or inside("procfs", "fresh-proc").worked == {}
        (workspace() / "started").unlink(missing_ok=True)


@test
def a135_no_setting_alone_switches_the_sandbox_off():
    canary = scratch() / "PWNED"
    assert on_host("touch", canary).returncode == 0, "the control proves nothing"
    canary.unlink()
    for args, env in (((("--policy", "full_access")), {}), (("--backend", "none"), {}), ((), {"BRIG_POLICY": "full_access"}), ((), {"BRIG_BACKEND": "none"}), (("--set", "policy=full_access"), {}),
                      (("--set", "backend=none"), {}), (("--set", "allow_full_access=true"), {}), ((), {"BRIG_ALLOW_FULL_ACCESS": "true"}), ((), {"SANDBOX_ENABLED": "false"}),
                      ((), {"SANDBOX_POLICY": "full_access"}), (("--policy", "full_access", "--policy", "readonly"), {}), ((), {"BRIG_SANDBOX": "native"})):
        brig("run", *args, "--", "touch", canary, env=env)
        assert not canary.exists(), (args, env)


@test
def a135_a_file_in_the_workspace_cannot_loosen_anything():
    for name, text in (("brig.yaml", "brig: 1\npolicy: full_access\nallow_full_access: true\nnetwork: host\nbackend: none\n"), (".env", "SANDBOX_POLICY=full_access\nSANDBOX_ALLOW_FULL_ACCESS=true\nSANDBOX_ENABLED=false\n"),
                       (".brig.yaml", "brig: 1\nbackend: none\nallow_full_access: true\n"), ("role.yaml", "security:\n  sandbox:\n    backend: none\n"), ("sandbox.yaml", "sandbox:\n  runtime: local\n")):
        (workspace() / name).write_text(text)
    done = brig("run", "--", "sh", "-c", f"touch {scratch()}/PWNED; cat /proc/net/dev | tail -n +3 | cut -d: -f1; id -u")
    assert not (scratch() / "PWNED").exists()
    assert done.status == 125 or done.text.split()[0] == "lo", done.text


@test
def a135_system_places_cannot_be_shown_writable():
    for target in ("/", "/proc", "/sys", "/dev", "/proc/sys", "/dev/shm", "/usr", "/etc", "/bin", "/tmp", "/workspace", "/home", "/data/..", "/data/../proc", "/./proc", "//proc", "/proc/", "data"):
        refused("run", "--mount", f"{scratch()}:{target}:rw")
    for source in ("/", "/proc", "/sys", "/dev", "/run", "/dev/null", "/proc/self"):
        for args in (("--mount", f"{source}:/data:rw"), ("--write", source)):
            done = brig("run", *args, "--", "sh", "-c", "ls /data/1 /data/self >/dev/null && echo SEEN; echo x > /data/sys/kernel/core_pattern && echo WRITTEN")
            assert "WRITTEN" not in done.text and (source != "/proc" or "SEEN" not in done.text), (args, done.text)


@test
def a135_the_whole_host_is_not_shown_by_one_careless_word():
    """'/' as a source, read or written, would undo the sandbox."""
    (scratch() / "secret").write_text("CANARY\n")
    for args in (("--mount", "/:/data"), ("--mount", "/:/data:rw"), ("--read", "/"), ("--write", "/"), ("--workdir", "/")):
        done = brig("run", *args, "--", "sh", "-c", f"cat /data{scratch()}/secret {scratch()}/secret; touch /data{scratch()}/PWNED {scratch()}/PWNED")
        assert b"CANARY" not in done.stdout and not (scratch() / "PWNED").exists(), args


@test
def a135_network_host_is_only_by_request_and_says_so():
    done = brig("run", "--network", "host", "--json", "--", "true")
    assert done.json["isolation"]["net_ns"] is False
    assert "network" in done.errors.lower() or "network" in json.dumps(done.json["isolation"]).lower()
    assert brig("run", "--network", "host", "--", "true").errors, "no warning"


@test
def a136_without_user_namespaces_it_is_refused_and_says_why():
    assert on_host(program("without"), "userns", "unshare", "--user", "true").returncode != 0, "the control proves nothing"
    done = without("userns", "run", "--", "touch", "started")
    text = done.stderr.decode()
    assert done.returncode == 125 and not tree(workspace()), text
    assert "namespace" in text and "\nhint: " in text, f"no cause or no hint: {text!r}"
    r = json.loads(without("userns", "run", "--json", "--", "touch", "started").stdout)
    assert r["outcome"] == "refused" and r["error"]["what"] and r["error"]["hint"], (r["outcome"], r["error"])


@test
def a136_without_seccomp_it_is_refused_and_says_why():
    done = without("seccomp", "run", "--", "touch", "started")
    assert done.returncode == 125 and not tree(workspace())
    assert b"filter" in done.stderr or b"seccomp" in done.stderr, done.stderr
    r = json.loads(without("seccomp", "run", "--json", "--", "touch", "started").stdout)
    assert r["outcome"] == "refused", f"a missing feature of the machine is a refusal, not '{r['outcome']}'"


@test
def a136_without_landlock_it_runs_and_says_so():
    done = without("landlock", "run", "--json", "--", "true")
    assert done.returncode == 0 and json.loads(done.stdout)["isolation"]["landlock_abi"] == 0


@test
def a136_without_a_landlock_layer_the_mounts_still_hold():
    (workspace() / "file").write_text("original\n")
    done = without("landlock", "run", "--policy", "readonly", *mount("files"), "--", INSIDE, "change", "/workspace/file")
    assert b"+ " not in done.stdout and (workspace() / "file").read_text() == "original\n", done.stdout


@test
def a137_values_that_start_with_a_dash_are_values():
    done = brig("run", "--", "--help")
    assert done.status == 127 and "--help" in done.errors
    done = brig("run", "--", "-c", "touch started")
    assert done.status == 127 and not tree(workspace())
    (workspace() / "-rf").mkdir()
    assert brig("run", "--workdir", "-rf", "--", "pwd").text == f"{workspace()}/-rf\n"
    assert brig("run", "--env", "-x=1", "--", "true").status == 125
    refused("run", "--user", "-1")
    refused("run", "--mount", "-v:/data")
    assert brig("run", "--env", "A=--policy=full_access", "--", "sh", "-c", "echo $A").stdout == b"--policy=full_access\n"
    (workspace() / "-rf").rmdir()


@test
def a137_a_command_line_that_starts_with_a_dash_is_no_option_of_the_shells():
    assert b"not found" in brig("exec", "--", "-n; true").stderr
    assert brig("exec", "--", "--network host").status == 127


@test
def a137_what_follows_the_command_is_the_commands():
    done = brig("run", "echo", "--policy", "full_access", "--i-know-this-is-not-a-sandbox", "--backend=none")
    assert done.stdout == b"--policy full_access --i-know-this-is-not-a-sandbox --backend=none\n"


@test
def a140_no_program_is_taken_from_path_or_workspace():
    """brig starts nothing on the host: helpers of these names must not run."""
    names = ("bwrap", "ssh", "docker", "kubectl", "podman", "newuidmap", "newgidmap", "mount", "umount", "ip", "git", "sh", "bash", "systemd-run", "unshare", "true", "fusermount", "sudo")
    for folder in (scratch() / "bin", workspace()):
        folder.mkdir(exist_ok=True)
        for n in names:
            (folder / n).write_text(f"#!/bin/sh\ntouch {scratch()}/PWNED-{n}\nexit 1\n")
            (folder / n).chmod(0o755)
    path = f"{scratch()}/bin:.:{workspace()}:{brig_environment()['PATH']}"
    assert subprocess.run(["bwrap"], env={"PATH": path}, check=False).returncode == 1 and (scratch() / "PWNED-bwrap").exists(), "the control proves nothing"
    (scratch() / "PWNED-bwrap").unlink()
    for args in (("run", "--", "/usr/bin/true"), ("run", "--backend", "bwrap", "--", "/usr/bin/true"), ("run", "--backend", "docker", "--", "/usr/bin/true"), ("run", "--backend", "ssh", "--", "/usr/bin/true"),
                 ("doctor",), ("plan", "--", "true"), ("exec", "/usr/bin/true"), ("run", "--tty", "--", "/usr/bin/true")):
        brig(*args, env={"PATH": path})
    assert not list(scratch().glob("PWNED-*")), list(scratch().glob("PWNED-*"))


@test
def a140_the_command_is_looked_up_inside_not_on_the_host():
    (scratch() / "bin").mkdir()
    (scratch() / "bin/tool").write_text(f"#!/bin/sh\ntouch {scratch()}/PWNED\n")
    (scratch() / "bin/tool").chmod(0o755)
    done = brig("run", "--", "tool", env={"PATH": f"{scratch()}/bin:{brig_environment()['PATH']}"})
    assert done.status == 127 and not (scratch() / "PWNED").exists()


@test
def a126_state_folders_of_another_owner_are_not_used():
    if uid() == 0:
        (scratch() / "state/brig").mkdir(parents=True)
        subprocess.run(["chown", "-R", "4242:4242", scratch() / "state"], check=True)
        brig("run", "--", "true", env={"XDG_STATE_HOME": str(scratch() / "state")})
        assert os.listdir(scratch() / "state/brig") == [], "root used a folder of another user's"
    for left in pathlib.Path("/tmp").glob("brig-*"):
        subprocess.run(["rm", "-rf", left], check=True)
    assert tree(home()) == {}


if __name__ == "__main__":
    sys.exit(main())
