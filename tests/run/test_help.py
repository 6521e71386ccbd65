#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the program says about itself: --help on one screen, manual pages, completion in real shells. All three are compared with the tables."""

import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import FACTOR, TOP, brig, brig_argv, brig_environment, brig_path, home, installed_hidden, main, scratch, shown_on, skip, start_brig, test, wait_until, workspace  # noqa: E402

BUILD = pathlib.Path(os.environ.get("BRIG") or TOP / "build/brig").absolute().parent
PAGES = BUILD / "docs"
LINES, COLUMNS = 24, 80


def commands():
    return re.findall(r"^  (\S+) ", brig("--help=all").text, re.M)


def verbs(name):
    """Commands of a command, as its own help lists them."""
    return re.findall(r"^  ([a-z-]+)  ", brig(name, "--help").text, re.M) if name in ("audit", "bundle", "sandbox") else []


def joined(text):
    """The rows of a help, each in one line."""
    return re.sub(r"\n {30,}(?=\S)", " ", text)


def flags(text):
    """Options at the beginning of a row."""
    return {w for head in re.findall(r"^  ((?:-\w, )?--[a-z][\w-]*(?:, --?[a-z][\w-]*)*)", joined(text), re.M) for w in re.findall(r"--[a-z][\w-]*", head)}


@test(as_user="user")
def a_word_that_is_nearly_right_is_told_the_right_one():
    for words, meant in ((("batch", "x", "--job", "1"), "'--jobs'"), (("agent", "--prmpt", "x"), "'--prompt'"), (("wrap", "--lst"), "'--list'"), (("run", "--netwrok", "none"), "'--network'"),
                         (("dashboard", "--noopen"), "'brig dashboard --no-open'"), (("mcp", "instal", "codex"), "'brig mcp install'"), (("cache", "claer"), "'brig cache clear'"),
                         (("daemon", "stauts"), "'brig daemon status'"), (("rnu",), "'brig run'")):
        done = brig(*words)
        assert done.status == 125 and f"did you mean {meant}?" in done.errors, (words, done.errors)
    done = brig("cache", "quite-another")
    assert done.status == 125 and "did you mean" not in done.errors and "brig cache --help" in done.errors, done.errors


@test(as_user="user")
def an_option_without_its_value_takes_no_command_for_one():
    for words, name in ((("run", "--read"), "--read"), (("run", "-e"), "-e"), (("learn", "--save"), "--save"), (("batch", "--out"), "--out"), (("wrap", "--branch"), "--branch"),
                        (("sandbox", "create", "--name"), "--name"), (("audit", "list", "--type"), "--type"), (("bundle", "pack", "--output"), "--output")):
        done = brig(*words, "--", "true")
        assert done.status == 125 and f"option '{name}' needs a value" in done.errors, (words, done.errors)
    assert list(workspace().iterdir()) == []
    assert brig("run", "--env=X=--", "--", "sh", "-c", 'test "$X" = --').status == 0  # said so, it is one


@test(as_user="user")
def words_of_other_tools_are_told_brigs_own():
    for word, want in (("claude", "brig wrap claude"), ("ps", "brig sandbox list"), ("attach", "brig sandbox exec -t"), ("rm", "brig sandbox delete"),
                       ("--verion", "'brig --version'"), ("--json", "brig run --json -- COMMAND"), ("cowsay", "brig run -- cowsay")):
        done = brig(word)
        assert done.status == 125 and f"'{word}'" in done.errors and want in done.errors, (word, done.errors)
    done = brig("run", "--write", home(), "--", "true")
    assert done.status == 125 and "your home folder" in done.errors and "system" not in done.errors, done.errors


