#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Configuration as users meet it: files in five dialects, layers, trust, what `config` prints."""

import contextlib
import difflib
import hashlib
import json
import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import WHOLE, brig, home, main, scratch, state, test, workspace  # noqa: E402

BRIG = """\
brig: 1
policy: readonly
network: proxy
profile: strict
limits:
  memory: 128m
  timeout: 20s
  pids: 40
  tmp_exec: false
env:
  set:
    GREETING: hello
    LEVEL: 3
  pass:
    - EDITOR
read:
  - /etc/ssl
mounts:
  - source: /usr/share
    target: /data
egress:
  deny:
    - evil.example
labels:
  team: blue
"""
ROLE = """\
apiVersion: initrunner/v1
kind: Agent
metadata:
  name: runner
spec:
  role: Runs code
  model:
    provider: openai
    name: some-model
  tools:
    - type: python
      timeout_seconds: 30
  security:
    sandbox:
      backend: auto
      network: none
      memory_limit: 64m
      cpu_limit: 0.5
      read_only_rootfs: true
"""
RLM = """\
sandbox:
  runtime: docker
  default_timeout_seconds: 10
  memory_limit_mb: 128
  docker:
    image: python:3.11-slim
    memory_limit_mb: 128
    cpus: 0.5
    network_enabled: false
"""
AGENTS = """\
image: example/runtime:1
memory_limit: 128m
cpu_limit: 0.5
labels:
  team: blue
envs:
  A: b
"""
IRONCLAW = """\
SANDBOX_POLICY=readonly
SANDBOX_TIMEOUT_SECS=20
SANDBOX_MEMORY_LIMIT_MB=128
"""
FILES = {"f.yaml": BRIG, "role.yaml": ROLE, "rlm.yaml": RLM, "agents.yaml": AGENTS, "iron.env": IRONCLAW}


def put(name, text, folder=None):
    """A file in the scratch folder; its path."""
    path = (folder or scratch()) / name
    path.write_text(text)
    return path


def check(text, name="f.yaml"):
    return brig("config", "check", put(name, text))


def show(path, *more):
    return brig("config", "show", "--config", path, "--json", *more).json


@contextlib.contextmanager
def no_trust_left():
    """Takes the list of trusted files away afterwards."""
    try:
        yield
    finally:
        for name in ("trusted", "trusted.new"):
            (home().parent / "state/brig" / name).unlink(missing_ok=True)


# ---- config check ----


@test
def rules_of_the_door_say_something_only_where_there_is_one():
    for setting in ("egress.host_service=18080", "egress.deny=x.example", "egress.https_only=false", "egress.rate.total=5",
                    "egress.resolve=a.example=127.0.0.9", "leaks.scan=false", "leaks.rules=private-key=warn", "egress.inspect=false"):
        key = setting.partition("=")[0]
        for network in ("none", "host"):
            done = brig("run", "--network", network, "--set", setting, "--", "true")
            assert done.status == 125 and f"{key} says nothing under network '{network}'" in done.errors, done
            assert "hint: only the door reads it: --network proxy has one" in done.errors, done
        assert brig("run", "--set", setting, "--", "true").status == 125
        assert brig("plan", "--network", "proxy", "--set", setting, "--", "true").status == 0, setting
        assert brig("plan", "--allow", "b.example", "--set", setting, "--", "true").status == 0, setting
    # What is the default anyway asks for nothing, and no more does an empty list.
    assert brig("run", "--set", "leaks.scan=true", "--set", "egress.https_only=true", "--", "true").status == 0


@test
def a_file_that_sets_the_network_is_held_to_its_rules_and_standing_rules_are_not():
    rules = "egress:\n  deny:\n    - x.example\nleaks:\n  strict: false\n"
    file = scratch() / "a.yaml"
    file.write_text("brig: 1\nnetwork: none\n" + rules)
    done = brig("run", "--config", file, "--", "true")
    assert done.status == 125 and f"{file}:5:5: egress.deny says nothing under network 'none'" in done.errors, done
    assert brig("config", "check", file).status == 1
    # The flag takes the network away that the file has rules for: the file is not wrong.
    file.write_text("brig: 1\nnetwork: proxy\n" + rules)
    assert brig("run", "--config", file, "--network", "none", "--", "true").status == 0
    file.write_text("brig: 1\n" + rules)
    assert brig("run", "--config", file, "--", "true").status == 0
    user = scratch() / "xdg/brig/config.yaml"
    user.parent.mkdir(parents=True)
    user.write_text("network: none\n" + rules)
    assert brig("run", "--", "true", env={"XDG_CONFIG_HOME": str(scratch() / "xdg")}).status == 0


