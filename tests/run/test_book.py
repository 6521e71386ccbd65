#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The documents as their readers use them: every command line is run, every YAML block checked, every link followed.

A block of a document is run by a shell, line by line as it stands there, in a project that has what the documents speak of. The
`brig` that it finds is a front (FRONT below): what needs nothing but this machine is run by the real program; a command inside that
needs a network, a compiler or a model is planned instead (`brig plan`, `wrap --dry-run`); what would serve for ever is given to its
parser alone. Lines of other programs are run only if they are listed. A line that none of this can do anything with is in NOT_RUN,
with the reason; a row there that matches nothing is an error.
"""

import collections
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import daemon  # noqa: E402
from harness import FACTOR, TOP, brig, brig_environment, brig_path, main, scratch, test, workspace  # noqa: E402
from sdk import as_identity, finish  # noqa: E402

DOCUMENTS = sorted([TOP / "README.md", TOP / "SECURITY.md", TOP / "CONTRIBUTING.md", *(TOP / "docs").glob("*.md"), *(TOP / "docs/recipes").glob("*.md"), *(TOP / "docs/releases").glob("*.md"), *(TOP / "docs/dialects").glob("*.md")])  # pages of design have diagrams, no command lines
PAGES = sorted((TOP / "docs/man").glob("*.scd"))
LANGUAGES = {"text", "json", "python", "js", "c", "rust", "ini", "diff", "dockerfile"}  # of blocks that are no command lines

# (document, beginning of the line): why nobody runs it here.
NOT_RUN = (
    (".*", r"(sudo )?apt(-get)? ", "installs packages on the reader's machine"),
    (".*", r"(sudo )?make( [a-z-]+)?( [A-Z]+=\S+| )*( *#.*)?$|make && sudo", "builds, tests or installs the tree that this test belongs to; the suites are these targets"),
    (".*", r"(sudo )?systemctl|loginctl|journalctl|systemd-run", "needs a service manager; tests/deb tries the units"),
    (".*", r"export [A-Z_]+=", "sets a variable; its value here is the test's own"),
    (".*", r"git (worktree|merge|tag|push|status)|meson dist|gpg |sha256sum |(sudo )?make deb|lintian", "a step of a release or of the reader's own repository"),
    ("docs/install.md", r"brig run -- true$", "shows what is said in a container that allows no namespaces"),
    (".*", r"(curl|node_exporter|prometheus) ", "needs the daemon's token of the line before, or another program"),
    (".*", r"brig (run|batch|doctor) --backend slurm", "needs a cluster; tests/cluster has one"),
    ("docs/dialects/agents.md", r"brig sandbox exec work", "runs in the container of the line before; tests/docker/test_seed.py does it"),
    (".*slurm.md", r"jq ", "reads what a batch on that cluster has written"),
    (".*", r"bench/run|tests/run-suite|tests/soak|python3 tests/", "measures or tests for minutes"),
    ("docs/(cookbook.md|man/brig-run.1.scd)", r"brig run --allow ssh:", "it needs that host's key: tests/egress/test_ssh_tunnel.py runs it"),
    ("docs/cookbook.md", r"brig run --config live.yaml", "tests/egress/test_websocket.py runs it"),
    (".*", r"cc app|pip install \./sdk|npm pack", "tests/run/test_example.py and tests/sdk run it"),
    (".*", r"tar |cp -a|rsync |install -m|umask|ssh-keygen|openssl ", "an ordinary tool's work around the state folder"),
)

# What the front does with a command of brig's; the first that fits.
FRONT = r'''#!/usr/bin/python3 -IS
import os, sys
real, log, args = sys.argv[1:3][0], os.environ["BOOK_LOG"], sys.argv[2:]
NATIVE = {"sh", "true", "echo", "ls", "id", "env", "cat", "pwd", "test", "grep", "rm", "touch", "python3", "sleep", "make", "bash", "curl"}
with_help = lambda: (args[:args.index("--")] if "--" in args else args) + ["--help"]
word = args[0] if args else ""
how = "run"
inside = args[args.index("--") + 1:] if "--" in args else []
elsewhere = any(a.startswith(("--backend", "--image", "--runtime")) or a in ("docker", "podman") or "ssh.host" in a or a in ("rlm.yaml", "agbox.yaml", ".env") for a in args)
if word == "proxy" and not args[-1].startswith("-"):
    args = args[:-1]
if word in ("proxy", "agent", "learn") or (word == "daemon" and not {"status", "token"} & set(args)) or (word == "mcp" and "install" not in args and "uninstall" not in args):
    how, args = "parsed", with_help()
elif word == "init" and "--dry-run" not in args:
    how, args = "dry", args + ["--dry-run"]
elif word == "bundle" and (not {"pack", "inspect", "list"} & set(args) or "--sign" in args):
    how, args = "parsed", ["bundle", args[1], "--help"]
elif word == "dashboard" or (word == "allow" and args[-1] == "tester"):
    how, args = "parsed", [word, "--help"]
elif word == "mcp" and "--dry-run" not in args:
    how, args = "dry", args[:2] + ["--dry-run"] + args[2:]
elif word == "doctor" and ({"--attack", "--fix"} & set(args) or elsewhere):
    how, args = "parsed", with_help()
elif word == "image" or (word == "audit" and "tail" in args) or (word == "sandbox" and "-f" in args):
    how, args = "parsed", [word, args[1], "--help"] if word != "image" else [word, "--help"]
elif word == "wrap" and "--list" not in args and "--dry-run" not in args:
    how, args = "dry", ["wrap", "--dry-run"] + args[1:]
elif word == "shell" or (word == "sandbox" and "-t" in args) or (word == "run" and {"-t", "--tty", "-p", "--publish"} & set(args)):
    how, args = "parsed", with_help()
elif word == "sandbox" and elsewhere:
    how, args = "parsed", with_help()
elif word == "run" and (not inside or inside[0] not in NATIVE or elsewhere or any(a in ("--allow", "--credential", "--network", "--ssh-agent") for a in args) or any(w in a for a in inside for w in ("npm", "redis", "initdb"))):
    how, args = "planned", ["plan"] + args[1:]
    if elsewhere:
        how, args = "parsed", with_help()
        args[0] = "run"
elif word in ("exec", "python", "script") and elsewhere:
    how, args = "parsed", with_help()
with open(log, "a") as f:
    f.write(f"{how} {word}\n")
if how == "planned" or (how == "parsed" and sys.stdout.isatty() is False):
    null = os.open("/dev/null", os.O_WRONLY)
    os.dup2(null, 1)
os.execv(real, [real] + args)
'''


def blocks(path):
    """(line number, language or None, [lines]) of every block of code."""
    lines, at = path.read_text().splitlines(), 0
    before_blank = True
    while at < len(lines):
        fence = re.match(r"( *)```(\w*)", lines[at])
        if fence:
            end = next(i for i in range(at + 1, len(lines)) if re.match(r" *```$", lines[i]))
            indent = len(fence.group(1))
            yield at + 2, fence.group(2) or None, [line[indent:] for line in lines[at + 1:end]]
            at = end + 1
        elif path.suffix == ".md" and before_blank and re.match(r" {4,6}(?=\S)", lines[at]):
            indent = len(lines[at]) - len(lines[at].lstrip())
            end = at
            while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" " * indent)):
                end += 1
            yield at + 1, None, [line[indent:] for line in lines[at:end]]
            at = end
        else:
            before_blank = not lines[at].strip()
            at += 1
            continue
        before_blank = True


def is_yaml(lines):
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    return bool(re.match(r"[A-Za-z_]+:( |$)", first)) and not first.startswith(("brig:  ", "brig: note", "hint:"))


def commands(lines):
    """[(offset, command, [lines shown below it])]: joined where a quote, a backslash or a heredoc goes on."""
    shown = any(line.startswith("$ ") for line in lines)
    found, at = [], 0
    while at < len(lines):
        line = lines[at]
        if not line.strip() or line.startswith(("brig: ", "hint: ")) or (shown and not line.startswith("$ ")) or line.startswith("#"):
            if found and shown:
                found[-1][2].append(line)
            at += 1
            continue
        text, start = line[2:] if shown else line, at
        while subprocess.run(["sh", "-n", "-c", text], stderr=subprocess.DEVNULL, check=False).returncode or text.endswith("\\"):
            at += 1
            if at == len(lines):
                return None
            text += "\n" + lines[at]
        found.append((start, text, []))
        at += 1
    return found


def looks_like_commands(lines):
    return any(re.match(r"\$ |(id=\$\()?(brig|brigd|brig-bash|sudo|make|export|git|docker|systemctl|journalctl|apt|apt-get|curl|initrunner|ironclaw|echo|printf|loginctl|tar|umask)\b(?!:)", line) for line in lines)


def project():
    """What the documents speak of."""
    w = workspace()
    for name, text in {"Makefile": "all:\n\t@echo built\ntest:\n\t@echo tested\n", "script.py": "print(2)\n", "main.py": "print(3)\n", "report.py": "print(4)\n", "data.csv": "a,b\n",
                       "hello.sh": "echo hello $NAME\n", "requirements.txt": "", "index.html": "<p>x</p>\n", ".env": "SANDBOX_POLICY=readonly\n", "README.txt": "TODO\n"}.items():
        (w / name).write_text(text)
    for name in ("results", "data", "output", "my-project", "docs"):
        (w / name).mkdir()
    (w.parent / "measurements").mkdir(exist_ok=True)
    examples = {p.name: p for p in (TOP / "examples").glob("*.yaml")}
    for p in examples.values():
        (w / p.name).write_bytes(p.read_bytes())
    (w / "role.yaml").write_text("apiVersion: initrunner/v1\nkind: Agent\nmetadata: {name: tester}\nspec:\n  role: x\n  model: {provider: openai, name: m}\n  tools: [{type: shell}, {type: python}]\n"
                                 "  security: {sandbox: {backend: auto}}\n")
    (w / "tester").mkdir()
    (w / "tester/role.yaml").write_bytes((w / "role.yaml").read_bytes())
    (w / "tests.jsonl").write_text('{"argv": ["true"]}\n' * 3)
    (w / "old.yaml").write_text("apiVersion: initrunner/v1\nkind: Agent\nmetadata: {name: a}\nspec:\n  role: x\n  security:\n    docker:\n      enabled: true\n")
    (w / "rlm.yaml").write_text('sandbox:\n  runtime: docker\n  docker: {image: "python:3.11-slim"}\n')
    (w / "agbox.yaml").write_text("image: coding-runtime:latest\n")
    (w / "team.yaml").write_text("brig: 1\nlimits: {memory: 1g}\n")
    git = "git init -q && git add Makefile && git -c user.name=a -c user.email=a@b commit -qm x"
    finish(as_identity("sh", "-c", git, env={"GIT_CONFIG_GLOBAL": "/dev/null"}), git)


class Book:
    """Runs blocks, and keeps what went wrong."""

    def __init__(self, socket):
        self.faults, self.used, self.log = [], set(), scratch() / "log"
        self.log.write_text("")
        self.bin = scratch() / "bin"
        self.bin.mkdir()
        front = scratch() / "front"
        front.write_text(FRONT)
        front.chmod(0o755)
        for name, first in (("brig", ""), ("brigd", "daemon "), ("brig-bash", "sh "), ("brig-sh", "sh ")):
            (self.bin / name).write_text(f'#!/bin/sh\nexec {front} {brig_path()} {first}"$@"\n')
            (self.bin / name).chmod(0o755)
        for name in ("claude", "codex", "gemini", "opencode", "aider", "my-agent"):
            (self.bin / name).write_text("#!/bin/sh\n")
            (self.bin / name).chmod(0o755)
        home = scratch() / "home"
        for name in (".nvm", ".cargo/bin", ".local/bin", ".cache/ms-playwright", ".secrets", "project", ".local/state/brig"):
            (home / name).mkdir(parents=True, exist_ok=True)
        keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GITHUB_TOKEN", "MODEL_KEY")
        self.env = brig_environment() | {"PATH": f"{self.bin}:/usr/bin:/bin", "BOOK_LOG": str(self.log), "HOME": str(home), "TOKEN": "x", "BRIG_HOST": f"unix://{socket}"} | {k: "k" * 40 for k in keys}

    def excused(self, path, text):
        for i, (where, begins, _) in enumerate(NOT_RUN):
            if re.fullmatch(where, str(path.relative_to(TOP))) and re.match(begins, text):
                self.used.add(i)
                return True
        return False

    def run(self, path, number, found):
        """One shell for a block: variables of one line are there for the next."""
        kept = [(at, text, shown) for at, text, shown in found if not self.excused(path, text)]
        if not kept:
            return
        for at, text, _ in kept:
            head = re.sub(r"^(\w+=\$\(|\w+=\S+ )*", "", text)
            if not re.match(r"(brig|brigd|brig-bash|brig-sh|echo|printf|cd|mkdir|cat|jq|for|SHELL=|env)\b", head):
                self.faults.append(f"{path.relative_to(TOP)}:{number + at}: nobody runs this: {text}")
                return
        script = "".join(f"{text}\n__status=$?; [ $__status = 0 ] || echo \"@@ {at} $__status\" >&2\n" for at, text, _ in kept)
        try:
            p = as_identity("sh", "-c", script, env=self.env, stdin=subprocess.DEVNULL)
            errors = p.communicate(timeout=60 * FACTOR)[1].decode(errors="replace")
        except subprocess.TimeoutExpired:
            p.kill()
            p.communicate()
            self.faults.append(f"{path.relative_to(TOP)}:{number}: does not end")
            return
        shown = {at: s for at, _, s in kept}
        for at, status in re.findall(r"^@@ (\d+) (\d+)$", errors, re.M):
            # What is shown to fail may fail, and says what is shown.
            text = next(t for a, t, _ in kept if a == int(at))
            if status == "2" and text.startswith("brig config check"):
                continue  # the file is right, and no engine here would run it
            if not any(re.match(r"(brig: |sh: |ls: |rm: |curl: |hint: )", line) for line in shown[int(at)]):
                self.faults.append(f"{path.relative_to(TOP)}:{number + int(at)}: status {status}: {text}\n{errors[-300:]}")
        for at, lines in shown.items():
            for line in lines:
                if re.match(r"(brig: (?!note)|hint: )", line) and plain(line) not in plain(errors):
                    self.faults.append(f"{path.relative_to(TOP)}:{number + at}: it does not say: {line}\n{errors[-300:]}")

    def check_yaml(self, path, number, text):
        file = workspace() / "block.yaml"
        file.write_text(text)
        done = brig("config", "check", str(file), env=self.env)
        if done.status not in (0, 2):
            self.faults.append(f"{path.relative_to(TOP)}:{number}: {done.errors}{done.text}")


def plain(text):
    """Without what differs from machine to machine."""
    text = re.sub(r"[0-9a-f]{32}(-\d+)?", "H", text)
    text = re.sub(r"/home/me/project|" + re.escape(str(workspace())), "PROJECT", text)
    text = re.sub(r"(/[\w.-]+)+/brig/quarantine", "QUARANTINE", text)
    return re.sub(r"\d+", "N", text)


def through(paths, minimum):
    if FACTOR > 1:
        return  # an emulated machine, with another kernel: the documents are the same
    project()
    brig("run", "--", "true")  # so that there is a record
    with daemon() as d:
        book = Book(str(d.path))
        seen = read(book, paths)
    calls = [line.split()[0] for line in book.log.read_text().splitlines()]
    assert not book.faults, f"{len(book.faults)} faults:\n" + "\n".join(book.faults)
    assert seen >= minimum, f"{seen} lines and blocks were found"
    assert calls.count("run") * 3 >= len(calls), f"too few lines are really run: {collections.Counter(calls)}"


def read(book, paths):
    """Goes through the documents; how many lines and blocks there were."""
    seen = 0
    for path in paths:
        for number, language, lines in blocks(path):
            if language in LANGUAGES:
                continue
            if language == "yaml" or (language is None and is_yaml(lines)):
                text = "\n".join(lines) + "\n"
                if text.lstrip("#").lstrip().startswith("credentials:") or re.match(r"(#.*\n)*(credentials|egress|network|limits|policy):", text):
                    text = "brig: 1\n" + text
                book.check_yaml(path, number, text)
                seen += 1
            elif language in (None, "sh", "console") and (language or looks_like_commands(lines)):
                found = commands(lines)
                if found is None:
                    book.faults.append(f"{path.relative_to(TOP)}:{number}: the shell does not read this block")
                else:
                    book.run(path, number, found)
                    seen += len(found)
    return seen


@test(as_user="user", limit=120)
def every_line_of_the_recipes_and_the_readme_works():
    through([TOP / "README.md", TOP / "docs/faq.md", *(TOP / "docs/recipes").glob("*.md")], 70)


@test(as_user="user", limit=120)
def every_line_of_the_dialects_works():
    through(sorted((TOP / "docs/dialects").glob("*.md")), 25)


@test(as_user="user", limit=120)
def every_line_of_the_book_works():
    through([p for p in DOCUMENTS if p.parent.name == "docs" and p.name != "faq.md"], 50)


@test(as_user="user", limit=120)
def every_line_of_the_manual_works():
    through(PAGES, 20)


@test(as_user="user")
def inline_commands_are_those_of_brig():
    """`brig ...` in running text: the command is there, and each option is one of its own."""
    faults = []
    texts = {}
    for path in DOCUMENTS:
        for m in re.finditer(r"`(brig [a-z][^`\n]*)`", path.read_text()):
            words = re.sub(r"\"[^\"]*\"|'[^']*'", "X", m.group(1)).split()
            name = words[1]
            if name not in texts:
                texts[name] = brig("help", name, "all").text
                if name in ("audit", "sandbox"):
                    texts[name] += "".join(brig(name, v, "--help").text for v in re.findall(r"^  ([a-z-]+)  ", brig(name, "--help").text, re.M))
            if not texts[name]:
                faults.append(f"{path.relative_to(TOP)}: no command: {m.group(1)}")
            own = words[2:words.index("--")] if "--" in words else words[2:]
            for option in (w.split("=")[0] for w in own if re.match(r"--[a-z]", w)):
                if name != "wrap" and not re.search(rf"{re.escape(option)}\b", texts[name]) and option not in ("--help", "--set"):
                    faults.append(f"{path.relative_to(TOP)}: {option}: {m.group(1)}")
    assert not faults, "\n".join(faults)


@test(as_user="user")
def every_link_leads_somewhere():
    faults = []
    for path in [*DOCUMENTS, *(TOP / "docs/design").glob("*.md")]:
        text = re.sub(r"```.*?```", "", path.read_text(), flags=re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            file, _, anchor = target.partition("#")
            if re.match(r"https?:|mailto:", target):
                continue
            to = (path.parent / file).resolve() if file else path
            if not to.exists():
                faults.append(f"{path.relative_to(TOP)}: {target}")
            elif anchor and to.suffix == ".md":
                heads = {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", to.read_text(), re.M)}
                if anchor not in heads:
                    faults.append(f"{path.relative_to(TOP)}: {target}: no such heading")
    assert not faults, "\n".join(faults)


@test(as_user="user")
def the_reasons_are_used_and_the_contents_complete():
    lines = [line.removeprefix("$ ").strip() for path in [*DOCUMENTS, *PAGES] for _, _, block in blocks(path) for line in block]
    for _, begins, why in NOT_RUN:
        assert any(re.match(begins, line) for line in lines), f"no document has such a line: {begins} ({why})"
    contents = (TOP / "docs/README.md").read_text()
    for path in sorted((TOP / "docs").rglob("*.md")):
        name = str(path.relative_to(TOP / "docs"))
        if name != "README.md" and not name.startswith("design/"):
            assert f"({name})" in contents, f"docs/README.md does not name {name}"
    first = (TOP / "docs/man/brig.1.scd").read_text()  # which names all manual pages, says the same page
    for name, section in (path.name.split(".scd")[0].rsplit(".", 1) for path in PAGES):
        assert name == "brig" or f"*{name}({section})*" in first, f"brig(1) does not name {name}({section})"


if __name__ == "__main__":
    sys.exit(main())
