#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`brig examples`: what there is, copies that overwrite nothing, and every example that needs no container engine, run as its README says."""

import json
import os
import pathlib
import shutil
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / d) for d in ("lib", "egress")]
import projects  # noqa: E402
import sshd  # noqa: E402
from door import Handler, Web, root  # noqa: E402
from harness import TOP, brig, main, scratch, state, test, tree, workspace  # noqa: E402
from projects import FOLDER, follow  # noqa: E402

PLAIN = ("batch", "ci-job", "initrunner-role", "mcp-server", "npm-proxy", "python-snippet", "review", "wrap-agent")
OTHERS = {"c-embedding", "credential", "long-lived", "node-sdk", "python-sdk", "ssh-backend"}  # a test each: here, or test_example.py


def example(name):
    def run():
        follow(name)
    run.__name__ = f"the_example_{name.replace('-', '_')}_does_what_its_readme_says"
    return run


for one in PLAIN:
    test(example(one), as_user="user")


@test
def every_example_is_in_the_program_and_in_a_test():
    shown = brig("examples", "list", "--json").json["examples"]
    assert {e["name"]: sorted(e["files"]) for e in shown} == {
        p.name: sorted(str(f.relative_to(p)) for f in p.rglob("*") if f.is_file() and "__pycache__" not in f.parts) for p in FOLDER.iterdir()}
    names = {e["name"] for e in shown}
    assert names == {*PLAIN, *OTHERS, *projects.IN_CONTAINERS} and len(names) >= 12
    listed = brig("examples").text
    for e in shown:
        assert f"{e['name']} " in listed and e["summary"] in listed and e["files"][0] == "README.md"
        projects.readme(e["name"])  # has commands, and what they print


@test
def an_example_is_shown_and_copied_byte_for_byte():
    done = brig("examples", "show", "batch", "jobs/all.jsonl")
    assert done.stdout == (FOLDER / "batch/jobs/all.jsonl").read_bytes()
    everything = brig("examples", "show", "batch").text
    assert everything.startswith("# batch: ") and "==> run-all.sh <==" in everything and "sys.exit(3)" in everything
    done = brig("examples", "copy", "batch")
    assert done.status == 0 and "cd batch" in done.text, done.text
    for f in (FOLDER / "batch").rglob("*"):
        if f.is_file():
            assert (workspace() / "batch" / f.relative_to(FOLDER / "batch")).read_bytes() == f.read_bytes()
    assert brig("examples", "copy", "review", ".").status == 0  # into a folder that is there
    assert (workspace() / ".brig.yaml").exists() and (workspace() / "README.md").exists()


@test
def a_copy_overwrites_nothing_and_follows_no_link():
    (workspace() / "batch").mkdir()
    (workspace() / "batch/run-all.sh").write_text("mine")
    before = tree(workspace())
    done = brig("examples", "copy", "batch")
    assert done.status == 125 and "'run-all.sh' exists there; nothing was copied" in done.errors, done.errors
    assert tree(workspace()) == before
    # Links where a file or a folder of the example would be: nothing is written through them.
    target = scratch() / "target"
    target.mkdir()
    for name, at in (("file", "README.md"), ("dangling", "README.md"), ("folder", "jobs")):
        place = workspace() / name
        place.mkdir()
        (place / at).symlink_to(target / "gone" if name == "dangling" else target)
        done = brig("examples", "copy", "batch", name)
        assert done.status == 125, done.text
    assert not list(target.iterdir())
    os.mkfifo(workspace() / "pipe")
    assert brig("examples", "copy", "batch", "pipe").status == 125
    # The folder itself: the user's own link leads there, one of a command's nowhere.
    own = scratch() / "own"
    own.symlink_to(target)
    assert brig("examples", "copy", "review", own).status == 0 and (target / ".brig.yaml").exists()
    for left in target.iterdir():
        left.unlink()
    assert brig("run", "--", "ln", "-s", target, "review").status == 0
    done = brig("examples", "copy", "review")
    assert done.status == 125 and "may have made" in done.errors and not list(target.iterdir()), done.errors