@test
def a_host_on_the_command_line_opens_the_door_that_a_standing_file_leaves_shut():
    def network(*words, env=None):
        done = brig("plan", *words, "--", "true", env=env or {})
        assert done.status == 0, done.errors
        return done.json["network"]

    user = scratch() / "xdg/brig/config.yaml"
    user.parent.mkdir(parents=True)
    user.write_text("network: none\n")
    project = workspace() / ".brig.yaml"
    project.write_text("brig: 1\nnetwork: none\n")  # as init leaves it in an empty folder
    env = {"XDG_CONFIG_HOME": str(scratch() / "xdg")}
    for more in ({}, env):
        assert network(env=more) == "none" and network("--allow", "a.example", env=more) == "proxy"
        refused = brig("plan", "--network", "none", "--allow", "a.example", "--", "true", env=more)
        assert refused.status == 125 and "--allow says nothing under network 'none'" in refused.errors, refused
    # What was said for this run alone is not overruled.
    refused = brig("plan", "--allow", "a.example", "--", "true", env={"BRIG_NETWORK": "none"})
    assert refused.status == 125 and "--allow says nothing" in refused.errors, refused
    refused = brig("plan", "--config", project, "--allow", "a.example", "--", "true")
    assert refused.status == 125 and "--allow says nothing" in refused.errors, refused
    # Hosts of a file are standing rules, and open nothing.
    user.write_text("egress: {allow: [a.example]}\n")
    assert network(env=env) == "none"


@test
def hosts_that_cannot_be_meant_are_refused_with_the_right_word():
    for word, what, hint in (
            ("localhost", "'localhost' is the sandbox itself", "egress.host_service=8080; inside it is http://host.brig.internal:8080"),
            ("GET localhost:18080/v1/", "'localhost' is the sandbox itself", "--network proxy --set egress.host_service=18080"),
            ("app.localhost", "'app.localhost' is the sandbox itself", "egress.host_service"),
            ("127.0.0.1:80", "'127.0.0.1' is an address", "egress.host_service"),
            ("[::1]:80", "'[::1]:80' is an address", "egress.host_service"),
            ("npm", "'npm' is a group, not a host", "write @npm; npm:443 is a host of that name"),
            ("pypi", "'pypi' is a group, not a host", "write @pypi")):
        done = brig("run", "--allow", word, "--", "true")
        assert done.status == 125 and what in done.errors and hint in done.errors, done
    for word in ("npm:443", "@npm", "npm.example", "localhost.example"):
        assert brig("plan", "--allow", word, "--", "true").status == 0, word
    (workspace() / "a.yaml").write_text("egress:\n  allow:\n    - npm\n")
    done = brig("run", "--config", "a.yaml", "--dialect", "brig", "--", "true")
    assert done.status == 125 and "a.yaml:3:5: egress.allow: 'npm' is a group" in done.errors, done


@test
def rlm_code_reads_its_own_words_for_a_time_limit():
    config = workspace() / "rlm.yaml"
    config.write_text("sandbox:\n  runtime: docker\n  default_timeout_seconds: 1\n  docker: {network_enabled: false}\n")
    done = brig("run", "--config", config, "--backend", "native", "--", "sleep", "60")
    assert done.status == 124 and done.errors.startswith("brig: Execution timeout after 1 seconds\n"), done.errors


@test
def a_file_that_is_right_says_its_dialect():
    for name, text, dialect in zip(FILES, FILES.values(), ("brig", "initrunner", "rlm", "agents", "ironclaw")):
        done = check(text, name)
        first, *rest = done.text.splitlines()
        assert done.status == (2 if "Docker is not available" in done.text else 0), done.errors
        assert first.startswith(f"{scratch() / name}: ok ({dialect}, ") and first.endswith(" settings)"), first
        assert any(line.startswith("backend: ") for line in rest)


@test
def a_mistake_exits_1_with_file_line_column_and_the_nearest_word():
    for text, where, words in (
            ("brig: 1\npolcy: readonly\n", "2:1", ("unknown key 'polcy'", "'policy'")),
            ("brig: 1\nlimits:\n  memroy: 1g\n", "3:3", ("'memroy' in limits", "'memory'")),
            ("brig: 1\nbackend: dokcer\n", "2:10", ("'dokcer'", "'docker'")),
            ("brig: 1\nlimits: {memory: lots}\n", "2:18", ("memory", "'lots' is not a size")),
            ("brig: 1\nread_only_root: yes\n", "2:17", ("bare 'yes'", "true")),
            ("brig: 1\nread: &a [/x]\n", "2:7", ("anchors",)),
            ("brig: 1\nbrig: 1\n", "2:1", ("appears twice",)),
            ("brig: 1\nread: /x\n", "2:7", ("expected a list",)),
            ("brig: 3\n", "1:7", ("version '3'",))):
        done = check(text)
        assert done.status == 1, text
        assert done.stdout == b""
        assert f"f.yaml:{where}: " in done.errors, done.errors
        for word in words:
            assert word in done.errors, (word, done.errors)


