#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Examples that need a container engine, as their READMEs say, and `brig init --image` on docker and podman."""

import io
import pathlib
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
import projects  # noqa: E402
from common import engine, podmans, shared_engine, shared_podmans  # noqa: E402
from harness import around, brig, files_as_root, identity, main, test, uid, workspace  # noqa: E402

around(shared_engine)
around(shared_podmans)

WORKER = "brig-worker:latest"


def follow(name):
    folder = projects.copied(name)
    if identity() == "root":
        common.given_to_inside(folder)
    projects.follow(name, folder=folder, env={"DOCKER_HOST": common.shared.host})


@test(as_user="user", limit=120)
def the_examples_in_python_images_do_what_their_readmes_say():
    common.called("python:3.12-slim")
    common.called("python:3.11-slim")
    follow("docker-data")
    follow("rlm-config")


@test(as_user="user", limit=120)
def a_worker_image_is_built_and_the_examples_run_in_it():
    with files_as_root():
        ground = common.base(common.shared, f"brig-ground:{identity()}")
    env = {"DOCKER_HOST": common.shared.host}
    common.settle()
    done = brig("init", "--yes", "--image", "--base", ground, env=env, timeout=120)
    assert f"built image {WORKER}" in done.text and "; trusted" in done.text, (done.text, done.errors)
    assert "backend: docker\nimage: \"brig-worker:latest\"\n" in (workspace() / ".brig.yaml").read_text()
    inside = brig("run", "--", "sh", "-c", "id -u; grep -c '^worker:x:1000:' /etc/passwd || true", env=env)
    assert inside.status == 0 and inside.text.splitlines()[0] == str(1000 if identity() == "root" else uid()), (inside.text, inside.errors)
    status, image = common.shared.ask("GET", f"/images/{WORKER}/json")
    assert status == 200 and (image["Config"]["User"], image["Config"]["WorkingDir"]) == ("1000:1000", "/workspace"), image["Config"]
    (workspace() / "Dockerfile").write_text(f"FROM {ground}\nENV MINE=1\n")
    assert brig("allow", "--dialect", "dockerfile", "Dockerfile").status == 0
    assert brig("image", "build", "-t", "brig-mine:1", "-f", "Dockerfile", env=env, timeout=120).text == "brig-mine:1\n"
    follow("docker-backend")


@test(as_user="user", limit=120)
def podman_builds_it_as_well():
    where = podmans[identity()]
    with files_as_root():
        ground = common.base(where, f"localhost/brig-ground:{identity()}")
    env = {"DOCKER_HOST": where.host}
    done = brig("init", "--yes", "--image", "--base", ground, env=env, timeout=120)
    assert f"built image {WORKER}" in done.text and "; trusted" in done.text, (done.text, done.errors)
    assert brig("run", "--", "true", env=env).status == 0


@test(as_user="user", limit=120)
def a_build_that_fails_writes_nothing_and_says_why():
    env = {"DOCKER_HOST": common.shared.host}
    done = brig("init", "--yes", "--image", "--base", engine.IMAGE, env=env, timeout=120)  # it lacks a compiler, and has no apt-get
    assert done.status == 125 and f"image '{WORKER}' was not built" in done.errors and "apt-get" in done.errors and "--base" in done.errors, done.errors
    done = brig("init", "--yes", "--image", "--base", "no such", env=env)
    assert done.status == 125 and "not the name of an image" in done.errors, done.errors
    done = brig("init", "--yes", "--image", env={"DOCKER_HOST": "unix:///no/such"})
    assert done.status == 125 and "hint: " in done.errors, done.errors
    done = brig("init", "--yes", "--image=127.0.0.1:9/no/such:1", env=env, timeout=120)
    assert done.status == 125 and "cannot be reached" in done.errors, done.errors
    assert not (workspace() / ".brig.yaml").exists()
    done = brig("init", "--yes", f"--image={engine.IMAGE}", env=env)  # is there: no registry is asked
    assert f"there is image {engine.IMAGE}" in done.text and f'image: "{engine.IMAGE}"' in (workspace() / ".brig.yaml").read_text(), (done.text, done.errors)


@test(as_user="user", limit=180)
def the_example_with_a_database_does_what_its_readme_says():
    with files_as_root():
        common.called("coding-runtime:latest", engine.SERVICES_IMAGE)
        start = ("test -e /tmp/pg/PG_VERSION || initdb --no-sync --locale=C --auth=trust --username=postgres --pgdata=/tmp/pg >&2; "
                 "echo 'host all all all trust' >> /tmp/pg/pg_hba.conf; exec postgres -D /tmp/pg -c listen_addresses='*' -c unix_socket_directories=/tmp -c fsync=off")
        recipe = io.BytesIO()
        with tarfile.open(fileobj=recipe, mode="w") as tar:
            text = f'FROM {engine.SERVICES_IMAGE}\nCMD ["sh", "-c", "{start}"]\n'.encode()
            info = tarfile.TarInfo("Dockerfile")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
        status, said = common.shared.ask("POST", "/build?t=postgres:16-alpine", recipe.getvalue(), "application/x-tar")
        assert status == 200 and "errorDetail" not in str(said), said
    with projects.daemon_ends():
        follow("agents-postgres")


if __name__ == "__main__":
    sys.exit(main())
