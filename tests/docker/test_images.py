#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Images: there, fetched from a registry, missing, private, or out of reach."""

import base64
import contextlib
import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
from common import engine  # noqa: E402
from common import box, environment, settle, shared_engine  # noqa: E402
from harness import around, brig, home, identity, main, scratch, test  # noqa: E402

around(shared_engine)
registry = None
PASSWORD = "open sesame"
SESAME = base64.urlsafe_b64encode(json.dumps({"username": "someone", "password": PASSWORD}).encode()).decode()


@around
@contextlib.contextmanager
def a_registry(folder):
    """One that is open, with an image in it, and one that wants a password."""
    global registry
    with engine.Registry(folder) as r:
        for name in ("root/tool", "user/tool", "root/ahead", "user/ahead", "root/fixed", "user/fixed"):  # one for each test: they run side by side
            common.shared.import_image(engine.busybox_tar(), f"{r.address}/{name}:1")
            status, text = common.shared.ask("POST", f"/images/{r.address}/{name}/push?tag=1", {}, headers={"X-Registry-Auth": "e30="})
            assert status == 200 and "error" not in str(text), text
            forget(f"{r.address}/{name}:1")
        for who in ("root", "user"):
            name = f"{r.locked}/{who}/tool"
            common.shared.import_image(engine.busybox_tar(), f"{name}:1")
            status, text = common.shared.ask("POST", f"/images/{name}/push?tag=1", {}, headers={"X-Registry-Auth": SESAME})
            assert status == 200 and "error" not in str(text), text
            forget(f"{name}:1")
        registry = r
        yield


def forget(name):
    common.shared.ask("DELETE", f"/images/{name}?force=1")


@test(limit=120)
def an_image_is_pulled_when_it_is_missing_and_pinned_by_its_digest():
    settle()
    name = f"{registry.address}/{identity()}/tool:1"
    forget(name)
    done = box("--auto-pull", "no", "--", "true", image=name)
    assert done.status == 125 and f"Image '{name}' not found" in done.errors and "brig image pull" in done.errors, done.errors
    r = box("--json", "--", "echo", "pulled", image=name)
    assert r.json["stdout"] == "pulled\n" and f"{registry.address}/{identity()}/tool@sha256:" in r.json["image"], r.json
    assert "pulling it" in r.errors, r.errors
    assert "pulling" not in box("--", "true", image=name).errors
    assert box("--", "echo", "by digest", image=r.json["image"]).text == "by digest\n"
    forget(name)


@test(limit=120)
def image_pull_fetches_ahead_of_the_first_run():
    settle()
    name = f"{registry.address}/{identity()}/ahead:1"
    forget(name)
    done = brig("image", "pull", name, "--backend", "docker", env=environment())
    assert done.status == 0 and done.text.strip() == name, done.errors
    assert box("--auto-pull", "no", "--", "true", image=name).status == 0
    forget(name)
    done = brig("init", "--yes", f"--image={name}", env=environment())
    assert f"pulled image {name}" in done.text and brig("run", "--auto-pull", "no", "--", "true", env=environment()).status == 0, (done.text, done.errors)
    forget(name)
    assert brig("image", "pull", "--backend", "native", name, env=environment()).status == 125
    assert brig("image", "pull", env=environment()).status == 125


@test(limit=120)
def the_doctor_fetches_it_when_told_to_mend():
    settle()
    name = f"{registry.address}/{identity()}/fixed:1"
    config = scratch() / "image.yaml"
    config.write_text(f"brig: 1\nbackend: docker\nimage: {name}\n")
    forget(name)
    done = brig("doctor", "--config", config, env=environment())
    assert f"[warn] docker_image: Image '{name}' is not available locally." in done.text and "fix:" not in done.text, done.text
    done = brig("doctor", "--fix", "--config", config, env=environment())
    assert f"fix: image '{name}' was fetched\n" in done.text, (done.text, done.errors)
    assert f"[pass] docker_image: Image '{name}' is available locally." in done.text, done.text
    assert f"fix: image '{name}' is here\n" in brig("doctor", "--fix", "--config", config, env=environment()).text
    forget(name)
    config.write_text(f"brig: 1\nbackend: docker\nimage: {name}-none\n")
    done = brig("doctor", "--fix", "--config", config, env=environment())
    assert done.status == 1 and "not found" in done.errors, (done.text, done.errors)


