#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""--ssh-agent: commits that are signed inside with a key that stays outside."""

import contextlib
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import sshd  # noqa: E402
from agents import CLIENT, Agent  # noqa: E402
from harness import brig, home, main, scratch, test, workspace  # noqa: E402

SIGNED = 'git -c gpg.format=ssh -c user.signingkey="key::$(ssh-add -L)" commit -q -S --allow-empty -m signed'


@contextlib.contextmanager
def git_of_the_caller(*more):
    """~/.gitconfig of the one who starts brig, and a repository."""
    config = home() / ".gitconfig"
    config.write_text("".join(f"{line}\n" for line in ("[user]", "name = Tester", "email = tester@example.org", *more)))
    with Agent() as agent:
        agent.call("git", "init", "-q", workspace())
        yield agent
    config.unlink()


@test(backends=("native", "bwrap"))
def a_commit_is_signed_inside_and_verified_outside():
    with git_of_the_caller() as agent:
        done = brig("run", "--ssh-agent", "--json", "--", "sh", "-ec", f"ssh-add -l; {SIGNED}", env=agent.env)
        assert done.status == 0 and agent.fingerprints()[0] in done.json["stdout"], (done.text, done.errors)
        assert done.json["signatures"] == 1 and f"signed for git with key {agent.fingerprints()[0]}" in done.errors, done.errors
        (scratch() / "allowed").write_text(f"tester@example.org {agent.key.with_suffix('.pub').read_text()}")
        agent.ssh("git", "-C", workspace(), "-c", "safe.directory=*", "-c", f"gpg.ssh.allowedSignersFile={scratch()}/allowed", "verify-commit", "HEAD")
        shown = brig("audit", "show", done.json["id"]).text
        assert shown.count(f"signature by the ssh-agent's key {agent.fingerprints()[0]}, for git") == 1, shown


@test(backends=("native", "bwrap"))
def keys_cannot_be_taken_from_the_agent():
    with Agent() as agent:
        before = agent.fingerprints()
        done = brig("run", "--ssh-agent", "--", "sh", "-c", "ssh-add -D; echo $?; ssh-add -x </dev/null; ssh-add -l >/dev/null; echo $?", env=agent.env)
        assert done.text.split() == ["1", "0"] and agent.fingerprints() == before, (done.text, done.errors)
        assert "ssh-agent 'SSH_AUTH_SOCK': it may be asked for its keys and for signatures alone" in done.errors, done.errors


@test
def the_settings_of_the_callers_git_are_enough():
    """commit.gpgsign, the format and the key's own file, as git's documentation says: the file is read outside."""
    with git_of_the_caller(f"signingkey = {scratch()}/key.pub", "[gpg]", "format = ssh", "[commit]", "gpgsign = true") as agent:
        done = brig("run", "--ssh-agent", "--", "git", "commit", "-q", "--allow-empty", "-m", "signed", env=agent.env)
        assert done.status == 0 and "signed for git" in done.errors, done.errors
        done = brig("run", "--", "git", "commit", "-q", "--allow-empty", "-m", "plain", env=agent.env)
        assert done.status == 0, "without the agent no signature is asked for: " + done.errors
        assert "gpgsig" in agent.call("git", "-C", workspace(), "cat-file", "commit", "HEAD~1")
        assert "gpgsig" not in agent.call("git", "-C", workspace(), "cat-file", "commit", "HEAD")


@test
def a_login_needs_its_own_word():
    code = CLIENT + "k = keys()[0]\nprint(kind(sign(k, login(k))), kind(sign(k, signed())))"
    with Agent() as agent:
        done = brig("run", "--ssh-agent", "--", "python3", "-c", code, env=agent.env)
        assert done.text == "5 14\n" and "logins need --ssh-agent=auth" in done.errors, (done.text, done.errors)
        done = brig("run", "--ssh-agent=auth", "--", "python3", "-c", code, env=agent.env)
        assert done.text == "14 14\n" and "let it log in with key" in done.errors, (done.text, done.errors)
        done = brig("run", "--set", "ssh_agent=auth", "--", "python3", "-c", code, env=agent.env)
        assert done.text == "14 14\n", (done.text, done.errors)


@test
def a_real_login_works_with_its_word_and_with_no_other():
    """OpenSSH's own client, to a server on the host's loopback."""
    with Agent() as agent, sshd.Sshd() as server:
        shutil.copy(agent.key.with_suffix(".pub"), server.folder / "key.pub")
        shutil.copy(server.folder / "known", workspace() / "known")
        login = ("ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "UserKnownHostsFile=known", "-p", str(server.port), f"{server.login or 'root'}@127.0.0.1", "echo inside of the host")
        done = brig("run", "--network", "host", "--ssh-agent=auth", "--", *login, env=agent.env)
        assert done.text == "inside of the host\n" and "let it log in with key" in done.errors, (done.text, done.errors, (server.folder / "log").read_text())
        done = brig("run", "--network", "host", "--ssh-agent", "--", *login, env=agent.env)
        assert done.status == 255 and done.text == "" and "logins need --ssh-agent=auth" in done.errors, (done.text, done.errors)


@test
def without_the_option_there_is_no_agent():
    with Agent() as agent:
        done = brig("run", "--", "sh", "-c", "echo ${SSH_AUTH_SOCK-none}; ls /dev/shm", env=agent.env)
        assert done.text == "none\n", done.text


@test
def who_cannot_lend_it_says_so():
    with Agent() as agent:
        for backend in (["--backend", "none", "--i-know-this-is-not-a-sandbox"], ["--backend", "ssh", "--set", "ssh.host=nowhere.invalid"]):
            done = brig("run", *backend, "--ssh-agent", "--", "true", env=agent.env)
            assert done.status == 125 and "cannot honour --ssh-agent" in done.errors and "'native' can" in done.errors, done.errors


@test
def an_agent_that_cannot_be_used_is_refused_with_a_next_step():
    (scratch() / "file").write_text("")
    for value, words in ((None, "SSH_AUTH_SOCK is not set"), ("", "SSH_AUTH_SOCK is not set"), ("agent", "no absolute path"), (str(scratch() / "none"), "is not there"),
                         (str(scratch() / "file"), "is no socket")):
        done = brig("run", "--ssh-agent", "--", "true", env={"SSH_AUTH_SOCK": value})
        assert done.status == 125 and words in done.errors and "ssh-add" in done.errors, (value, done.errors)


if __name__ == "__main__":
    sys.exit(main())
