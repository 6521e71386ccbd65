#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What users type and read: exit statuses, options, refusals, the JSON object, the world inside."""

import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import brig, brig_argv, brig_environment, brig_path, home, identity, main, scratch, test, tree, uid, workspace  # noqa: E402

MEMBERS = {"schema", "id", "outcome", "exit_code", "signal", "stdout", "stderr", "stdout_bytes", "stderr_bytes",
           "stdout_truncated", "stderr_truncated", "duration_ms", "setup_ms", "backend", "isolation", "output",
           "limits_hit", "denials", "denials_dropped", "egress", "error"}
LAYERS = {"user_ns", "pid_ns", "net_ns", "mount_ns", "seccomp", "landlock_abi", "cgroup", "uid_inside", "limits"}


def sh(script, *options, **more):
    """Run a shell line in a sandbox."""
    return brig("run", *options, "--", "sh", "-c", script, **more)


def refused(*options, words=(), status=125, **more):
    """A run with these options is refused: one line, a hint, and nothing was started."""
    before = tree(workspace())
    done = brig("run", *options, "--", "touch", "started", **more)
    lines = done.errors.splitlines()
    assert done.status == status, f"status {done.status}"
    assert done.stdout == b""
    assert lines and lines[0].startswith("brig: "), "no 'brig: ' line"
    assert len(lines) == 2 and lines[1].startswith("hint: "), f"not a line and a hint: {lines}"
    for word in words:
        assert word in done.errors, f"'{word}' is not named"
    assert tree(workspace()) == before, "something was started"
    return done


# ---- exit status ----


@test
def the_exit_status_is_the_commands_own():
    assert brig("run", "--", "true").status == 0
    assert sh("exit 7").status == 7
    assert sh("exit 255").status == 255


@test
def a_signal_gives_128_and_its_number():
    assert sh("kill -TERM $$").status == 128 + signal.SIGTERM
    assert sh("kill -KILL $$").status == 128 + signal.SIGKILL


@test
def the_time_limit_gives_124_and_says_so():
    done = sh("echo early; sleep 60", "--timeout", "1s")
    assert done.status == 124
    assert done.stdout == b"early\n"
    assert "Command timed out" in done.errors and "--timeout" in done.errors


@test
def a_time_limit_ends_detached_descendants_too():
    done = sh("setsid sleep 60 & (sleep 60 &) ; sleep 60", "--timeout", "1s")
    assert done.status == 124


@test
def a_command_that_does_not_exist_gives_127():
    done = brig("run", "--", "no-such-command-anywhere")
    assert done.status == 127
    assert done.errors.startswith("brig: ") and "no-such-command-anywhere" in done.errors


@test
def a_file_that_is_not_executable_gives_126():
    (workspace() / "plain").write_text("data\n")
    done = brig("run", "--", "./plain")
    assert done.status == 126
    assert done.errors.startswith("brig: ") and "plain" in done.errors


@test
def a_folder_as_the_command_gives_126():
    assert brig("run", "--", "/usr").status == 126


@test
def no_command_at_all_gives_125():
    for args in (("run",), ("run", "--"), ("exec",), ("nonsense",)):
        assert brig(*args).status == 125, args


# ---- the command line ----


@test
def an_unknown_flag_is_refused_with_the_nearest_one():
    refused("--memroy", "1g", words=("--memroy", "--memory"))


@test
def a_word_of_other_programs_is_refused_with_brigs_own():
    for typed, hint in (("--readonly", "--policy readonly"), ("-m", "--memory SIZE"), ("--cwd", "--workdir PATH"), ("--rw", "--write PATH"),
                        ("-c", "brig exec")):
        done = brig("run", typed, "x", "--", "true")
        assert done.status == 125 and f"here it is {hint}" in done.errors, done
    assert "brig exec" in brig("shell", "--", "ls").errors
    assert "--mount SRC:DST" in brig("run", "--volume", "/srv:/data", "--", "true").errors


@test
def without_a_network_package_managers_do_not_try_again():
    asked = "echo $npm_config_fetch_retries $PIP_RETRIES $CARGO_NET_RETRY $npm_config_update_notifier"
    assert brig("exec", asked).text == "0 0 0 false\n"
    assert brig("exec", "--env", "PIP_RETRIES=7", asked).text == "0 7 0 false\n"
    assert brig("exec", "--network", "proxy", asked).text == "false\n"


