#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What people run, in a sandbox as it comes: an ordinary user, the native backend, the default policy.

A row is a program that does its everyday work, and a word that it prints when that worked; where brig does not let it, the
words with which brig says so and what to do."""

import contextlib
import fcntl
import os
import pathlib
import pty
import select
import struct
import subprocess
import sys
import termios

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from harness import brig, home, main, scratch, seconds, start_brig, test, wait_until, workspace  # noqa: E402

HELLO_C = "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n"
JAVA = """public class Hello { public static void main(String[] a) throws Exception {
    Thread[] t = new Thread[300];
    for (int i = 0; i < t.length; i++) { t[i] = new Thread(() -> { try { Thread.sleep(100); } catch (InterruptedException e) { } }); t[i].start(); }
    for (Thread one : t) one.join();
    System.out.println("hello"); } }
"""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>g</groupId><artifactId>a</artifactId><version>1</version><packaging>pom</packaging></project>
"""
POOLS = """
import asyncio, concurrent.futures as f, multiprocessing as m
from multiprocessing import shared_memory
def square(x): return x * x
async def later():
    p = await asyncio.create_subprocess_exec('echo', 'async', stdout=-1)
    return (await p.communicate())[0].decode().strip()
if __name__ == '__main__':
    for way in ('fork', 'spawn', 'forkserver'):
        with m.get_context(way).Pool(2) as pool: assert pool.map(square, [2, 3]) == [4, 9]
    with f.ProcessPoolExecutor(2) as pool: assert list(pool.map(square, [4])) == [16]
    s = shared_memory.SharedMemory(create=True, size=4096); s.buf[0] = 7; s.close(); s.unlink()
    print('pools', asyncio.run(later()))
"""
TESTED = """
import unittest
class T(unittest.TestCase):
    def test_one(self): self.assertEqual(1 + 1, 2)
"""
SERVED = "python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 & until curl -fsS http://127.0.0.1:8000/page; do sleep 0.05; done 2>/dev/null"
POSTGRES = ("PATH=$(ls -d /usr/lib/postgresql/*/bin | tail -1):$PATH; initdb -D data -A trust >/dev/null && "
            "pg_ctl -D data -w -o \"-k $PWD/data -c listen_addresses=''\" start >/dev/null && "
            "psql -h $PWD/data -d postgres -Atc 'select 40 + 2' && pg_ctl -D data -m fast stop >/dev/null")