@test
def mistakes_have_a_next_step():
    for words, said in ((("show", "bacth"), "did you mean 'batch'?"), (("copy", "nothing-like-it"), "brig examples list"), (("show",), "usage: brig examples"),
                        (("copy", "../batch"), "there is no example '../batch'"), (("destroy",), "usage: brig examples"),
                        (("show", "batch", "/etc/passwd"), "has no file '/etc/passwd'"), (("copy", "batch", "no/such/folder"), "cannot create the folder")):
        done = brig("examples", *words)
        assert done.status == 125 and said in done.errors, (words, done.errors)
    (workspace() / "closed").mkdir(mode=0o555)
    done = brig("examples", "copy", "batch", "closed/x")
    assert done.status in (0, 125) and (done.status == 0) == (os.geteuid() == 0 and done.argv[0] != "setpriv"), done.errors


class Api(Handler):
    def do_GET(self):
        self.server.seen.append((self.path, self.headers.get("X-Api-Key")))
        self.answer(b"ok")


@test(as_user="user")
def the_example_credential_does_what_its_readme_says():
    with Web("api.example.org", handler=Api) as web, projects.at_home(
            ".config/brig/config.yaml", f"egress:\n  resolve: {{api.example.org: '127.0.0.1:{web.port}'}}\n  roots: [{root()}/ca.pem]\n"):
        follow("credential")
        assert web.seen == [("/v1/status", "my-real-key-of-24-bytes")], web.seen


@test(as_user="user")
def the_example_ssh_backend_does_what_its_readme_says():
    with sshd.Sshd() as host, projects.at_home(".ssh/config", host.config.read_text().replace("Host box", "Host build-box")):
        follow("ssh-backend")


@test(as_user="user")
def the_examples_of_the_daemon_do_what_their_readmes_say():
    with projects.daemon_ends():
        follow("long-lived")
        follow("python-sdk", env={"PYTHONPATH": str(TOP / "sdk/python"), "PYTHONDONTWRITEBYTECODE": "1"})
        folder = projects.copied("node-sdk")
        (folder / "node_modules").mkdir()
        (folder / "node_modules/brig").symlink_to(TOP / "sdk/node")
        follow("node-sdk", folder=folder)


@test(as_user="user")
def an_example_that_is_one_file_is_copied_into_this_folder_and_trusted():
    """As InitRunner's page goes on after `examples copy docker-sandbox`: with the file, here."""
    for status in (0, 125):  # a second time it is there
        done = brig("examples", "copy", "docker-sandbox")
        assert done.status == status, done
    assert sorted(p.name for p in workspace().iterdir()) == ["docker-sandbox.yaml"] and "nothing was copied" in done.errors, done.errors
    nowhere = {"DOCKER_HOST": "unix:///no/such", "OPENAI_API_KEY": "not-a-key-of-anybody"}
    for line in (("agent", "docker-sandbox.yaml", "-p", "Use python to compute 2**100"), ("run", "--config", "docker-sandbox.yaml", "--", "true")):
        tried = brig(*line, env=nowhere, allow=False)
        assert "Docker is not available" in tried.errors + tried.text and "trusted" not in tried.errors, (tried.text, tried.errors)
    shutil.rmtree(state() / "brig/run")
    with (workspace() / "docker-sandbox.yaml").open("a") as f:  # the control: what anybody has changed is nobody's word
        f.write("\n# mine\n")
    assert "trust" in brig("run", "--config", "docker-sandbox.yaml", "--", "true", env=nowhere, allow=False).errors


@test(as_user="user")
def the_files_of_the_examples_are_right():
    for name, files in (("npm-proxy", ".brig.yaml"), ("review", ".brig.yaml"), ("credential", "api.yaml"), ("ssh-backend", "ssh.yaml"), ("docker-backend", ".brig.yaml"),
                        ("docker-sandbox", "docker-sandbox.yaml"), ("rlm-config", "rlm.yaml")):
        done = brig("config", "check", files, cwd=projects.copied(name))
        assert done.status in (0, 2) and f"{files}: ok" in done.text, (name, done.errors, done.text)  # 2: no engine, or no such host
    json.loads((FOLDER / "mcp-server/mcp.json").read_text())


if __name__ == "__main__":
    sys.exit(main())