@test
def a_failure_that_is_brigs_doing_is_explained():
    for command, hint in (("echo 'curl: (6) Could not resolve host: x' >&2; exit 6", "it had no network; --allow HOST or @GROUP"),
                          ("echo 'getaddrinfo EAI_AGAIN x.npmjs.org' >&2; exit 1", "--allow @npm opens one"),
                          ("echo 'error: could not write config file .git/config: Device or resource busy' >&2; exit 4", "'.git/config' is protected"), ("mkdir .vscode", "'.vscode' is protected")):
        done = brig("exec", command)
        assert done.status != 0 and "hint: " in done.errors and hint in done.errors, done
    done = brig("exec", "--policy", "readonly", "echo x > file")
    assert "hint: under policy readonly" in done.errors, done
    for command in ("mkdir -p sub/.vscode; mkdir sub/.vscode", f"mkdir -p {workspace()}/sub/.vscode; mkdir {workspace()}/sub/.vscode", "mkdir ~/.vscode ~/.vscode"):
        done = brig("exec", command)
        assert "File exists" in done.errors and "hint:" not in done.errors, ("the name is free there", done)
    for command in (f"mkdir {workspace()}/.vscode", "mkdir ./.vscode", "mkdir /workspace/.vscode"):
        assert "'.vscode' is protected" in brig("exec", command).errors, command
    for command in ("echo getaddrinfo >&2", "echo 'x.vscode: Permission denied' >&2; exit 1", "echo getaddrinfo; exit 1", "exit 1"):
        assert "hint:" not in brig("exec", command).errors, command
    assert "hint:" not in brig("exec", "--quiet", "curl -sS https://x.example/").errors
    assert "hint: did you mean 'env'?" in brig("run", "--", "evn").errors
    assert "hint:" not in brig("exec", "--network", "host", "echo getaddrinfo >&2; exit 1").errors


@test
def an_allowed_host_that_is_not_reached_is_told_once():
    done = brig("exec", "--allow", "dead.example", "--set", "egress.resolve=dead.example=127.0.0.1:1",
                "curl -sS -m 20 https://dead.example/; curl -sS -m 20 https://dead.example/")
    assert done.errors.count("dead.example:443 is allowed, but the host could not be reached; ") == 1 and "egress.upstream_proxy=URL" in done.errors, done


@test
def a_program_that_is_not_shown_is_named_with_the_option_that_shows_it():
    tool = scratch() / "bin/tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho ran\n")
    tool.chmod(0o755)
    done = brig("run", "--", tool)
    assert done.status == 127 and f"--read {tool.parent} shows it inside" in done.errors, done
    assert brig("run", "--read", tool.parent, "--", tool).text == "ran\n"
    own = home() / "tool"
    own.write_bytes(tool.read_bytes())
    own.chmod(0o755)
    done = brig("run", "--", own)
    assert done.status == 127 and f"--read {own} shows it inside" in done.errors, ("never all of the home folder", done)
    # As `npm install -g --prefix ~/.local` leaves it: not all of ~/.local, where keyrings are.
    local = scratch() / "owner/.local"
    package = local / "lib/node_modules/tool"
    for folder in (package, local / "bin"):
        folder.mkdir(parents=True)
    (package / "cli").write_text("#!/bin/sh\necho ran\n")
    (package / "cli").chmod(0o755)
    (local / "bin/packaged").symlink_to("../lib/node_modules/tool/cli")
    env = {"HOME": str(local.parent), "PATH": f"{local}/bin:/usr/bin:/bin"}
    done = brig("run", "--", "packaged", env=env)
    shown = ("--read", str(local / "bin"), "--read", str(package.parent))
    assert done.status == 127 and f"{' '.join(shown)} shows it inside" in done.errors, done
    assert brig("run", *shown, "--", "packaged", env=env).text == "ran\n"
    own.unlink()
    done = brig("exec", "cat /etc/login.defs")
    assert done.status != 0 and "hint: the host's '/etc/login.defs' is not shown inside; --read /etc/login.defs shows it" in done.errors, done
    assert brig("exec", "--read", "/etc/login.defs", "cat /etc/login.defs").status == 0
    for command in ("cat /etc/shadow", "cat /etc/login.defs.old", "echo /etc/login.defs; exit 1"):
        assert "hint" not in brig("exec", command).errors, command


@test
def a_credential_that_can_go_nowhere_is_told():
    env = {"GITHUB_TOKEN": "ghp_" + "a1b2c3d4e5f6" * 3}
    for rule, told in (("pypi.org", True), ("@pypi", True), ("api.github.com", False), ("@git", False), ("*.github.com", False), ("GET api.github.com/v1/", False)):
        done = brig("run", "--credential", "GITHUB_TOKEN", "--allow", rule, "--", "true", env=env)
        assert done.status == 0 and ("--allow api.github.com" in done.errors) == told, done