@test
def what_no_backend_can_do_is_a_line_and_no_mistake_of_the_file():
    done = check("brig: 1\nbackend: native\nruntime: x\n")
    assert done.status == 0
    assert "f.yaml:3:10: backend 'native' cannot honour runtime (backend 'docker' can)" in done.text


@test
def a_file_that_is_not_there_or_no_file_is_an_error():
    assert brig("config", "check", scratch() / "absent.yaml").status == 1
    assert brig("config", "check", scratch()).status == 1
    assert brig("config", "check").status == 125
    assert "did you mean 'brig config check'" in brig("config", "chekc").errors


@test
def a_document_of_no_known_dialect_says_how_to_settle_it():
    done = check("limits: {pids: 9}\n")
    assert done.status == 1 and "--dialect" in done.errors and "brig: 1" in done.errors
    assert brig("config", "check", scratch() / "f.yaml", "--dialect", "brig").status == 0
    assert "'rlm'" in brig("config", "check", scratch() / "f.yaml", "--dialect", "rml").errors


# ---- what a run would refuse ----


ROLE_HEAD = "apiVersion: initrunner/v1\nkind: Agent\nspec:\n  role: x\n"


@test
def check_refuses_what_a_run_refuses():
    for text, word in (("brig: 1\nmounts:\n  - source: ./absent\n    target: /data\n", "does not exist"),
                       ("brig: 1\nread:\n  - ./absent\n", "does not exist"),
                       (ROLE_HEAD + "  security:\n    sandbox:\n      backend: auto\n      bind_mounts:\n"
                        "        - {source: ./absent, target: /data}\n", "does not exist")):
        done = check(text)
        assert done.status == 1 and word in done.errors and "ok (" not in done.text, done
        run = brig("run", "--config", scratch() / "f.yaml", "--", "true")
        assert run.status == 125 and word in run.errors, run
        doctor = brig("doctor", "--config", scratch() / "f.yaml")
        assert doctor.status == 1 and "[fail] mount_policy: " in doctor.text and word in doctor.text, doctor
    # What this machine lacks is a line, for the file is right; but it cannot run here.
    done = brig("config", "check", put("f.yaml", "brig: 1\nbackend: docker\n"), env={"DOCKER_HOST": "unix:///nowhere"})
    assert done.status == 2 and "ok (brig" in done.text and "a run would be refused: Docker is not available" in done.text, done


@test
def the_opt_in_is_not_promised_to_be_enough():
    done = check("brig: 1\nbackend: none\n")
    assert done.status == 0 and "backend none runs on the host" in done.text, done
    for line, key in (("network: none", "3:10: backend 'none' cannot honour network"),
                      ("limits: {memory: 1g}", "3:18: backend 'none' cannot honour limits.memory")):
        done = check(f"brig: 1\nbackend: none\n{line}\n")
        assert done.status == 0 and f"a run would be refused: {scratch() / 'f.yaml'}:{key}" in done.text, done
        run = brig("run", "--config", scratch() / "f.yaml", "--i-know-this-is-not-a-sandbox", "--", "true")
        assert run.status == 125 and key in run.errors and "--network" not in run.errors, run
    done = brig("run", "--backend", "none", "--memory", "1g", "--i-know-this-is-not-a-sandbox", "--", "true")
    assert "backend 'none' cannot honour --memory" in done.errors, done


@test
def an_empty_list_asks_for_nothing_and_show_can_be_given_back():
    text = "brig: 1\ncopies: []\ncompanions: {}\nports: []\nbuiltin_tools: []\ncommand: []\n"
    assert "native would run it" in check(text).text
    assert brig("run", "--config", scratch() / "f.yaml", "--", "true").status == 0
    assert "native would run it, by brig sandbox create" in check("brig: 1\nbuiltin_tools: [git]\n").text
    refused = brig("run", "--config", scratch() / "f.yaml", "--", "true")
    assert refused.errors.count("cannot honour builtin_tools") == 1 and "brig sandbox create" in refused.errors, refused
    for more in ((), ("--config", put("agents.yaml", "image: x\n"))):
        text = brig("config", "show", *more).text
        done = check(text if text.startswith("brig: 1") else "brig: 1\n" + text)
        assert done.status in (0, 2) and "cannot honour" not in done.text, done