def write_login(**config):
    (home() / ".docker").mkdir(exist_ok=True)
    (home() / ".docker/config.json").write_text(json.dumps(config))


@test(limit=120)
def a_login_of_the_engines_own_command_is_used():
    settle()
    name = f"{registry.locked}/{identity()}/tool:1"
    good, bad = (base64.b64encode(f"someone:{p}".encode()).decode() for p in (PASSWORD, "guessed"))

    def pull(env=None):
        done = brig("image", "pull", name, "--backend", "docker", env=environment(env=env))
        forget(name)
        assert PASSWORD not in done.errors + done.text and good not in done.errors + done.text
        return done.status, done.errors

    status, errors = pull()
    assert status == 125 and "wants credentials" in errors and f"docker login {registry.locked}" in errors, errors
    write_login(auths={f"http://{registry.locked}/v1/": {"auth": good}})
    assert pull()[0] == 0
    r = box("--json", "--", "echo", "pulled", image=name)
    assert r.json["stdout"] == "pulled\n", r.json
    forget(name)
    write_login(auths={registry.locked: {"auth": bad}})
    status, errors = pull()
    assert status == 125 and "does not take the credentials" in errors, errors
    write_login(auths={registry.locked: {"auth": "%%%"}})
    status, errors = pull()
    assert status == 125 and "make no sense" in errors and "wants credentials" in errors, errors
    # A helper program, which is given the registry and answers in JSON.
    helper = scratch() / "docker-credential-test"
    helper.write_text('#!/bin/sh\n[ "$1" = get ] && read -r name; [ "$name" = "' + registry.locked + '" ] || exit 1\n'
                      'echo \'{"ServerURL":"x","Username":"someone","Secret":"' + PASSWORD + '"}\'\n')
    helper.chmod(0o755)
    path = {"PATH": f"{scratch()}:/usr/bin:/bin"}
    write_login(auths={registry.locked: {}}, credHelpers={registry.locked: "test"})
    assert pull(path)[0] == 0
    write_login(credsStore="test")
    assert pull(path)[0] == 0
    status, errors = pull()
    assert status == 125 and "docker-credential-test" in errors, errors
    write_login(credsStore="../../bin/sh")
    status, errors = pull(path)
    assert status == 125 and "strange helper" in errors, errors
    shutil.rmtree(home() / ".docker")


@test
def missing_private_and_unreachable_are_three_things():
    settle()
    done = box("--", "true", image=f"{registry.address}/{identity()}/tool:none")
    assert done.status == 125 and "not found" in done.errors and "credentials" not in done.errors, done.errors
    done = box("--", "true", image=f"{registry.locked}/x/y:1")
    assert done.status == 125 and "wants credentials" in done.errors and f"docker login {registry.locked}" in done.errors, done.errors
    done = box("--", "true", image="127.0.0.1:1/x/y:1")
    assert done.status == 125 and "Image '127.0.0.1:1/x/y:1' not found, and it cannot be pulled" in done.errors, done.errors
    assert "cannot be reached" in done.errors and "docker build -t 127.0.0.1:1/x/y:1" in done.errors, done.errors
    for pull in ("true", "false"):
        done = brig("exec", "true", env=environment(env={"SANDBOX_IMAGE": "127.0.0.1:1/worker:1", "SANDBOX_AUTO_PULL": pull, "SANDBOX_POLICY": "readonly"}))
        assert done.status == 125 and "Image '127.0.0.1:1/worker:1' not found" in done.errors, done.errors
        assert "hint: brig image build 127.0.0.1:1/worker:1, or docker build -t 127.0.0.1:1/worker:1 -f Dockerfile.worker ." in done.errors, done.errors
    for bad in ("--privileged", "/etc/passwd", "a b", "x\ny"):
        assert box("--", "true", image=bad).status == 125, bad
    assert json.loads(box("--json", "--auto-pull", "no", "--", "true", image="no/such:1").stdout)["error"]["code"] == "unavailable"


if __name__ == "__main__":
    sys.exit(main())