@test
def a_credential_for_the_host_service_says_that_none_goes_there():
    own = scratch() / "service.yaml"
    own.write_text("brig: 1\nnetwork: proxy\negress: {host_service: 9}\ncredentials: {MODEL_KEY: {host: 'host.brig.internal:9'}}\n")
    done = brig("run", "--config", own, "--credential", "MODEL_KEY", "--", "true", env={"MODEL_KEY": "k" * 20})
    assert done.status == 0 and "none is ever put in" in done.errors and "--allow host.brig.internal" not in done.errors, done


@test
def an_unknown_value_is_refused_with_the_nearest_one():
    refused("--policy", "readonyl", words=("readonyl", "'readonly'"))
    refused("--backend", "dokcer", words=("dokcer", "'docker'"))
    refused("--network", "nome", words=("nome", "'none'"))


@test
def an_unknown_command_is_refused_with_the_nearest_one():
    done = brig("rnu", "--", "true")
    assert done.status == 125
    assert "rnu" in done.errors and "run" in done.errors.replace("rnu", "")


@test
def a_flag_without_its_value_is_refused():
    done = brig("run", "--memory")
    assert done.status == 125 and "--memory" in done.errors


@test
def run_stops_at_the_first_word_that_is_no_option():
    done = brig("run", "echo", "--json", "--timeout")
    assert (done.status, done.stdout) == (0, b"--json --timeout\n")


@test
def a_value_may_follow_an_equals_sign():
    assert brig("run", "--timeout=10s", "--env=A=b=c", "--", "sh", "-c", "echo $A").stdout == b"b=c\n"


@test
def exec_takes_options_before_and_after_its_command_line():
    (scratch() / "seen").touch()
    after = brig("exec", "ls | sort", "--workdir", scratch())
    before = brig("exec", "--workdir", scratch(), "ls | sort")
    assert (after.status, after.stdout) == (0, b"seen\n")
    assert before.stdout == after.stdout


@test
def exec_refuses_a_second_command_line():
    assert brig("exec", "true", "false").status == 125


# ---- streams ----


@test
def stdin_passes_through():
    assert brig("run", "--", "cat", input=b"to the cat\n").stdout == b"to the cat\n"


@test
def binary_output_is_byte_exact():
    data = bytes(range(256)) * 4096
    assert brig("run", "--", "cat", input=data).stdout == data


@test
def stdout_and_stderr_stay_apart():
    done = sh("echo out; echo err >&2")
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")


# ---- the JSON object ----


@test
def json_has_every_member_of_the_contract():
    done = sh("echo out; echo err >&2; exit 3", "--json")
    r = done.json
    assert done.status == 3
    assert MEMBERS <= set(r), MEMBERS - set(r)
    assert LAYERS <= set(r["isolation"]), LAYERS - set(r["isolation"])
    assert (r["schema"], r["outcome"], r["exit_code"], r["signal"]) == (1, "exited", 3, None)
    assert (r["stdout"], r["stderr"], r["stdout_bytes"], r["stderr_bytes"]) == ("out\n", "err\n", 4, 4)
    assert sorted(r["output"].split()) == ["err", "out"]
    assert (r["backend"], r["error"], r["limits_hit"], r["denials"]) == ("native", None, [], [])
    assert set(r["egress"]) == {"requests", "allowed", "denied", "uninspected", "bytes_out", "bytes_in"}
    assert r["duration_ms"] >= 0 and r["setup_ms"] >= 0 and r["id"]


@test
def json_names_every_namespace_and_never_uid_0():
    i = brig("run", "--json", "--", "true").json["isolation"]
    assert all(i[k] is True for k in ("user_ns", "pid_ns", "net_ns", "mount_ns"))
    assert i["uid_inside"] == (uid() or 1000)
    assert i["seccomp"] == "default"
    assert i["cgroup"] in ("v1", "v2", "hybrid", "none")
    assert {"memory", "pids", "timeout", "output"} <= set(i["limits"])


@test
def json_tells_outcomes_apart():
    timeout = sh("sleep 60", "--json", "--timeout", "1s")
    assert (timeout.status, timeout.json["outcome"], timeout.json["limits_hit"]) == (124, "timeout", ["timeout"])
    killed = sh("kill -9 $$", "--json")
    assert (killed.status, killed.json["outcome"], killed.json["signal"]) == (137, "signalled", 9)
    missing = brig("run", "--json", "--", "no-such-command")
    assert (missing.status, missing.json["exit_code"]) == (127, 127)
    assert missing.json["outcome"] in ("failed", "refused") and missing.json["error"]["what"]


@test
def json_refusals_are_objects_too():
    done = brig("run", "--json", "--mount", "/nowhere/at/all:/data", "--", "true")
    r = done.json
    assert (done.status, r["outcome"], r["exit_code"]) == (125, "refused", 125)
    assert "/nowhere/at/all" in r["error"]["what"] and set(r["error"]) == {"code", "what", "hint"}