# The block of InitRunner's page, whole.
BLOCK = """
security:
  sandbox:
    backend: none
    network: none
    allowed_read_paths: []
    allowed_write_paths: []
    memory_limit: "256m"
    cpu_limit: 1.0
    read_only_rootfs: true
    bind_mounts: []
    env_passthrough: []
    docker: {image: "python:3.12-slim", user: "auto", runtime: null, extra_args: []}
    ssh: {host: my-build-box, remote_cwd: /srv/work, identity_file: null, config_file: null, connect_timeout: 10, control_persist: "60s"}
"""


@test
def initrunners_whole_block_with_backend_none_runs_after_the_opt_in():
    path = put("role.yaml", BLOCK)
    done = brig("run", "--config", path, "--", "id", "-u")
    assert done.status == 125 and "if that is intended: brig run --i-know-this-is-not-a-sandbox" in done.errors, done
    done = brig("run", "--i-know-this-is-not-a-sandbox", "--config", path, "--", "id", "-u")
    assert done.status == 0 and done.text.strip().isdigit() and "its settings with it" in done.errors, done
    # What the caller adds is no part of the block.
    done = brig("run", "--i-know-this-is-not-a-sandbox", "--config", path, "--memory", "1g", "--", "true")
    assert done.status == 125 and "cannot honour --memory" in done.errors, done


@test
def a_workdir_by_its_name_inside_is_this_folder():
    (workspace() / "mine").write_text("")
    done = brig("exec", "ls", "--workdir", "/workspace")
    assert done.status == 0 and "mine" in done.text and "/workspace is what the folder is called inside" in done.errors, done
    assert brig("exec", "ls", "--workdir", "/workspaces").status == 125


@test
def ironclaws_full_access_and_disabled_run_after_the_opt_in():
    for env in ({"SANDBOX_POLICY": "full_access"}, {"SANDBOX_ENABLED": "false"},
                {"SANDBOX_ENABLED": "false", "SANDBOX_IMAGE": "x", "SANDBOX_MEMORY_LIMIT_MB": "64", "SANDBOX_ALLOWLIST": "a.example"}):
        done = brig("exec", "id -u", env=env)
        assert done.status == 125, done
        hint = done.errors.partition("if that is intended: brig ")[2].splitlines()[0]
        assert hint == "exec --i-know-this-is-not-a-sandbox 'id -u'", done
        done = brig("exec", "--i-know-this-is-not-a-sandbox", "id -u", env=env)
        assert done.status == 0 and done.text.strip().isdigit(), done
        assert ("its settings with it" in done.errors) == (len(env) > 2), done
    done = brig("exec", "--policy", "full_access", "--i-know-this-is-not-a-sandbox", "id -u", env={"SANDBOX_ENABLED": "true"})
    assert done.status == 0, done
    # No file that is named is the second opt-in, wherever it lies.
    path = put("a.env", "SANDBOX_ENABLED=false\nSANDBOX_ALLOW_FULL_ACCESS=true\n")
    done = brig("exec", "--config", path, "true")
    assert done.status == 125 and "cannot ask for a run on the host" in done.errors, done
    path = put("a.env", "SANDBOX_ENABLED=false\n")
    assert brig("exec", "--config", path, "true").status == 125
    assert brig("exec", "--config", path, "--i-know-this-is-not-a-sandbox", "true").status == 0
    # A policy that protects, and a flag, are requests all the same.
    for env, flags, word in (({"SANDBOX_ENABLED": "false", "SANDBOX_POLICY": "readonly"}, (), "SANDBOX_POLICY: backend 'none' cannot honour policy readonly"),
                             ({"SANDBOX_ENABLED": "false"}, ("--allow", "a.example"), "cannot honour --allow")):
        done = brig("exec", "--i-know-this-is-not-a-sandbox", *flags, "true", env=env)
        assert done.status == 125 and word in done.errors, done


@test
def ironclaws_own_file_alone_counts():
    (home() / ".ironclaw").mkdir()
    try:
        (home() / ".ironclaw/.env").write_text("OTHER=x\nSANDBOX_POLICY=readonly\n")
        text = brig("config", "show", "--origin").text
        assert "policy: readonly  # user" in text and ".ironclaw/.env:2" in text, text
        (home() / ".ironclaw/.env").write_text("OTHER=x\n")
        assert "policy: workspace_write  # default" in brig("config", "show", "--origin").text
        assert brig("run", "--", "true").status == 0
    finally:
        (home() / ".ironclaw/.env").unlink()
        (home() / ".ironclaw").rmdir()


