#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""libbrig as its users see it: the installed header, both libraries, the pkg-config file, the C example."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / d) for d in ("lib", "egress")]
import projects  # noqa: E402
from door import Handler, Web, fields, root  # noqa: E402
from harness import PATIENCE, TOP, brig_argv, brig_environment, brig_path, main, scratch, test, tree, workspace  # noqa: E402

BUILD = pathlib.Path(os.environ.get("BRIG") or TOP / "build/brig").absolute().parent
EXAMPLE = TOP / "examples/run.c"
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
SAID = """stream 1: TEXT
stream 2: hello
11 bytes
request: exited, exit 0
readonly: exited, exit 1
half a second: timeout, exit 124
"""


def call(*argv, **more):
    """Run a tool to its end; its output."""
    done = subprocess.run([*map(str, argv)], capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, f"{argv}:\n{done.stdout}{done.stderr}"
    return done.stdout


def option(name):
    """A build option of the tree under test."""
    options = json.loads((BUILD / "meson-info/intro-buildoptions.json").read_text())
    return next(o["value"] for o in options if o["name"] == name)


def compiler():
    """The compiler that can link with the tree under test."""
    kinds = option("b_sanitize")
    return ["cc"] if kinds == "none" else ["clang", f"-fsanitize={kinds}"]


def install():
    """make install into a folder of this test; the prefix in it."""
    call("meson", "install", "--no-rebuild", "-C", BUILD, "--destdir", scratch() / "root")
    return pathlib.Path(f"{scratch()}/root{option('prefix')}")


def pkg_config(prefix, *args):
    """What pkg-config says of the files below prefix, as arguments."""
    folder = next(prefix.rglob("brig.pc")).parent
    return call("pkg-config", f"--define-variable=prefix={prefix}", *args, "brig",
                env={**os.environ, "PKG_CONFIG_PATH": str(folder)}).split()


def started(program, *args):
    """A program of the installed tree, as this test's identity."""
    argv = brig_argv(*args)
    argv[argv.index(str(brig_path()))] = str(program)
    return subprocess.run(argv, env=brig_environment(), cwd=workspace(), capture_output=True, text=True, check=False)


def run_example(program):
    """The example, started as this test's identity; checks what it prints and that it changes nothing."""
    done = started(program, workspace())
    assert (done.returncode, done.stdout, done.stderr) == (0, SAID, ""), f"{done.returncode}\n{done.stdout}{done.stderr}"
    assert tree(workspace()) == {}


@test
def the_example_runs_against_the_shared_library():
    prefix = install()
    program = scratch() / "example"
    found = f"-Wl,-rpath,{next(prefix.rglob('libbrig.so')).parent}"  # setpriv makes LD_LIBRARY_PATH ineffective
    call(*compiler(), "-std=c99", *WARNINGS, EXAMPLE, *pkg_config(prefix, "--cflags", "--libs"), found, "-o", program)
    assert "libbrig.so" in call("readelf", "-d", program)
    run_example(program)


@test
def the_example_with_python_and_a_script_runs():
    prefix = install()
    program = scratch() / "example"
    found = f"-Wl,-rpath,{next(prefix.rglob('libbrig.so')).parent}"
    call(*compiler(), "-std=c99", *WARNINGS, TOP / "examples/python.c", *pkg_config(prefix, "--cflags", "--libs"), found, "-o", program)
    (workspace() / "step.py").write_text("import os\nprint(os.environ['TASK_ID'], __file__)\n")
    done = started(program, workspace())
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout == ("--- step\nSTDOUT:\nabc123 /code/_run.py\n\n"
                           "--- code\nExit code: 3\nSTDOUT:\nan argument input\n\n"
                           "--- script\nSTDOUT:\nhello world\n\nSTDERR:\nwarning\n\n"), done.stdout


@test(as_user="user")
def the_example_project_is_built_and_run_as_its_readme_says():
    prefix = install()
    library = next(prefix.rglob("libbrig.so")).parent
    folder = projects.copied("c-embedding")
    (folder / "Makefile").write_text((folder / "Makefile").read_text().replace("$$(pkg-config", f"-Wl,-rpath,{library} $$(pkg-config --define-variable=prefix={prefix}"))
    projects.follow("c-embedding", folder=folder, env={"CC": " ".join(compiler()), "PKG_CONFIG_PATH": str(next(prefix.rglob("brig.pc")).parent)})


@test
def the_example_with_a_loop_of_its_own_runs():
    prefix = install()
    program = scratch() / "example"
    found = f"-Wl,-rpath,{next(prefix.rglob('libbrig.so')).parent}"
    call(*compiler(), "-std=c99", *WARNINGS, TOP / "examples/loop.c", *pkg_config(prefix, "--cflags", "--libs"), found, "-o", program)
    done = started(program, workspace())
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout == "".join(f"exited, exit 0: {word}\n" for word in ("first", "second", "third")), done.stdout


@test
def the_example_with_several_commands_runs():
    prefix = install()
    program = scratch() / "example"
    found = f"-Wl,-rpath,{next(prefix.rglob('libbrig.so')).parent}"
    call(*compiler(), "-std=c99", *WARNINGS, TOP / "examples/commands.c", *pkg_config(prefix, "--cflags", "--libs"), found, "-o", program)
    done = started(program, workspace())
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "exited: hello\ncancelled: up\n"), done