@test(as_user="user")
def without_brig_more_a_run_works_and_the_rest_says_what_is_missing():
    alone = scratch() / "alone"
    alone.mkdir(mode=0o755)
    shutil.copy(brig_path(), alone / "brig")
    (alone / "brig").chmod(0o755)
    (alone / "brigd").symlink_to("brig")
    (workspace() / "brig-more").write_text("#!/bin/sh\necho fooled\n")  # neither the folder nor PATH is asked
    (workspace() / "brig-more").chmod(0o755)

    def said(name, *words):
        argv = [*brig_argv()[:-1], str(alone / name), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=workspace(), env={**brig_environment(), "PATH": f"{workspace()}:/usr/bin:/bin"})

    with installed_hidden():
        assert said("brig", "run", "--", "echo", "it runs").stdout == "it runs\n"
        for name, *words in (["brig"], ["brig", "help"], ["brig", "daemon"], ["brigd"], ["brig", "rnu"]):
            done = said(name, *words)
            assert done.returncode == 125 and "brig-more is not installed" in done.stderr and "hint: make install" in done.stderr and "fooled" not in done.stdout, (name, words, done)


@test(as_user="user")
def a_list_of_processes_shows_brig_whichever_program_it_became():
    brig("run", "--", "true")
    for words, program in ((("run", "--", "sleep", "9"), "brig"), (("mcp",), "brig-more"), (("audit", "tail"), "brig-audit")):
        p = start_brig(*words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        at = pathlib.Path(f"/proc/{p.pid}")
        try:
            assert wait_until(lambda: pathlib.Path(os.readlink(at / "exe")).name == program and (at / "comm").read_text() == "brig\n"), (words, (at / "comm").read_text())
        finally:
            p.terminate()
            p.communicate()


@test(as_user="user")
def each_help_fits_a_screen():
    shown = [(), *((c,) for c in commands() if c not in ("sh", "help")), *((c, v) for c in commands() for v in verbs(c))]
    assert len(shown) > 40, shown
    for words in shown:
        done = brig(*words, "--help")
        lines = done.text.splitlines()
        assert done.status == 0 and not done.errors, done
        assert len(lines) < LINES, f"brig {' '.join(words)} --help has {len(lines)} lines"
        assert all(len(line) <= COLUMNS for line in lines), f"brig {' '.join(words)} --help: {max(lines, key=len)}"
    for line in brig("run", "--help=all").text.splitlines():
        assert len(line) <= COLUMNS or line.lstrip().startswith("--set"), line


@test(as_user="user")
def help_names_every_command_and_option():
    top = brig("--help").text
    for c in commands():
        assert re.search(rf"^  {c} ", top, re.M) or re.search(rf"\b{c}\b", top[top.index("\n  also "):]), c
        assert brig("help", c).text == brig(c, "--help").text or c in ("sh", "help"), c
    text = brig("run", "--help").text
    assert all(f"--{w}" in text for w in ("workdir", "allow", "policy", "memory", "timeout", "mount", "env", "json", "tty", "publish")), text
    agent = brig("agent", "--help=all").text  # whose -p is its own
    assert agent.count("  -p, ") == 1 and "  --publish" in agent and "exit status: 0; 1 " in agent
    assert {"--policy", "--env-pass", "--report-fd"} <= flags(brig("run", "--help=all").text)


@test(as_user="user")
def every_command_and_option_is_in_a_manual_page_and_nothing_else():
    if not PAGES.is_dir():
        return  # a build with sanitizers, or for another machine, writes none
    page = {p.name.removesuffix(".scd"): p.read_text().replace("\\", "") for p in PAGES.glob("*.scd")}
    everything = "\n".join(page.values())
    known = set()
    for c in commands():
        assert f"*brig {c}*" in page["brig.1"], c
        mine = page.get(f"brig-{c}.1") or page.get(f"brig-{c}.8") or (page["brig-run.1"] if c in ("exec", "plan", "python", "script", "sh", "shell") else page["brig.1"])
        assert f"*brig {c}*" in mine, c
        for help_text in [brig(c, "--help=all").text if c != "sh" else "", *(brig(c, v, "--help").text for v in verbs(c))]:
            options = flags(help_text)
            known |= options | set(re.findall(r"--[a-z][\w-]*", help_text))
            run = flags(brig("run", "--help=all").text)
            for option in options - (run if c not in ("run", "proxy") else set()):
                assert re.search(rf"\*{option}\*|\*{option}\b", mine), f"{option} of brig {c}"
    said = set(re.findall(r"^(?:\*-\w\*, )?\*(--[a-z][\w-]*)\*", everything, re.M))
    assert said <= known, f"pages name options that there are not: {said - known}"
    schema = json.loads(brig("schema").stdout)

    def keys(part, above=""):
        for name, value in part["properties"].items():
            yield from keys(value, f"{above}{name}.") if "properties" in value else [above + name]

    settings = set(keys(schema))
    services = {x["const"] for x in schema["properties"]["credentials"]["additionalProperties"]["properties"]["service"]["oneOf"]}
    of_settings, _, of_services = page["brig.yaml.5"].partition("\n# SERVICES\n")
    for text, wanted in ((of_settings, settings), (of_services, services)):
        listed = set(re.findall(r"^\*([a-z][a-z0-9_.-]*)\*$", text, re.M))
        assert listed == wanted, listed ^ wanted


@test(as_user="user")
def the_manual_pages_are_clean():
    if not PAGES.is_dir() or FACTOR > 1:
        return  # an emulated machine has neither man nor the shells
    pages = sorted(p for p in PAGES.iterdir() if re.search(r"\.\d$", p.name))
    assert len(pages) >= 15, pages
    for p in pages:
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", p], capture_output=True, text=True, env=os.environ | {"LC_ALL": "C.UTF-8", "MANWIDTH": "80"}, check=False)
        assert done.returncode == 0 and not done.stderr, (p, done.stderr)
        said = {w for w in re.findall(r"\b(?:brig|libbrig)[\w.-]*\(\d\)", done.stdout)}
        assert all((PAGES / w.replace("(", ".").rstrip(")")).exists() for w in said), (p, said)


@test(as_user="user")
def answers_come_as_json_too():
    assert json.loads(brig("version", "--json").text) == {"version": brig("version").text.split()[1]}
    (scratch() / "good.yaml").write_text("brig: 1\nlimits: {memory: 1g}\n")
    (scratch() / "bad.yaml").write_text("brig: 1\nlimts: {memory: 1g}\n")
    good, bad = (brig("config", "check", "--json", scratch() / name) for name in ("good.yaml", "bad.yaml"))
    said = json.loads(good.text)
    assert (good.status, said["ok"], said["here"], said["dialect"], said["settings"]) == (0, True, True, "brig", 1), said
    said = json.loads(bad.text)
    assert (bad.status, said["ok"], bad.errors) == (1, False, "") and "limts" in said["error"] and "limits" in said["hint"], said


@test(as_user="user")
def what_changes_something_answers_as_json_too():
    (workspace() / ".brig.yaml").write_text("network: proxy\negress: {allow: [example.org]}\n")
    said = json.loads(brig("allow", "--json").text)
    assert said["trusted"] and said["file"].endswith("/.brig.yaml") and len(said["sha256"]) == 64, said
    assert said["loosens"]["network"] == "proxy" and said["loosens"]["egress.allow"] == ["example.org"] and "role" not in said, said
    said = json.loads(brig("allow", "--json", "--revoke").text)
    assert said["was_trusted"] and not said["trusted"], said
    # What a companion does not have is not told, and to a person it is told in lines.
    (workspace() / ".brig.yaml").write_text("companions: {db: {image: 'postgres:16', env: {KEY: hidden}}, cache: {command: [redis-server], limits: {memory: 1g}, network: bridge}}\n")
    lines = brig("allow").text.splitlines()
    at = lines.index("  companions:")
    assert [line.strip() for line in lines[at + 1:-1]] == ["db:", 'image: "postgres:16"', "env:", 'KEY: "***"', "cache:", 'command: ["redis-server"]', "limits:", 'memory: "1g"', 'network: "bridge"'], lines
    assert json.loads(brig("allow", "--json").text)["loosens"]["companions"]["db"] == {"image": "postgres:16", "env": {"KEY": "***"}}
    (workspace() / "role.yaml").write_text("apiVersion: initrunner/v1\nkind: Agent\nmetadata: {name: a}\nspec:\n  role: x\n"
                                           "  model: {provider: openai, name: m, base_url: 'https://h.example', api_key_env: K}\n  tools: [{type: shell}]\n")
    role = json.loads(brig("allow", "--json", "role.yaml").text)["role"]
    assert role == {"model": "m", "server": "https://h.example", "key": "K", "shell": True, "python": False, "scripts": []}, role
    for dry in (("--dry-run",), ()):
        said = json.loads(brig("mcp", "install", "claude-code", "--json", *dry).text)
        assert said["changes"] and said["written"] == (not dry) and "brig" in said["entry"] and said["backup"] is None, said
    assert json.loads(brig("mcp", "install", "claude-code", "--json").text)["changes"] is False
    (home() / ".claude.json").unlink()


@test(as_user="user")
def mistakes_are_answered_with_a_hint():
    """What a slip of the finger gets, of every command."""
    wrong = [(c, "--no-such-option") for c in commands() if c not in ("sh", "help", "completion", "version", "schema")]
    wrong += [("agent", "--model"), ("sandbox",), ("sandbox", "get"), ("sandbox", "update"), ("sandbox", "exec", "x", "--env"), ("daemon", "--listen"), ("daemon", "token", "add"),
              ("daemon", "--listen", "0.0.0.0:1"), ("mcp", "install"), ("mcp", "--token-file"), ("config",), ("config", "check"), ("config", "check", "none.yaml"), ("audit", "bogus"), ("audit", "show", "nosuch"),
              ("audit", "list", "--since", "xx"), ("image", "pull"), ("schema", "x"), ("help", "nosuch"), ("completion",), ("wrap",), ("wrap", "nosuch"), ("proxy", "a", "b"), ("run",), ("run", "--memory"),
              ("run", "--set", "x=y", "--", "true"), ("run", "--mount", "x", "--", "true"), ("python", "none.py"), ("script", "none.sh"), ("doctor", "--role", "none.yaml"), ("allow", "none.yaml"), ("cache", "bogus")]
    for words in wrong:
        done = brig(*words)
        assert done.status != 0 and "hint: " in done.errors + done.text, done


@test(as_user="user")
def no_colours_are_written():
    """Neither on a pipe nor, with NO_COLOR or without, on a terminal: brig's own words are plain."""
    for env in ({}, {"NO_COLOR": "1"}):
        for words in (("doctor",), ("config", "show", "--origin"), ("audit", "list"), ("--help",), ("run", "--memroy", "1")):
            master, slave = pty.openpty()
            p = start_brig(*words, env={"TERM": "xterm-256color", **env}, stdout=slave, stderr=slave)
            os.close(slave)
            said = shown_on(master)
            p.wait()
            assert said and b"\x1b" not in said, (words, said)
    assert brig("run", "--", "sh", "-c", "echo $NO_COLOR", env={"NO_COLOR": "yes"}).text == "yes\n"


# ---- completion ----


def script(shell):
    path = scratch() / f"brig.{shell}"
    path.write_bytes(brig("completion", shell).stdout)
    return path


@test(as_user="user")
def completion_scripts_parse():
    for shell in ("bash", "zsh", "fish") if FACTOR == 1 else ("bash",):
        if not shutil.which(shell):
            skip(f"no {shell}")
        done = subprocess.run([shell, "-n", script(shell)], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not done.stderr, (shell, done.stderr)
    assert brig("completion", "tcsh").status == 125


def completed_by_bash(lines):
    """{line: words} for many lines at once."""
    asked = "".join(f"COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _brig; echo \"${{COMPREPLY[@]}}\"\n" for line in lines)
    done = subprocess.run(["bash", "-c", f"source {script('bash')}\n{asked}"], capture_output=True, text=True, env={"PATH": f"{brig_path().parent}:/usr/bin:/bin"}, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return dict(zip(lines, map(str.split, done.stdout.splitlines())))


@test(as_user="user")
def bash_completes_every_command_and_option():
    names = commands()
    lines = ["brig ''", *(f"brig {c} --" for c in names), "brig run --policy w", "brig sandbox e", "brig config c", "brig help sand", "brig mcp install c", "brig mcp i", "brig run --allow @n", "brig run --allow @ n", "brig run --allow @", "brig run --allow ''"]
    got = completed_by_bash(lines)
    assert set(names) <= set(got["brig ''"])
    for c in names:
        wanted = flags(brig(c, "--help=all").text) if c not in ("sh", "help") else {"--help"}
        assert wanted - {"--help"} <= set(got[f"brig {c} --"]), (c, wanted - set(got[f"brig {c} --"]))
    assert got["brig run --policy w"] == ["workspace_write"] and got["brig config c"] == ["check"]
    assert got["brig mcp install c"] == ["claude-code", "claude-desktop", "codex", "cursor"] and got["brig mcp i"] == ["install"]
    # Bash ends a word at "@", and completes what follows; unless it was told not to.
    assert got["brig run --allow @n"] == ["@npm"] and got["brig run --allow @ n"] == ["npm"] and {"npm", "pypi"} < set(got["brig run --allow @"]) and "@npm" in got["brig run --allow ''"]
    assert set(got["brig sandbox e"]) == {"exec", "execs", "events"} and got["brig help sand"] == ["sandbox"]


@test(as_user="user")
def fish_completes_every_command_and_option():
    if FACTOR > 1:
        return
    if not shutil.which("fish"):
        skip("no fish")
    names = [c for c in commands() if c != "sh"]
    asked = "".join(f"complete -C 'brig {c} --' | string split -f 1 \\t; echo '#'\n" for c in names)
    home = scratch() / "home"
    home.mkdir(exist_ok=True)
    done = subprocess.run(["fish", "--no-config", "-c", f"source {script('fish')}\ncomplete -C 'brig ' | string split -f 1 \\t; echo '#'\n{asked}"], capture_output=True, text=True,
                          env={"PATH": f"{brig_path().parent}:/usr/bin:/bin", "HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_DATA_HOME": str(home), "XDG_CACHE_HOME": str(home), "TERM": "dumb"}, check=False)
    first, *rest = [set(part.split()) for part in done.stdout.split("#")]
    assert set(names) <= first, (first, done.stderr)
    for c, got in zip(names, rest):
        wanted = flags(brig(c, "--help=all").text) if c != "help" else set()
        assert wanted - {"--help"} <= got, (c, wanted - got)


@test(as_user="user")
def zsh_has_every_command_and_option():
    """zsh completes only with a terminal and a line editor; its functions are loaded, and what they hand over is looked at."""
    if FACTOR > 1:
        return
    if not shutil.which("zsh"):
        skip("no zsh")
    ask = f"""
        _describe() {{ print -l -- ${{names%%:*}} }}
        compadd() {{ print -l -- "$@" }}
        _arguments() {{ for a in "$@"; do a=${{a#\\*}}; print -r -- ${{${{a%%\\[*}}%%=*}}; done }}
        _files() {{ : }}
        CURRENT=2 words=(brig ''); source {script('zsh')}; print -- '#'
        for c in {' '.join(commands())}; do CURRENT=3 words=(brig $c --); _brig; print -- '#'; done"""
    done = subprocess.run(["zsh", "-f", "-c", ask], capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    first, *rest = [set(part.split()) for part in done.stdout.split("#")]
    assert set(commands()) <= first, (commands(), first)
    for c, got in zip(commands(), rest):
        wanted = flags(brig(c, "--help=all").text) if c not in ("sh", "help") else {"--help"}
        assert wanted <= got | {"--help"}, (c, wanted - got)


if __name__ == "__main__":
    sys.exit(main())