@test
def walls_of_a_role_that_are_not_there_are_refused():
    tool = "  tools:\n    - {type: python, network_disabled: true, timeout_seconds: 1}\n"
    path = put("role.yaml", ROLE_HEAD + tool + "  security:\n    sandbox: {backend: auto, network: host}\n")
    devices = "print(open('/proc/net/dev').read().count(':'))"
    assert brig("config", "check", path).status == 0
    # The tool alone goes without; the control is the same file for a command.
    assert brig("python", "--config", path, "-c", devices).text == "1\n"
    done = brig("python", "--config", path, "--json", "-c", "import socket; socket.create_connection(('192.0.2.1', 80), 1)")
    assert done.status == 1 and "Network is unreachable" in done.json["stderr"] and done.json["isolation"]["network"] == "none", done
    assert "1" != brig("run", "--config", path, "--", "grep", "-c", ":", "/proc/net/dev").text.strip()
    done = brig("python", "--config", path, "--backend", "none", "--i-know-this-is-not-a-sandbox", "-c", "1")
    assert done.status == 125 and "role.yaml:6:40: network_disabled cannot be had" in done.errors, done
    # Where there is no network at all it holds; what the tool says of time is what is told.
    done = brig("python", "--config", path, "--network", "none", "-c", "import time; time.sleep(30)")
    assert done.status == 124 and "it ran for 1s" in done.errors, done


@test
def no_flag_reopens_what_a_dialect_closes():
    files = {"agents": put("agents.yaml", "image: x\n"), "rlm": put("rlm.yaml", "sandbox:\n  runtime: docker\n"),
             "ironclaw": put("a.env", "SANDBOX_ENABLED=true\n")}
    for dialect, path in files.items():
        for flags, word in ((("--network", "host"), "network 'host'"),
                            (("--network", "proxy", "--set", "egress.host_service=80"), "egress.host_service")):
            done = brig("run", "--config", path, *flags, "--", "true")
            assert done.status == 125 and f"{word}: the host's network and services stay closed" in done.errors, done
            assert f"dialect '{dialect}'; this will never be supported" in done.errors, done
    path = put("role.yaml", ROLE_HEAD + "  security:\n    sandbox: {backend: auto, network: host}\n")
    assert brig("run", "--config", path, "--", "true").status == 0


# ---- config show ----


@test
def json_has_bytes_milliseconds_and_the_keys_of_the_file():
    s = show(put("f.yaml", BRIG))
    assert s["dialect"] == "brig"
    assert s["policy"] == "readonly"
    assert s["limits"]["memory"] == 128 << 20 and s["limits"]["timeout"] == 20000
    assert s["limits"]["cpus"] is None and s["limits"]["disk"] is None
    assert s["env"] == {"set": {"GREETING": "hello", "LEVEL": "3"}, "pass": ["EDITOR"]}
    assert s["mounts"] == [{"source": "/usr/share", "target": "/data", "read_only": True}]
    assert s["user"] == "auto"
    assert "origin" not in s


@test
def a_dialect_without_a_workspace_names_none():
    assert show(put("agents.yaml", "image: busybox\n"))["workspace"]["path"] is None
    assert show(put("f.yaml", BRIG))["workspace"]["path"] == str(workspace())


@test
def origin_says_who_wrote_each_setting():
    path = put("f.yaml", BRIG)
    origin = show(path, "--origin")["origin"]
    assert origin["limits.memory"] == {"by": "file", "where": f"{path}:6:11"}
    assert origin["limits.files"] == {"by": "default", "where": None}
    text = brig("config", "show", "--config", path, "--origin", env={"BRIG_PIDS": "30"}).text
    assert f"  memory: 128m  # file {path}:6:11\n" in text
    assert "  pids: 30  # environment BRIG_PIDS\n" in text
    assert "network: proxy  # file" in text


@test
def what_show_prints_is_a_brig_yaml_again():
    first = brig("config", "show", "--config", put("f.yaml", BRIG)).text
    assert brig("config", "show", "--config", put("again.yaml", first)).text == first


@test
def every_default_is_shown():
    text = brig("config", "show").text
    for line in ("policy: workspace_write", "backend: auto", "network: none", "  memory: 2g", "  pids: 1024",
                 "  timeout: 600s", "  output: 64k", "  cpus: null"):
        assert line + "\n" in text, line


# ---- runs ----


@test
def a_run_takes_its_settings_from_the_file_and_flags_win():
    path = put("f.yaml", "brig: 1\nenv: {set: {A: file, B: file}}\nlimits: {timeout: 1h}\n")
    line = "echo $A $B"
    assert brig("exec", "--config", path, line).text == "file file\n"
    assert brig("exec", line, "--config", path, "--env", "A=flag").text == "flag file\n"
    plan = brig("plan", "--config", path, "--", "true")
    assert plan.status == 0 and json.loads(plan.stdout)["backend"] == "native"


@test
def a_policy_of_the_file_holds():
    path = put("f.yaml", "brig: 1\npolicy: readonly\n")
    assert brig("run", "--config", path, "--", "touch", "x").status != 0
    assert not (workspace() / "x").exists()