@test
def an_installed_tree_works_wherever_it_is_moved():
    prefix = install()
    for name in ("brig", "brig-more", "brig-egress", "brig-door", "brig-gate", "brig-send", "brig-audit", "brig-tls", "brig-bundle", "brig-kube"):
        assert (prefix / "libexec/brig" / name).exists(), name
    moved = scratch() / "moved"
    prefix.rename(moved)
    done = started(moved / "bin/brig", "run", "--network", "proxy", "--", "true")
    assert (done.returncode, done.stderr) == (0, ""), done
    done = started(moved / "bin/brig", "audit", "list")
    assert done.returncode == 0 and "sandbox.exec" in done.stdout, done
    done = started(moved / "bin/brig", "version")
    assert done.returncode == 0 and done.stdout.startswith("brig "), done
    assert (moved / "libexec/brig/brig").resolve() == (moved / "bin/brig").resolve()
    if option("b_sanitize") != "none":
        return  # brig would have to write them
    for name in ("share/bash-completion/completions/brig", "share/zsh/site-functions/_brig", "share/fish/vendor_completions.d/brig.fish",
                 "share/man/man1/brig-run.1"):
        assert "--workdir" in (moved / name).read_text().replace("\\-", "-") or name.endswith("fish"), name


@test(as_user="root")
def a_prefix_can_be_changed_and_an_installation_removed():
    tools, project, built = TOP / "tools", scratch() / "project", scratch() / "built"
    (project / "brig").mkdir(parents=True)
    (project / "meson.build").write_text("project('x')\ninstall_data('brig/file', install_dir: 'libexec/brig')\n")
    (project / "brig/file").write_text("x")
    call("meson", "setup", f"--prefix={scratch()}/first", built, project)
    for prefix in (scratch() / "second", scratch() / "second"):
        call(tools / "set-prefix", built, prefix)
    call("meson", "install", "--quiet", "-C", built)
    assert str(scratch() / "second") in call(tools / "set-prefix", "--say", built)
    assert not (scratch() / "first").exists() and (scratch() / "second/libexec/brig/file").exists()
    (scratch() / "second/libexec/theirs").write_text("not ours")
    call(tools / "uninstall", built)
    assert sorted(tree(scratch() / "second")) == ["libexec", "libexec/theirs"], tree(scratch() / "second")
    again = subprocess.run([tools / "uninstall", built], capture_output=True, text=True, check=False)
    assert again.returncode == 1 and "nothing was installed" in again.stderr, again


LOST = r"""
#include <brig.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

int main(void)
{
	static const char *const goals[] = { "/dev/full", "/dev/null" };
	brig_manager *m = brig_manager_new();

	for (int i = 0; i < 2; i++) {
		brig_request *q = brig_request_new(m);
		brig_result *r = NULL;
		struct brig_error e;

		brig_request_stdio(q, -1, open(goals[i], O_WRONLY), -1);
		if (brig_request_shell(q, "echo x", &e) < 0 || brig_execute(q, &r, &e) < 0)
			return 1;
		printf("%d %s\n", brig_result_exit_code(r), brig_result_lost(r) == ENOSPC ? "lost" : brig_result_lost(r) ? "odd" : "kept");
		brig_result_free(r);
		brig_request_free(q);
	}
	brig_manager_free(m);
	return 0;
}
"""