@test
def json_replaces_invalid_bytes_and_counts_them_all():
    r = sh(r"printf 'a\377b'", "--json").json
    assert (r["stdout"], r["stdout_bytes"]) == ("a\ufffdb", 3)


@test
def captured_output_is_capped_on_whole_characters_and_the_command_goes_on():
    done = sh("i=0; while [ $i -lt 50 ]; do printf é; i=$((i+1)); done; echo done >&2", "--json", "--output-limit", "9")
    r = done.json
    assert done.status == 0
    assert (r["stdout"], r["stdout_bytes"], r["stdout_truncated"]) == ("éééé", 100, True)
    assert (r["stderr"], r["stderr_truncated"]) == ("done\n", False)


# ---- environment ----


@test
def secrets_of_the_caller_do_not_arrive_and_the_language_does():
    secrets = {"GITHUB_TOKEN": "s3cret1", "AWS_SECRET_ACCESS_KEY": "s3cret2", "OPENAI_API_KEY": "s3cret3",
               "DATABASE_URL": "s3cret4", "MY_PASSWORD": "s3cret5", "SSH_AUTH_SOCK": "s3cret6", "LD_PRELOAD": ""}
    inside = brig("run", "--", "env", env={**secrets, "LANG": "C.UTF-8"}).text
    assert "s3cret" not in inside
    assert "LANG=C.UTF-8\n" in inside


@test
def an_unknown_variable_of_the_caller_stays_outside():
    assert "INNOCENT" not in brig("run", "--", "env", env={"INNOCENT": "x"}).text


@test
def env_sets_and_env_pass_passes():
    done = sh("echo $A $B", "--env", "A=one two", "--env-pass", "B", env={"B": "three"})
    assert done.stdout == b"one two three\n"


@test
def env_without_a_value_or_with_a_bad_name_is_refused():
    refused("--env", "A", words=("'A'", "--env-pass"))
    refused("--env", "1A=x", words=("1A",))
    refused("--env", "=x")


@test
def env_pass_of_a_secret_is_refused():
    refused("--env-pass", "GITHUB_TOKEN", words=("GITHUB_TOKEN",), env={"GITHUB_TOKEN": "s3cret"})


# ---- the world inside ----


@test
def the_user_has_a_name_and_is_not_root():
    done = sh("whoami && id -u")
    assert done.status == 0, done.errors
    assert done.text.split()[1] == str(uid() or 1000)
    assert done.text.split()[0] not in ("", "root")


@test
def home_and_tmp_can_be_written_and_are_private():
    (home() / "mine").write_text("private\n")
    done = sh("touch $HOME/a /tmp/b && ls -A $HOME /tmp && cat $HOME/mine")
    assert "a" in done.text.split() and "b" in done.text.split()
    assert "private" not in done.text
    assert not os.path.exists("/tmp/b") and not (home() / "a").exists()
    (home() / "mine").unlink()


@test
def system_folders_cannot_be_written():
    for path in ("/usr/x", "/etc/x", "/bin/x", "/x", "/proc/sys/kernel/hostname"):
        assert sh(f"echo x > {path}").status != 0, path


def as_owner(argv):
    """Of the workspace: with the newer system calls denied, root's is somebody else's."""
    owner = workspace().stat().st_uid
    return [*(["setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups", "--"] if os.geteuid() == 0 and owner else []), *map(str, argv)]