@test
def a_role_runs_with_its_limits():
    done = brig("run", "--json", "--config", put("role.yaml", ROLE.replace("0.5", "1.0")), "--", "sh", "-c", "pwd; echo $((6*7))")
    assert done.json["stdout"] == "/work\n42\n", done.errors


@test
def a_refused_file_stops_the_run_with_125():
    path = put("f.yaml", "brig: 1\npolicy: readonyl\n")
    for command in ("run", "plan"):
        done = brig(command, "--config", path, "--", "touch", "started")
        assert done.status == 125 and f"{path}:2:9: policy: " in done.errors
    done = brig("run", "--json", "--config", path, "--", "touch", "started")
    assert (done.json["outcome"], done.json["error"]["code"]) == ("refused", "config")
    assert not (workspace() / "started").exists()
    assert brig("run", "--config", scratch() / "absent", "--", "true").status == 125


@test
def a_file_cannot_lead_to_the_host_without_the_second_word():
    for text in ("policy: full_access", "backend: none"):
        path = put("f.yaml", f"brig: 1\n{text}\n")
        done = brig("run", "--config", path, "--", "touch", "started")
        assert done.status == 125 and "--i-know-this-is-not-a-sandbox" in done.errors
    env = {"SANDBOX_POLICY": "full_access", "SANDBOX_ALLOW_FULL_ACCESS": "true"}
    assert brig("run", "--", "touch", "started", env=env).status == 125
    assert not (workspace() / "started").exists()


@test
def a_file_may_not_steer_the_loader_or_mount_the_system():
    for line in ("env: {set: {LD_PRELOAD: /x.so}}", "env: {set: {BASH_ENV: x}}", "mounts: [\"/etc:/x\"]",
                 "mounts: [\"/:/x\"]", "write: [/usr/local]", "mounts: [\"/var/lib:/x:rw\"]",
                 "docker: {extra_args: [--privileged]}"):
        done = check(f"brig: 1\n{line}\n")
        assert done.status == 1, line


# ---- the project's file ----


@test
def a_projects_file_tightens_at_once():
    put(".brig.yaml", "policy: readonly\n", workspace())
    assert brig("run", "--", "touch", "x").status != 0
    (workspace() / ".brig.yaml").unlink()
    assert brig("run", "--", "touch", "x").status == 0


@test
def a_projects_file_loosens_only_when_it_is_trusted_as_it_stands():
    with no_trust_left():
        path = put(".brig.yaml", "network: host\nlimits: {memory: 3g}\n", workspace())
        done = brig("run", "--", "true")
        assert done.status == 125 and f"{path}:1:10: network: " in done.errors and "brig allow" in done.errors
        assert brig("allow").status == 0
        assert brig("run", "--quiet", "--", "true").status == 0
        assert brig("config", "show", "--json").json["limits"]["memory"] == 3 << 30
        path.write_text(path.read_text() + "# changed\n")
        done = brig("run", "--", "true")
        assert done.status == 125 and "has changed since it was trusted" in done.errors and "read what has changed" in done.errors, done.errors
        assert brig("allow", path).status == 0
        assert brig("run", "--quiet", "--", "true").status == 0
        assert "no longer trusted" in brig("allow", "--revoke").text
        assert brig("run", "--", "true").status == 125


@test
def what_runs_inside_cannot_trust_itself():
    with no_trust_left():
        done = brig("run", "--", "sh", "-c", "printf 'network: host\\n' > .brig.yaml")
        assert "'.brig.yaml': made during the run" in done.errors and not (workspace() / ".brig.yaml").exists(), done.errors
        (workspace() / ".brig.yaml").write_text("network: none\n")
        assert brig("allow").status == 0
        done = brig("run", "--", "sh", "-c", "printf 'network: host\\n' > .brig.yaml")
        assert done.status != 0 and (workspace() / ".brig.yaml").read_text() == "network: none\n", done.errors
        assert brig("run", "--json", "--", "true").json["isolation"]["network"] == "none"
        assert brig("allow", "--revoke").status == 0
        (workspace() / ".brig.yaml").unlink()


@test
def allow_wants_a_file_that_reads():
    with no_trust_left():
        assert brig("allow").status == 125
        put(".brig.yaml", "netwrok: host\n", workspace())
        done = brig("allow")
        assert done.status == 125 and "'netwrok'" in done.errors


@test
def allow_shows_what_it_trusts():
    with no_trust_left():
        text = "network: host\nlimits: {memory: 3g, pids: 10}\nenv: {set: {PATH: /workspace/bin, CI: '1'}}\negress: {deny: [x.example]}\n"
        put(".brig.yaml", text, workspace())
        done = brig("allow")
        assert done.status == 0, done.errors
        assert hashlib.sha256(text.encode()).hexdigest() in done.text
        loosened = [line.strip() for line in done.text.splitlines() if line.startswith("  ")]
        assert [line.split(":")[0] for line in loosened] == ["network", "limits.memory", "env.set.PATH"] and "memory: 3g" in done.text and '"/workspace/bin"' in done.text, done.text
        put(".brig.yaml", "policy: readonly\n", workspace())
        assert "loosens nothing" in brig("allow").text