@test
def a_program_is_told_that_its_descriptor_took_no_more():
    prefix = install()
    program, source = scratch() / "lost", scratch() / "lost.c"
    source.write_text(LOST)
    found = f"-Wl,-rpath,{next(prefix.rglob('libbrig.so')).parent}"
    call(*compiler(), "-std=c99", *WARNINGS, source, *pkg_config(prefix, "--cflags", "--libs"), found, "-o", program)
    done = started(program)
    assert done.stdout == "0 lost\n0 kept\n", (done.stdout, done.stderr)


class Echo(Handler):
    def do_GET(self):
        self.server.seen.append((self.requestline, fields(self.headers.items())))
        self.answer(self.headers.get("Authorization", "none").encode())


@test
def the_proxy_example_guards_whoever_uses_it():
    prefix = install()
    program = prefix / "bin/example"  # finds its helper as an installed program would
    found = f"-Wl,-rpath,{next(prefix.rglob('libbrig.so')).parent}"
    call(*compiler(), "-std=c99", *WARNINGS, TOP / "examples/proxy.c", *pkg_config(prefix, "--cflags", "--libs"), found, "-o", program)
    with Web("api.test", handler=Echo) as web, Web("closed.test") as closed:
        argv = brig_argv("api.test", scratch() / "authority.pem", f"egress.resolve=api.test=127.0.0.1:{web.port}", f"egress.roots={root()}/ca.pem")
        argv[argv.index(str(brig_path()))] = str(program)
        p = subprocess.Popen(argv, env={**brig_environment(), "API_TOKEN": "not this one, which is the environment's"}, cwd=workspace(),
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            url = p.stdout.readline().strip()
            curl = ["curl", "-sS", "-x", url, "--cacert", scratch() / "authority.pem", "-g"]
            for user in ("{API_TOKEN}", None):
                got = call(*curl, *(["-H", f"Authorization: Bearer {user}"] if user else []), "https://api.test/")
                assert "nobody-else" not in got and (user is None) == (got == "none"), got
            refused = subprocess.run([*curl, "https://closed.test/"], capture_output=True, check=False)
            assert refused.returncode != 0 and not closed.connections
        finally:
            out, errors = p.communicate(timeout=20 * PATIENCE)
        assert [f.get("Authorization") for _, f in web.seen] == ["Bearer a-token-that-nobody-else-has", None], web.seen
        result = json.loads(out)
        assert p.returncode == 0 and result["egress"]["allowed"] == 2 and result["egress"]["denied"] == 1, (out, errors)
        assert errors.count("denied: ") == 1 and "Host not in allowlist: closed.test" in errors, errors
        # What cannot be had is refused before anything listens.
        argv[-1] = "egress.roots=/nowhere"
        done = subprocess.run(argv, env=brig_environment(), cwd=workspace(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "/nowhere" in done.stderr and not done.stdout, done


@test
def the_example_runs_against_the_static_library():
    prefix = install()
    program = scratch() / "example"
    flags = pkg_config(prefix, "--static", "--cflags", "--libs")
    flags = ["-l:libbrig.a" if f == "-lbrig" else f for f in flags]
    call(*compiler(), "-std=c99", *WARNINGS, EXAMPLE, *flags, "-o", program)
    assert "libbrig.so" not in call("readelf", "-d", program)
    run_example(program)


@test(as_user="user")
def the_header_is_clean_c99_and_c17():
    for standard in ("c99", "c17"):
        call("cc", f"-std={standard}", *WARNINGS, "-fsyntax-only", "-x", "c", TOP / "include/brig.h")


@test(as_user="user")
def the_header_is_clean_cpp():
    compiler_of_cpp = shutil.which("g++") or shutil.which("clang++")
    assert compiler_of_cpp, "no C++ compiler; tools/deps test installs one"
    for standard in ("c++11", "c++17"):
        call(compiler_of_cpp, f"-std={standard}", *WARNINGS, "-fsyntax-only", "-x", "c++", TOP / "include/brig.h")


@test(as_user="user")
def every_function_of_the_header_is_exported():
    text = (TOP / "include/brig.h").read_text()
    declared = {name for line in re.findall(r"^BRIG_API[^;]*;", text, re.M) for name in re.findall(r"\b(brig_\w+)\(", line)}
    exported = {line.split()[2] for line in call("nm", "-D", "--defined-only", BUILD / "libbrig.so").splitlines()}
    assert declared and declared <= exported, declared - exported


if __name__ == "__main__":
    sys.exit(main())
