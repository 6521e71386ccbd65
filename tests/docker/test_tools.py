# SPDX-License-Identifier: Apache-2.0
"""Package tools at work: each fetches from a mirror on this machine, builds, and keeps its caches in the private home.

The root is read-only on every backend, so a cache that pointed elsewhere would fail the tool. For docker
the image is a frame of links and the machine's own programs are shown in it, read-only."""

import hashlib
import io
import json
import os
import pathlib
import sys
import tarfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from common import engine, environment, settle, shared_engine  # noqa: E402
from harness import around, brig, identity, main, scratch, test, tree, workspace  # noqa: E402

around(shared_engine)
WITHOUT_ENGINE = ("native", "bwrap")  # what differs for root there is not the tool's part, and the run suite's to show
SHOWN = ("/usr/bin", "/usr/lib", "/usr/share")  # what an image with these tools would hold


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def mirror():
    """Shown at its own path, read-only."""
    folder = scratch() / "mirror"
    folder.mkdir(exist_ok=True)
    return folder


def work(line, **env):
    """The command line as it is written in the project's folder; the words in front are what this machine asks for."""
    options = [f"--env={k}={v}" for k, v in env.items()]
    if os.environ["BRIG_BACKEND"] == "docker":
        for path in (workspace(), *workspace().rglob("*")):
            settle(path)
        options += ["--image", engine.FRAME_IMAGE, *(f"--read={p}" for p in SHOWN)]
    done = brig("exec", *options, "--read", mirror(), line, "--policy", "workspace_write", env=environment())
    assert done.status == 0, (done.text, done.errors)
    return done


def made_by_the_command(path):
    """The owner outside is the caller, or on docker, for root, the one the workspace was given to."""
    expected = 1000 if identity() == "root" and os.environ["BRIG_BACKEND"] == "docker" else workspace().stat().st_uid
    return path.stat().st_uid == expected


@test(backends=WITHOUT_ENGINE, as_user="user", limit=120)
@test(backends=("docker",), limit=120)
def cargo_builds_with_a_crate_of_the_mirror():
    crate = mirror() / "answer"
    files = {"Cargo.toml": '[package]\nname = "answer"\nversion = "1.0.0"\n', "src/lib.rs": "pub fn answer() -> u32 { 42 }\n"}
    sums = {name: hashlib.sha256(write(crate / name, text).read_bytes()).hexdigest() for name, text in files.items()}
    write(crate / ".cargo-checksum.json", json.dumps({"files": sums, "package": "0" * 64}))
    write(workspace() / "Cargo.toml", '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\nanswer = "1"\n')
    # What a build script makes is run in the middle of the build, from the workspace.
    write(workspace() / "build.rs", 'fn main() { println!("cargo:rustc-env=WORD=is"); }\n')
    write(workspace() / "src/main.rs", 'fn main() { println!("it {} {}", env!("WORD"), answer::answer()); }\n')
    write(workspace() / ".cargo/config.toml",
          f'[source.crates-io]\nreplace-with = "mirror"\n[source.mirror]\ndirectory = "{mirror()}"\n')
    done = work("cargo build --release && echo $CARGO_HOME && touch ~/.cargo/x")
    assert "Compiling answer v1.0.0" in done.errors and "Finished release" in done.errors, done.errors
    assert work("target/release/app").text == "it is 42\n"
    assert made_by_the_command(workspace() / "target/release/app")


@test(backends=WITHOUT_ENGINE, as_user="user")
@test(backends=("docker",))
def pip_installs_a_wheel_of_the_mirror():
    with zipfile.ZipFile(mirror() / "answer-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("answer.py", "answer = 42\n")
        wheel.writestr("answer-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: answer\nVersion: 1.0\n")
        wheel.writestr("answer-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("answer-1.0.dist-info/RECORD", "")
    done = work(f"pip3 install --no-index --find-links {mirror()} --break-system-packages answer && pip3 cache dir && "
                "python3 -c 'import answer; print(answer.answer, answer.__file__)'")
    assert "Successfully installed answer-1.0" in done.text and "\n42 /home/" in done.text, done.text
    assert "/.cache/pip\n" in done.text, done.text
    assert not tree(workspace())  # all of it was in the private home


@test(backends=WITHOUT_ENGINE, as_user="user")
@test(backends=("docker",))
def npm_installs_a_package_of_the_mirror():
    with tarfile.open(mirror() / "answer-1.0.0.tgz", "w:gz") as tgz:
        for name, text in (("package.json", '{"name": "answer", "version": "1.0.0"}'), ("index.js", "module.exports = 42;\n")):
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(text)
            tgz.addfile(info, io.BytesIO(text.encode()))
    write(workspace() / "package.json", '{"name": "app", "version": "1.0.0"}')
    done = work(f"npm install {mirror()}/answer-1.0.0.tgz && node -e 'console.log(require(\"answer\"))' && npm config get cache")
    assert "added 1 package" in done.text and "\n42\n/home/" in done.text, (done.text, done.errors)
    assert made_by_the_command(workspace() / "node_modules/answer/index.js")


@test(backends=WITHOUT_ENGINE, as_user="user", limit=120)
@test(backends=("docker",), limit=120)
def go_builds_and_tests_with_a_module_of_the_mirror():
    versions, prefix = mirror() / "answer.test/answer/@v", "answer.test/answer@v1.0.0"
    write(versions / "list", "v1.0.0\n")
    write(versions / "v1.0.0.info", '{"Version": "v1.0.0"}')
    module = write(versions / "v1.0.0.mod", "module answer.test/answer\n").read_text()
    with zipfile.ZipFile(versions / "v1.0.0.zip", "w") as z:
        z.writestr(f"{prefix}/go.mod", module)
        z.writestr(f"{prefix}/answer.go", "package answer\n\nfunc Answer() int { return 42 }\n")
    write(workspace() / "go.mod", "module app.test/app\n\ngo 1.19\n\nrequire answer.test/answer v1.0.0\n")
    write(workspace() / "main.go", 'package main\n\nimport "answer.test/answer"\n\nfunc main() { println(answer.Answer()) }\n')
    write(workspace() / "main_test.go", 'package main\n\nimport "testing"\n\nfunc TestNothing(t *testing.T) {}\n')
    done = work("go build -o app . && ./app && go test ./... && go env GOCACHE GOMODCACHE",
                GOPROXY=f"file://{mirror()}", GOSUMDB="off", GOFLAGS="-mod=mod")
    assert done.errors.endswith("42\n") and "ok  \tapp.test/app" in done.text, (done.text, done.errors)
    assert all(line.startswith("/home/") for line in done.text.splitlines()[-2:]), done.text
    assert made_by_the_command(workspace() / "app")


if __name__ == "__main__":
    sys.exit(main())