@test
def allow_follows_no_link_and_waits_for_nobody():
    """The bytes shown, recorded and trusted are one reading of a plain file."""
    with no_trust_left():
        real = put("real.yaml", "network: host\n", scratch())
        place = workspace() / ".brig.yaml"
        place.symlink_to(real)
        assert "symbolic link" in brig("allow").errors and brig("run", "--", "true").status == 125
        place.unlink()
        (scratch() / "way").symlink_to(workspace())
        put(".brig.yaml", "network: host\n", workspace())
        done = brig("allow", scratch() / "way/.brig.yaml")
        assert done.status == 125 and str(place) in done.errors, done.errors
        place.unlink()
        os.mkfifo(place)
        for reader in ((), (os.open(place, os.O_RDWR | os.O_NONBLOCK),)):  # nobody writes; and somebody might
            assert brig("allow", timeout=10).status == 125
            assert brig("allow", place, timeout=10).status == 125
            assert "is not a file" in brig("run", "--", "true", timeout=8).errors
            for fd in reader:
                os.close(fd)
        place.unlink()
        assert brig("allow", "/dev/zero", timeout=10).status == 125
        assert brig("allow", workspace()).status == 125
        assert not (state() / "brig/trusted").exists()


@test
def show_names_who_wrote_each_entry():
    mine = put("mine.yaml", "brig: 1\nleaks: {rules: {hex64: block}}\nenv: {set: {A: mine, B: mine}}\negress: {deny: [m.example]}\n")
    put(".brig.yaml", "env: {set: {CI: '1'}}\negress: {deny: [p.example]}\nlabels: {team: blue}\n", workspace())
    shown = brig("config", "show", "--config", mine, "--origin", "--json").json
    assert shown["env"]["set"] == {"A": "mine", "B": "mine", "CI": "1"}
    assert shown["origin"]["env.set"]["entries"] == {"A": "file", "B": "file", "CI": "project"}
    assert dict(zip(shown["egress"]["deny"], shown["origin"]["egress.deny"]["entries"])) == {"m.example": "file", "p.example": "project"}
    assert shown["origin"]["labels"] == {"by": "project", "where": f"{workspace()}/.brig.yaml:3:9", "entries": {"team": "project"}}
    text = brig("config", "show", "--config", mine, "--origin").text
    line = next(line for line in text.splitlines() if line.strip().startswith("set:"))
    assert "# file" in line and "; CI: project" in line and "A: project" not in line, line


@test
def many_entries_are_shown_at_once():
    path = put("many.yaml", "brig: 1\nread:\n" + "".join(f"- /srv/a/{i}\n" for i in range(60000)))
    assert len(brig("config", "show", "--config", path, "--json", timeout=10).json["read"]) == 60000
    path.write_text(path.read_text() + "- /srv/a/7\n")
    assert "two mounts at '/srv/a/7'" in brig("config", "show", "--config", path).errors


@test
def a_users_file_sets_defaults_and_a_strangers_is_refused():
    folder = home() / ".config/brig"
    folder.mkdir(parents=True)
    try:
        path = put("config.yaml", "limits: {pids: 77}\n", folder)
        shown = brig("config", "show", "--json", "--origin").json
        assert shown["limits"]["pids"] == 77
        assert shown["origin"]["limits.pids"] == {"by": "user", "where": f"{path}:1:16"}
        path.chmod(0o666)
        assert "written by everybody" in brig("run", "--", "true").errors
    finally:
        path.unlink()
        folder.rmdir()
        folder.parent.rmdir()


# ---- broken in a thousand ways ----

TOKENS = ("#", "&a ", "*a", "!!str ", "- ", "|", ">", "{", "}", "[", "]", ":", "'", '"', "~", "yes", "none", "host", "true",
          "false", "0", "-1", "99999999999g", "..", "/", "\t", "  ", "---\n", "...\n", "<<: ", "%", "\x00", "\xff", "\u2028")
RANKS = {"policy": ["readonly", "workspace_write", "full_access"], "profile": ["strict", "default", "debug"],
         "network": ["none", "proxy", "bridge", "host"]}
FLAGS = {"read_only_root": True, "limits.tmp_exec": False, "egress.https_only": True, "allow_full_access": False}
GRANTS = ("read", "write", "mounts", "env.pass", "copies", "egress.allow", "egress.groups", "ports", "builtin_tools",
          "docker.extra_args", "companions")