# name: (files, script of sh, what it prints[, options of brig run])
ROWS = {
    "gcc_compiles": ({"h.c": HELLO_C}, "gcc -O1 -o h h.c && ./h", "hello"),
    "gplusplus_compiles": ({"h.cc": "#include <iostream>\nint main() { std::cout << \"hello\\n\"; }\n"}, "g++ -o h h.cc && ./h", "hello"),
    "clang_with_a_sanitizer_compiles": ({"h.c": HELLO_C}, "clang -fsanitize=undefined -o h h.c && ./h", "hello"),
    "make_builds_on_two_cpus": ({"Makefile": "all: a.o b.o c.o\n\tgcc -o h $^\n", "a.c": HELLO_C, "b.c": "int b;\n", "c.c": "int c;\n"}, "make -j2 >/dev/null && ./h", "hello"),
    "cmake_configures_and_builds": ({"CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(h C)\nadd_executable(h h.c)\n", "h.c": HELLO_C},
                                    "cmake -S . -B out >/dev/null && cmake --build out >/dev/null && out/h", "hello"),
    "meson_configures_and_builds": ({"meson.build": "project('h', 'c')\nexecutable('h', 'h.c')\n", "h.c": HELLO_C}, "meson setup out >/dev/null && ninja -C out >/dev/null && out/h", "hello"),
    "ccache_finds_what_it_kept": ({"h.c": HELLO_C}, "export CCACHE_DIR=$PWD/kept; for i in 1 2; do ccache gcc -c -o h.o h.c; done; ccache --print-stats | grep -E 'direct_cache_hit|preprocessed_cache_hit'", "hit\t1"),
    "static_libraries_are_archived": ({"a.c": "int a(void) { return 42; }\n"}, "gcc -c a.c && ar rcs liba.a a.o && nm liba.a", "T a"),
    "go_builds_and_tests": ({"go.mod": "module h\n", "h.go": "package main\nimport \"fmt\"\nfunc main() { fmt.Println(\"hello\") }\n",
                             "h_test.go": "package main\nimport \"testing\"\nfunc TestOne(t *testing.T) {}\n"}, "go vet ./... && go run . && go test ./...", "hello\nok"),
    "cargo_builds": ({"Cargo.toml": "[package]\nname = \"h\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "src/main.rs": "fn main() { println!(\"hello\"); }\n"},
                     "/usr/bin/cargo run --quiet --offline", "hello"),
    "rustc_compiles": ({"h.rs": "fn main() { println!(\"hello\"); }\n"}, "/usr/bin/rustc h.rs && ./h", "hello"),
    "java_with_three_hundred_threads": ({"Hello.java": JAVA}, "javac Hello.java && java -XX:TieredStopAtLevel=1 Hello", "hello"),
    "maven_finds_its_settings": ({"pom.xml": POM}, "mvn -o -q --version && mvn -o -q validate; echo status $?", "status 0"),
    "node_runs_and_forks": ({"h.js": "const c = require('child_process'); console.log('hello', c.execFileSync('node', ['-p', '6*7']).toString())\n"}, "node h.js", "hello 42"),
    "node_tests": ({"t.test.js": "require('node:test')('one', () => {});\n"}, "node --test t.test.js", "pass 1"),
    "npm_runs_scripts_and_packs": ({"package.json": '{"name": "h", "version": "1.0.0", "scripts": {"hi": "echo said"}}'}, "npm run --silent hi && npm pack --silent", "said\nh-1.0.0.tgz"),
    "python_makes_and_uses_a_venv": ({}, "/usr/bin/python3 -m venv v && . v/bin/activate && pip --version && python -c 'import sys; print(sys.prefix != sys.base_prefix)'", "True"),
    "python_pools_of_every_kind": ({"p.py": POOLS}, "/usr/bin/python3 p.py", "pools async"),
    "python_tests": ({"test_one.py": TESTED}, "/usr/bin/python3 -m unittest -v 2>&1", "OK"),
    "python_knows_types_of_files": ({}, "/usr/bin/python3 -c \"import mimetypes; print(mimetypes.guess_type('a.webp')[0])\"", "image/webp"),
    "five_hundred_threads": ({}, "/usr/bin/python3 -c \"import threading, time\nt = [threading.Thread(target=time.sleep, args=(0.2,)) for _ in range(500)]\n[x.start() for x in t]\n[x.join() for x in t]\nprint('joined')\"", "joined"),
    "a_server_and_a_client_on_loopback": ({"page": "served\n"}, SERVED, "served"),
    "a_server_of_nodes": ({"s.js": "require('http').createServer((q, r) => r.end('served')).listen(8001, '127.0.0.1', async () => { console.log(await (await fetch('http://127.0.0.1:8001/')).text()); process.exit() })\n"},
                          "node s.js", "served"),
    "ruby_runs": ({}, "ruby -rjson -e 'puts JSON.generate({hello: 1})'", '{"hello":1}'),
    "perl_runs": ({}, "perl -MPOSIX -e 'print join(q(,), map { $_ * 2 } 1 .. 3), qq(\\n)'", "2,4,6"),
    "php_has_its_extensions": ({}, "php -r 'echo json_encode([\"hello\" => extension_loaded(\"tokenizer\") && count(get_loaded_extensions()) > 20]);'", '{"hello":true}'),
    "sqlite_keeps_tables": ({}, "sqlite3 x.db 'create table t(a); insert into t values (41), (42); select max(a) from t'", "42"),
    "postgres_starts_and_answers": ({}, POSTGRES, "42"),
    "redis_starts_and_answers": ({}, "redis-server --port 0 --unixsocket $PWD/r.sock --save '' --daemonize yes >/dev/null; until redis-cli -s r.sock ping 2>/dev/null; do sleep 0.05; done; "
                                     "redis-cli -s r.sock set a 42 && redis-cli -s r.sock get a; redis-cli -s r.sock shutdown nosave", "PONG\nOK\n42"),
    "git_from_init_to_gc": ({}, "git init -q -b main . && git config user.name; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; "
                                "echo 1 > f && git add f && git commit -qm one && git switch -qc side && echo 2 > g && git add g && git commit -qm two && git switch -q main && echo 3 > h && git add h && "
                                "git commit -qm three && git merge -q --no-edit side && echo x >> f && git stash -q && git stash pop -q && git tag v1 && git gc -q && git log --oneline | wc -l", "4"),
    "git_rebases": ({}, "git init -q -b main .; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; for i in 1 2 3; do echo $i > f$i; git add .; git commit -qm $i; done; "
                        "git switch -qc side HEAD~2; echo s > s; git add s; git commit -qm s; git rebase -q main && git log --format=%s | tr '\\n' ' '", "s 3 2 1"),
    "gdb_debugs": ({"h.c": HELLO_C}, "gcc -g -o h h.c && gdb -q -batch -ex 'break main' -ex run -ex bt ./h 2>&1", "#0  main"),
    "gdb_debugs_under_the_debug_profile": ({"h.c": HELLO_C}, "gcc -g -o h h.c && gdb -q -batch -ex 'break main' -ex run -ex bt ./h 2>&1", "#0  main", "--profile", "debug"),
    "strace_traces": ({}, "strace -f -e trace=openat -o t sh -c 'cat /etc/hostname >/dev/null'; grep -c hostname t", "1"),
    "perf_counts_under_the_debug_profile": ({}, "perf stat -e task-clock:u true 2>&1", "task-clock", "--profile", "debug"),
    "openssl_makes_keys": ({}, "openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -subj /CN=h 2>/dev/null && openssl x509 -in c -noout -subject", "CN = h"),
    "ssh_keygen_makes_keys": ({}, "ssh-keygen -q -t ed25519 -N '' -f k && ssh-keygen -lf k.pub", "ED25519"),
    "archives_go_round": ({"d/f": "inside\n"}, "tar czf a.tgz d && tar cJf a.txz d && rm -r d && tar xzf a.tgz && cat d/f && rm -r d && tar xJf a.txz && cat d/f", "inside\ninside"),
    "jq_and_awk_and_sed": ({"x.json": '{"a": [1, 2, 39]}'}, "jq '.a | add' x.json | awk '{ print $1 }' | sed 's/^/=/'", "=42"),
    "odd_names_of_files": ({"a b\n\tc*": "odd\n"}, "cat a*; touch -- '-x' \"$(printf 'caf\\303\\251')\" && ls | wc -l", "odd"),
    "locales_and_time_zones": ({}, "TZ=Asia/Tokyo date -d @0 +%H; locale charmap", "09\nUTF-8"),
    "a_large_output_arrives_whole": ({}, "head -c 30000000 /dev/zero | tr '\\0' x | wc -c; head -c 3000000 /dev/zero | tr '\\0' y", "30000000\nyyy"),
    "vim_edits_without_a_screen": ({"f": "one\n"}, "vim -es -u NONE -c '%s/one/two/' -c 'wq' f; cat f", "two"),
    "chromium_runs_a_page_and_takes_a_picture": ({}, "chromium --headless --no-sandbox --disable-gpu --screenshot=p.png --dump-dom 'data:text/html,<p id=x></p><script>x.textContent=6*7</script>' 2>/dev/null; "
                                                     "head -c 4 p.png | tail -c 3", '<p id="x">42</p><script>x.textContent=6*7</script></body></html>\nPNG'),
    "configure_scripts_run": ({"configure": "#!/bin/sh\necho '#include <stdint.h>' > c.c; ${CC:-cc} -E c.c >/dev/null && sed 's/@CC@/gcc/' Makefile.in > Makefile\n", "Makefile.in": "h: h.c\n\t@CC@ -o $@ $<\n",
                               "h.c": HELLO_C}, "sh ./configure && make -s && ./h", "hello"),
    "nginx_serves": ({"n.conf": "daemon on; pid n.pid; error_log stderr; events {} http { access_log off; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s; "
                                "server { listen 127.0.0.1:8003; root PWD; } }\n", "page": "served\n"},
                     "sed -i \"s|PWD|$PWD|\" n.conf; /usr/sbin/nginx -p $PWD -c n.conf 2>/dev/null; until curl -fsS http://127.0.0.1:8003/page; do sleep 0.05; done 2>/dev/null", "served"),
    "wget_and_python_reach_a_server_inside": ({"page": "served\n"}, SERVED + " && wget -qO- http://127.0.0.1:8000/page && /usr/bin/python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/page').read().decode())\"",
                                              "served\nserved\nserved"),
    "a_worktree_inside_the_workspace": ({}, "git init -q -b main .; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; git commit -q --allow-empty -m one; "
                                            "git worktree add -q wt && cd wt && echo x > f && git add f && git commit -qm two && git worktree list | wc -l", "2"),
}


def put(files):
    for name, text in files.items():
        path = workspace() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def row(name, files, script, words, *options):
    def works():
        put(files)
        done = brig("run", "--timeout", seconds(100), *options, "--", "sh", "-c", script, timeout=110)
        assert words in done.text, (done.status, done.text[-2000:], done.errors[-2000:])
    works.__name__ = name
    test(works, as_user="user", limit=120)


for _name, _row in ROWS.items():
    row(_name, *_row)


# ---- at a terminal ----


class Screen:
    """brig at a terminal of this test's own: what it shows, and keys for it."""

    def __init__(self, *command):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.seen = b""
        self.process = start_brig("run", "--tty", "--timeout", seconds(60), "--env", "TERM=xterm", "--", *command, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)

    def read(self):
        if select.select([self.master], [], [], 0.05)[0]:
            with contextlib.suppress(OSError):
                self.seen += os.read(self.master, 65536)

    def until(self, word):
        assert wait_until(lambda: self.read() or word in self.seen, 30), (word, self.seen[-2000:])
        self.seen = b""

    def type(self, keys):
        os.write(self.master, keys)

    def finish(self):
        assert wait_until(lambda: self.read() or self.process.poll() is not None, 30), self.seen[-2000:]
        return self.process.returncode


def terminal(name, command, *talk, left=None):
    def works():
        s = Screen(*command)
        for word, keys in talk:
            s.until(word)
            s.type(keys)
        assert s.finish() == 0, s.seen[-2000:]
        os.close(s.master)
        assert left is None or (workspace() / "f").read_text() == left
    works.__name__ = name
    test(works, as_user="user")


terminal("a_shell_at_a_terminal", ("bash", "--norc"), (b"$ ", b"echo $((6 * 7))\r"), (b"42", b"exit\r"))
terminal("vim_on_a_screen", ("vim", "-u", "NONE", "f"), (b"[New File]", b"itext\x1b:wq\r"), left="text\n")
terminal("less_pages", ("less", "/etc/passwd"), (b"nobody", b"q"))
terminal("tmux_has_windows", ("tmux", "-f", "/dev/null", "new-session", "sh"), (b"$ ", b"echo $((6 * 7))\r"), (b"42", b"exit\r"))
terminal("screen_has_windows", ("env", "SCREENDIR=/tmp/screen", "screen", "-c", "/dev/null", "sh"), (b"$ ", b"echo $((6 * 7))\r"), (b"42", b"exit\r"))
terminal("python_at_a_terminal", ("/usr/bin/python3", "-q"), (b">>> ", b"6 * 7\r"), (b"42", b"exit()\r"))


# ---- what brig does not let through, in its own words ----


def told(name, argv, *words, files=None, before=None, status=None):
    def said():
        put(files or {})
        if before:
            subprocess.run(["setpriv", "--reuid=4242", "--regid=4242", "--clear-groups", "sh", "-c", before], cwd=workspace(), check=True, env={"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"})
        done = brig("run", "--timeout", seconds(60), *argv, timeout=70)
        for word in words:
            assert word in done.errors, (word, done.text, done.errors)
        assert status is None or done.status == status, done.status
    said.__name__ = name
    test(said, as_user="user")


LOCKED = '{"name": "h", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "h", "version": "1.0.0", "dependencies": {"left": "1.0.0"}}, "node_modules/left": {"version": "1.0.0", "resolved": "https://registry.test/left-1.0.0.tgz", "integrity": "sha512-AAAA"}}}'
told("npm_ci_without_a_network_names_what_would_open_it", ("--", "npm", "ci"), "it had no network", "--allow",
     files={"package.json": '{"name": "h", "version": "1.0.0", "dependencies": {"left": "1.0.0"}}', "package-lock.json": LOCKED})
told("pip_without_a_network_names_what_would_open_it", ("--", "/usr/bin/python3", "-m", "pip", "download", "--no-cache-dir", "six"), "it had no network", "--allow")
told("git_config_in_a_protected_file_names_the_way_out", ("--", "git", "remote", "add", "up", "https://example.org/x"), ".git/config", before="git init -q .")
told("a_program_that_is_not_shown_is_named", ("--", "/opt/elsewhere/tool"), "/opt/elsewhere/tool", status=127)
told("screen_without_a_folder_names_the_variable", ("--tty", "--", "screen", "-D", "-m", "true"), "--env SCREENDIR=/tmp/screen")
told("a_secret_among_the_variables_names_the_credential", ("--env-pass", "OPENAI_API_KEY", "--", "true"), "--credential", status=125)
told("su_says_what_to_do", ("--", "su", "-c", "true"), "nobody becomes root inside")
told("sudo_says_what_to_do", ("--", "sudo", "true"), "nobody becomes root inside")
told("perf_names_its_profile", ("--", "perf", "stat", "true"), "--profile debug")
told("a_browsers_own_sandbox_is_named", ("--", "chromium", "--headless", "--dump-dom", "about:blank"), "switch its own sandbox off")
told("unshare_says_what_to_do", ("--", "unshare", "--user", "true"), "no program makes namespaces inside", status=1)
told("bubblewrap_inside_says_what_to_do", ("--", "bwrap", "--ro-bind", "/", "/", "true"), "no program makes namespaces inside")
told("podman_inside_says_what_to_do", ("--", "podman", "info"), "no program makes namespaces inside")
told("docker_says_what_to_do", ("--", "docker", "ps"), "call docker and podman outside of brig")
told("apt_says_what_to_do", ("--", "apt-get", "download", "hello"), "install what is missing on the host")
told("a_folder_that_is_not_written_names_the_option", ("--", "touch", "/usr/x"), "--write FOLDER")
told("a_link_to_the_workspace_names_the_folder", ("--workdir", "link", "--", "true"), "hint: use '", before="mkdir d && ln -s d link", status=125)


def as_user(script):
    """The same on the host, as the one who starts brig."""
    return subprocess.run(["setpriv", "--reuid=4242", "--regid=4242", "--clear-groups", "sh", "-c", script], cwd=workspace(), check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={"HOME": str(home()), "PATH": "/usr/bin:/bin"}).stdout


@test(as_user="user", limit=120)
def a_venv_goes_in_and_out():
    tool = "printf '#!%s/NAME/bin/python\\nimport sys\\nprint(sys.prefix)\\n' \"$PWD\" > NAME/bin/tool && chmod +x NAME/bin/tool"  # as pip writes it
    make = "/usr/bin/python3 -m venv --without-pip NAME && " + tool
    assert not as_user(make.replace("NAME", "out")), "the host cannot make one"
    done = brig("run", "--", "sh", "-c", "out/bin/tool && (. out/bin/activate && tool) && " + make.replace("NAME", "in") + " && in/bin/tool")
    assert done.text.split() == [str(workspace() / n) for n in ("out", "out", "in")], (done.text, done.errors)
    assert as_user("in/bin/tool; . in/bin/activate; tool").split() == [str(workspace() / "in")] * 2


@test(as_user="user")
def worktrees_agree_with_the_host():
    git = "git -c user.name=a -c user.email=a@b"
    as_user(f"git init -q -b main . && {git} commit -q --allow-empty -m one")
    done = brig("run", "--", "git", "worktree", "add", "-q", "wt")
    assert done.status == 0 and "wt/.git" in done.errors, done.errors
    assert "prunable" not in as_user("git worktree list"), as_user("git worktree list")
    inside = brig("run", "--workdir", workspace() / "wt", "--", "sh", "-c", f"echo x > f && git add f && {git} commit -qm three && git log --format=%s")
    assert inside.text == "three\none\n" and as_user("git -C wt log --format=%s") == inside.text, inside.errors


@test(as_user="user")
def a_second_build_finds_the_first_ones_cache():
    put({"c/h.c": HELLO_C, "go.mod": "module h\n", "h.go": "package main\nfunc main() { println(\"hello\") }\n"})
    cache = {"XDG_CACHE_HOME": str(scratch())}
    for hits in ("0", "1"):
        done = brig("run", "--home", "keep", "--", "sh", "-c", "ccache gcc -c -o h.o c/h.c; ccache --print-stats | grep direct_cache_hit; go build -x -o h . 2>&1 | grep -c /compile; ./h 2>&1", env=cache)
        assert f"direct_cache_hit\t{hits}" in done.text and "hello" in done.text, (hits, done.text, done.errors)
    assert done.text.splitlines()[1] == "0", done.text  # nothing was compiled again


if __name__ == "__main__":
    sys.exit(main())