@test(backends=("native", "bwrap"))
def what_is_made_on_one_side_works_on_the_other():
    """A virtual environment, a worktree, a build tree: all of them write their own path down."""
    top = workspace()
    subprocess.run(as_owner(["/usr/bin/python3", "-m", "venv", "--without-pip", "out"]), cwd=top, check=True)
    for name in ("out", "in"):
        if name == "in":
            assert sh("python3 -m venv --without-pip in").status == 0
        tool = top / name / "bin/tool"
        tool.write_text(f"#!{top}/{name}/bin/python3\nimport sys; print(sys.prefix)\n")
        tool.chmod(0o755)
        want = f"{top}/{name}\n"
        assert subprocess.run(as_owner([tool]), capture_output=True, text=True, cwd=top).stdout == want, name
        assert sh(f"{name}/bin/tool; . {name}/bin/activate; tool").text == want * 2, name
        done = brig("run", "--", "tool", env={"PATH": f"{top}/{name}/bin:/usr/bin:/bin"})  # activated outside
        assert done.text == want, (name, done.text, done.errors)
    git = lambda *words: subprocess.run(as_owner(["git", *words]), cwd=top, capture_output=True, text=True, env=brig_environment())  # noqa: E731
    for words in (("init", "-q"), ("-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "--allow-empty", "-m", "x")):
        assert git(*words).returncode == 0
    assert sh("git worktree add -q wt").status == 0
    listed = git("worktree", "list").stdout
    assert f"{top}/wt " in listed and "prunable" not in listed and git("-C", "wt", "status", "--short").returncode == 0, listed
    r = brig("run", "--json", "--", "true").json
    assert r["workspace_target"] == str(top) and "repository" not in r, r
    (top / "below").mkdir()
    r = brig("run", "--json", "--workdir", top / "below", "--", "true").json
    assert r["workspace_target"] == str(top / "below"), r
    assert r.get("repository") == (str(top) if top.stat().st_uid == uid() else None), r  # nothing of somebody else's
    r = brig("run", "--json", "--workdir", top / "below", "--git", "none", "--", "true").json
    assert "repository" not in r, r


@test
def the_working_folder_is_the_workspace():
    (workspace() / "here").write_text("text\n")
    done = sh("pwd; cat here")
    assert done.text == f"{workspace()}\ntext\n"


@test
def workspace_write_writes_and_files_keep_their_owner():
    assert sh("echo new > file && mkdir folder").status == 0
    assert (workspace() / "file").read_text() == "new\n"
    owner = os.stat(workspace()).st_uid
    assert {os.stat(workspace() / n).st_uid for n in ("file", "folder")} == {owner}


@test
def readonly_does_not_write():
    (workspace() / "file").write_text("old\n")
    done = sh("cat file; echo new > file; touch other", "--policy", "readonly")
    assert done.stdout == b"old\n" and done.status != 0
    assert set(tree(workspace())) == {"file"} and (workspace() / "file").read_text() == "old\n"


@test
def network_none_has_a_loopback_and_nothing_else():
    done = sh("cat /proc/net/dev | tail -n +3 | cut -d: -f1; cat /proc/net/route | tail -n +2")
    assert done.text.split() == ["lo"]


@test
def host_processes_are_not_seen():
    seen = {int(n) for n in sh("ls /proc").text.split() if n.isdigit()}
    assert 1 not in seen and len(seen) < 10  # init is hidden: its command line names host paths


# ---- mounts ----


@test
def mounts_are_read_only_unless_rw():
    (scratch() / "a").write_text("text\n")
    assert sh("cat /data/a", "--mount", f"{scratch()}:/data").stdout == b"text\n"
    assert sh("touch /data/b", "--mount", f"{scratch()}:/data").status != 0
    assert set(tree(scratch())) == {"a"}
    assert sh("touch /data/b", "--mount", f"{scratch()}:/data:rw").status == 0
    assert set(tree(scratch())) == {"a", "b"}


@test
def read_and_write_show_a_path_at_its_own_place():
    (scratch() / "a").write_text("text\n")
    assert sh(f"cat {scratch()}/a", "--read", scratch()).stdout == b"text\n"
    assert sh(f"touch {scratch()}/b", "--read", scratch()).status != 0
    assert sh(f"touch {scratch()}/b", "--write", scratch()).status == 0
    assert (scratch() / "b").exists()


@test
def a_relative_mount_source_is_taken_from_the_current_folder():
    (workspace() / "sub").mkdir()
    (workspace() / "sub/a").write_text("text\n")
    assert sh("cat /data/a", "--mount", "sub:/data").stdout == b"text\n"


@test
def a_missing_source_is_refused():
    refused("--mount", f"{scratch()}/none:/data", words=(f"{scratch()}/none",))
    refused("--read", f"{scratch()}/none", words=(f"{scratch()}/none",))
    refused("--workdir", f"{scratch()}/none", words=(f"{scratch()}/none",))


@test
def a_symlinked_source_is_refused():
    (scratch() / "real").mkdir()
    (scratch() / "link").symlink_to("real")
    (scratch() / "real/below").mkdir()
    refused("--mount", f"{scratch()}/link:/data", words=("link",))
    refused("--mount", f"{scratch()}/link/below:/data", words=("link",))
    refused("--write", f"{scratch()}/link", words=("link",))


@test(as_user="root")
def a_source_that_the_user_inside_cannot_reach_is_refused_for_that():
    closed = scratch() / "closed"
    (closed / "below").mkdir(parents=True)
    closed.chmod(0o700)
    done = refused("--backend", "native", "--read", closed / "below", words=("cannot reach", str(closed)))
    assert "namespaces" not in done.errors
    closed.chmod(0o711)
    assert brig("run", "--backend", "native", "--read", closed / "below", "--", "ls", closed / "below").status == 0


@test
def a_special_file_as_source_is_refused():
    with socket.socket(socket.AF_UNIX) as s:
        os.chdir(scratch())  # the path of a socket is short
        s.bind("socket")
        os.mkfifo("pipe")
        refused("--mount", f"{scratch()}/socket:/data", words=("socket",))
        refused("--read", f"{scratch()}/pipe", words=("pipe",))
        refused("--mount", "/dev/null:/data", words=("/dev/null",))


@test
def two_mounts_at_one_place_are_refused():
    refused("--mount", f"{scratch()}:/data", "--mount", f"{workspace()}:/data", words=("/data",))
    refused("--mount", f"{scratch()}:/workspace", words=("/workspace",))


@test
def a_target_over_a_system_place_is_refused():
    for target in ("/proc", "/proc/self", "/dev", "/sys", "/", "/data/../proc", "relative"):
        refused("--mount", f"{scratch()}:{target}", words=("target",))


@test
def a_newline_in_a_name_is_refused():
    (scratch() / "a\nb").mkdir()
    refused("--mount", f"{scratch()}/a\nb:/data")
    refused("--mount", f"{scratch()}:/da\nta")
    refused("--workdir", f"{scratch()}/a\nb")


@test
def a_path_of_ones_own_is_named_where_it_hides_a_program():
    done = brig("run", "--env", "PATH=/x", "--", "ls")
    assert done.status == 127 and "PATH is set to '/x' inside" in done.errors and "--read" not in done.errors, done.errors
    assert "PATH is set" not in brig("run", "--env", "PATH=/x", "--", "no-such-program").errors
    assert brig("run", "--env", "PATH=/usr/bin:/bin", "--", "ls").status == 0


@test
def clumsy_words_are_answered_with_a_line_and_a_hint():
    (workspace() / "file").write_text("")
    (workspace() / "broken.yaml").write_text("brig: [1\n")
    (workspace() / "bytes.yaml").write_bytes(b"\xff\xfe")
    os.mkfifo(scratch() / "pipe")
    for options in (("--mount", "x"), ("--mount", ":"), ("--mount", f"{scratch()}:/x:rx"), ("--mount", f"{scratch()}:/workspace"),
                    ("--mount", f"{scratch()}/pipe:/x"), ("--read", "missing"), ("--read", "/"), ("--write", "/etc"), ("--read", "~nobody/x"),
                    ("--workdir", "missing"), ("--workdir", "file"), ("--workdir", ""), ("--env", "=x"), ("--env", "1A=x"), ("--env", "A\nB=x"),
                    ("--user", "nobody"), ("--user", "0"), ("--set", "nothing"), ("--set", "no.such.key=1"), ("--set", "limits.memory=much"),
                    ("--config", "missing"), ("--config", "/"), ("--profile", "odd"), ("--auto-pull", "maybe"), ("--allow", ""),
                    ("--credential", "X"), ("--policy", "readonly", "--write", "/srv"),
                    ("--policy", "full_access", "--backend", "docker"), ("--backend", "ssh"), ("--backend", "ssh", "--set", "ssh.host=-x"),
                    ("--backend", "native", "--image", "x"), ("--backend", "bwrap", "--network", "bridge")):
        refused(*options, env={"BRIG_BACKEND": None})
    for args, status in ((["run"], 125), (["run", "--", ""], 125), (["run", "--memory"], 125), (["exec", "a", "b"], 125), (["python"], 125),
                         (["python", "missing.py"], 125), (["python", "-c"], 125), (["script", "missing.sh"], 125), (["run", "--", "./file"], 126),
                         (["run", "--", "/etc"], 126), (["run", "--", "no-such-command"], 127), (["run", "--", "/no/such"], 127),
                         (["version", "x"], 125), (["doctor", "--role"], 125), (["config", "show", "--config"], 125), (["help", "ruin"], 125),
                         (["script", "--interpreter", "", "file"], 125), (["audit", "list", "--limit", "-1"], 125), (["audit", "list", "--limit"], 125),
                         (["config", "check", "broken.yaml"], 1), (["config", "check", "bytes.yaml"], 1)):
        done = brig(*args)
        lines = done.errors.splitlines()
        assert done.status == status and len(lines) == 2 and lines[0].startswith("brig: ") and lines[1].startswith("hint: "), (args, done.errors)


@test
def a_variable_that_is_nearly_brigs_own_is_refused():
    for name, meant in (("BRIG_POLCIY", "BRIG_POLICY"), ("BRIG_CPU", "BRIG_CPUS"), ("BRIG_NETWROK", "BRIG_NETWORK")):
        refused(env={name: "none"}, words=(name, f"did you mean {meant}?"))
    assert brig("run", "--", "true", env={"BRIG_SANDBOX": "native", "BRIG_TEAM_COLOUR": "red"}).status == 0  # somebody else's


@test
def a_folder_that_is_gone_or_closed_is_said_with_its_remedy():
    gone, closed = workspace() / "gone", workspace() / "closed"
    for path in (gone, closed):
        path.mkdir()
    os.chdir(gone)
    gone.rmdir()
    done = brig("run", "--", "true", cwd=".")
    assert done.status == 125 and "current folder is gone" in done.errors and "hint: " in done.errors, done.errors
    os.chdir(workspace())
    if identity() == "user":
        closed.chmod(0o500)
        done = brig("run", "--", "true", cwd=closed)
        assert done.status == 125 and f"chmod u+rwx '{closed}'" in done.errors, done.errors


# ---- workspace ----


@test(by_root=True)
def a_workspace_that_is_mounted_read_only_is_said_and_read():
    folder = scratch() / "folder"
    folder.mkdir()
    (folder / "file").write_text("text\n")
    os.chown(folder, os.stat(workspace()).st_uid, os.stat(workspace()).st_gid)  # root's own would have to be idmapped
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        done = sh("cat file; echo x > file", cwd=folder)
        assert done.text == "text\n" and done.status != 0 and "the workspace is mounted read-only" in done.errors, done.errors
        done = sh("cat file", "--policy", "readonly", cwd=folder)
        assert (done.text, done.errors) == ("text\n", "")
    finally:
        subprocess.run(["umount", folder], check=True)


@test
def an_explicit_workdir_of_root_or_home_is_refused():
    refused("--workdir", "/", words=("'/'",))
    refused("--workdir", home(), words=(str(home()),))
    refused("--workdir", "~")


@test
def started_at_home_the_workspace_is_private_and_empty():
    (home() / "mine").write_text("private\n")
    done = sh("pwd; ls -A; touch new", cwd=home())
    (home() / "mine").unlink()
    assert (done.status, done.stdout) == (0, b"/workspace\n")
    assert "workspace" in done.errors and tree(home()) == {}


@test
def quiet_leaves_notes_out():
    assert brig("run", "--quiet", "--", "true", cwd=home()).stderr == b""


# ---- limits ----


@test
def negative_and_absurd_limits_are_refused():
    for flag, values in {"--memory": ("-1", "0", "1k", "lots", "99999999999999g", "1.5x"),
                         "--timeout": ("-5s", "0", "forever", "9999999999h"),
                         "--cpus": ("-1", "0", "nan", "1e9"), "--pids": ("-1", "0", "many", "99999999999"),
                         "--output-limit": ("-1", "zero"), "--cpu-shares": ("-1", "0"), "--disk": ("-1", "0")}.items():
        for value in values:
            refused(flag, value, words=(flag.lstrip("-"), value))


@test
def the_number_of_processes_is_limited():
    done = sh("i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done; wait", "--pids", "20", "--timeout", "10s")
    assert done.status != 0


@test(slow=True)
def memory_is_limited_and_the_outcome_is_typed():
    code = "x = bytearray(300 * 1024 * 1024)\nfor i in range(0, len(x), 4096): x[i] = 1\nimport time; time.sleep(5)"
    done = brig("run", "--json", "--memory", "64m", "--", "python3", "-c", code)
    assert (done.status, done.json["outcome"], done.json["limits_hit"]) == (137, "oom", ["memory"])


# ---- what is refused on purpose ----


@test
def networks_that_do_not_exist_yet_are_refused_honestly():
    refused("--network", "proxy", "--backend", "ssh", words=("network", "ssh"))
    refused("--network", "bridge", "--backend", "bwrap", words=("bridge", "bwrap", "native"))
    # What native lacks for it can be installed: nobody is sent to an engine that is not there either.
    done = brig("run", "--backend", "native", "--network", "bridge", "--", "true", env={"DOCKER_HOST": "unix:///nonexistent/socket"})
    assert done.status == 0 or "network bridge needs" in done.errors and "ocker" not in done.errors, done


@test
def full_access_needs_the_second_opt_in_and_the_refusal_prints_the_line_that_would_run():
    for options in (("--policy", "full_access"), ("--backend", "none")):
        done = brig("run", *options, "--", "touch", "it's started")
        assert done.status == 125 and not tree(workspace())
        assert "--i-know-this-is-not-a-sandbox" in done.errors
        line = next(l for l in done.errors.splitlines() if "--i-know-this-is-not-a-sandbox" in l)
        assert "touch" in line and options[1] in line
    # The line is exact: what it says runs. Code was taken out of the arguments, and is not shown again.
    done = brig("exec", "echo it \"was\" meant > made", "--policy", "full_access", "--timeout", "9s")
    line = next(l for l in done.errors.splitlines() if l.startswith("hint: ")).partition("if that is intended: brig ")[2]
    assert done.status == 125 and brig(*shlex.split(line)).status == 0 and (workspace() / "made").read_text() == "it was meant\n"
    done = brig("python", "--policy", "full_access", "-c", "print('secret')")
    assert done.status == 125 and "--i-know-this-is-not-a-sandbox" in done.errors and "secret" not in done.errors


@test
def full_access_with_the_opt_in_runs_on_the_host_with_a_warning():
    done = brig("run", "--policy", "full_access", "--i-know-this-is-not-a-sandbox", "--", "touch", scratch() / "made")
    assert done.status == 0 and (scratch() / "made").exists()
    assert "not a sandbox" in done.errors or "no sandbox" in done.errors


@test
def nobody_is_root_inside():
    refused("--user", "0", words=("root",))


# ---- the other commands ----


@test(as_user="user")
def version_is_one_line():
    for args in (("version",), ("--version",)):
        done = brig(*args)
        assert done.status == 0 and done.text.startswith("brig ") and done.text.count("\n") == 1


@test
def plan_prints_json_and_runs_nothing():
    done = brig("plan", "--memory", "64m", "--", "touch", "started")
    assert done.status == 0 and isinstance(json.loads(done.stdout), dict)
    assert tree(workspace()) == {}


@test
def plan_refuses_what_run_refuses():
    assert brig("plan", "--policy", "nonsense", "--", "true").status == 125


@test(as_user="user")
def schema_is_a_json_schema():
    done = brig("schema")
    assert done.status == 0
    schema = json.loads(done.stdout)
    assert "$schema" in schema and "json-schema.org" in schema["$schema"]
    assert "policy" in json.dumps(schema) and "workspace_write" in json.dumps(schema)
    one = schema["properties"]["credentials"]["additionalProperties"]
    assert one["anyOf"] == [{"required": [way]} for way in ("host", "service", "token_url")], one
    nothing, place = one["properties"]["from"]["anyOf"]
    assert nothing["const"] == "nothing" and place["properties"]["env"] == {"type": "string"}, one


@test(as_user="user")
def no_word_that_the_schema_offers_is_refused_by_every_run():
    def words(part, above=""):
        for name, value in part.get("properties", {}).items():
            yield from words(value, f"{above}{name}.") if "properties" in value else [(above + name, w) for w in value.get("enum", [])]

    offered = list(words(json.loads(brig("schema").stdout)))
    assert ("policy", "readonly") in offered and ("workspace.mode", "direct") in offered, offered
    for key, word in offered:
        assert "in this version of brig" not in brig("plan", "--set", f"{key}={word}", "--", "true").errors, (key, word)


@test
def doctor_says_which_layers_there_are():
    done = brig("doctor")
    assert done.status in (0, 1)
    assert "[pass]" in done.text and "seccomp" in done.text.lower() and "landlock" in done.text.lower()


@test(as_user="root")
def root_may_give_a_workspace_of_another_user():
    os.chown(workspace(), 4242, 4242)
    assert sh("touch file").status == 0
    assert os.stat(workspace() / "file").st_uid == 4242
    assert identity() == "root"


@test
def as_a_shell_every_word_is_the_shells_own():
    done = brig("sh", "-c", "echo $0 $1; [[ a == a ]]; exit 3", "name", "--json")
    assert (done.status, done.text) == (3, "name --json\n")
    for name, words in (("brig-sh", ["-lc", "echo $(pwd)"]), ("brig-bash", ["-l", "-c", "pwd"])):  # what $SHELL can name: one word
        link = scratch() / name
        link.symlink_to(brig_path())
        argv = brig_argv(*words)
        argv[argv.index(str(brig_path()))] = str(link)
        p = subprocess.run(argv, env=brig_environment(), cwd=workspace(), capture_output=True, text=True, check=False)
        assert (p.returncode, p.stdout) == (0, f"{workspace()}\n"), p
    (workspace() / "file").write_text("echo file $1")
    assert brig("sh", "file", "one").text == "file one\n"
    assert brig("sh", input=b"echo piped").text == "piped\n"
    # No option of brig's is taken from them, wherever it stands.
    refused = brig("sh", "--network", "host", "-c", "true")
    assert refused.status == 2 and "bash: --network" in refused.errors, refused
    assert brig("sh", "-c", "cat /proc/net/dev | grep -c :", "--network", "host").text == "1\n"
    assert "usage: brig sh" in brig("sh", "--help").text


if __name__ == "__main__":
    sys.exit(main())