def mutate(text, rng):
    """The text with one to three accidents."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        lines = text.split("\n")
        at, line = rng.randrange(len(text) + 1), rng.randrange(len(lines))
        how = rng.randrange(9)
        if how == 0:
            text = text[:at] + text[at + 1:]
        elif how == 1:
            text = text[:at] + rng.choice(TOKENS) + text[at:]
        elif how == 2:
            text = text[:at] + chr(rng.randrange(32, 127)) + text[at + 1:]
        elif how == 3:
            text = text[:at]
        else:
            other = rng.randrange(len(lines))
            if how == 4:
                del lines[line]
            elif how == 5:
                lines.insert(other, lines[line])
            elif how == 6:
                lines[line], lines[other] = lines[other], lines[line]
            elif how == 7:
                lines[line] = "  " + lines[line]
            else:
                lines[line] = lines[line].removeprefix("  ")
            text = "\n".join(lines)
    return text


def flat(shown):
    """{dotted key: value} without what is not a setting."""
    found = {}
    for key, value in shown.items():
        if key in ("origin", "dialect"):
            continue
        if isinstance(value, dict) and key not in ("labels", "companions"):
            found.update({f"{key}.{name}": v for name, v in value.items()})
        else:
            found[key] = value
    return found


def weaker(key, was, now):
    """Does the setting hold less back than it did?"""
    if key in RANKS:
        return RANKS[key].index(now) > RANKS[key].index(was)
    if key in FLAGS:
        return was is FLAGS[key] and now is not was
    if key in GRANTS:
        return any(x not in was for x in now)
    if key == "egress.deny":
        return any(x not in now for x in was)
    if key == "backend":
        return now == "none" and was != "none"
    if key == "mount_roots":
        return now != was and (not now or any(x not in was for x in now) and bool(was))
    if key.startswith("limits.") and key != "limits.tmp_exec":
        return was is not None and (now is None or now > was)
    return False


def block(lines, where):
    """The lines of one setting: from its key to the end of what is indented below it. From 0."""
    depth = [len(x) - len(x.lstrip()) for x in lines]
    at = where
    while at and (lines[at].lstrip().startswith("- ") or ":" not in lines[at] and "=" not in lines[at]):
        at -= 1
    end = at + 1
    while end < len(lines) and (depth[end] > depth[at] or depth[end] == depth[at] and lines[end].lstrip().startswith("- ")):
        end += 1
    return range(at, end)


def line_of(shown, key):
    where = shown["origin"][key]["where"]
    return int(where.rsplit(":", 2 if where.count(":") > 1 else 1)[1]) - 1 if where and ":" in where else None


def excused(key, base, base_text, now, now_text):
    """Was it this very setting that the accident hit?"""
    a, b = base_text.split("\n"), now_text.split("\n")
    steps = difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    gone = {i for tag, i, j, _, _ in steps if tag != "equal" for i in range(i, j)}
    new = {i for tag, _, _, i, j in steps if tag != "equal" for i in range(i, j)}
    before, after = line_of(base, key), line_of(now, key)
    return before is not None and bool(gone & set(block(a, before))) or after is not None and bool(new & set(block(b, after)))


@test(as_user="user", limit=240)
def mutated_files_neither_crash_nor_weaken_in_silence():
    rng = random.Random(20250)
    bases = {name: (text, show(put(name, text, workspace()), "--origin")) for name, text in FILES.items()}
    resolved, failures = 0, []
    total = 60 if os.environ.get("LIGHT") else 1000 if WHOLE else 300  # always the same ones; a start under the sanitizers takes its time
    for n in range(total):
        name = rng.choice(list(FILES))
        text, base = bases[name]
        mutant = mutate(text, rng)
        path = workspace() / f"m-{name}"
        path.write_bytes(mutant.encode("utf-8" if "\xff" not in mutant else "latin-1", "replace"))
        done = brig("config", "show", "--config", path, "--json", "--origin")
        assert done.status in (0, 125), f"{n}: status {done.status}\n{mutant}"
        if done.status:
            assert done.errors.startswith("brig: "), f"{n}: no error text\n{mutant}"
            continue
        resolved += 1
        was, now = flat(base), flat(done.json)
        for key in was:
            if weaker(key, was[key], now[key]) and not excused(key, base, text, done.json, mutant):
                failures.append(f"{n} {name}: {key} {was[key]} -> {now[key]}\n{mutant}")
    print(f"{resolved} of {total} resolved")
    assert not failures, f"{len(failures)} weaker in silence:\n" + "\n".join(failures[:5])
    assert total / 10 < resolved < total * 0.9, resolved  # the test would prove little otherwise


if __name__ == "__main__":
    sys.exit(main())
