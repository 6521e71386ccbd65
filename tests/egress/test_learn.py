#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""brig learn: what a command asked for becomes settings under which it runs again, and what a hostile one asked for becomes no more than that."""

import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import time
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from door import GitHandler, Handler, Resolver, Web, configure, npm_registry, on_every_door, repository, seeded  # noqa: E402
from test_websocket import server as websocket_server  # noqa: E402
from harness import IS_ROOT, PATIENCE, brig, brig_argv, brig_environment, compile_c, main, scratch, start_brig, test, workspace  # noqa: E402

BARE = "import os, urllib.request as u\nfor k in list(os.environ):\n    if k.lower().endswith('_proxy'): del os.environ[k]\n"


def door(*servers, **egress):
    """Names and roots alone: who may be reached is for a file of its own to say."""
    path = configure(*servers, **egress)
    given = json.loads(path.read_text())
    given["egress"].pop("allow")
    path.write_text(json.dumps(given))
    return path


def learn(config, *argv, options=(), **more):
    """What was learned; the file is in the workspace as the project's."""
    (workspace() / ".brig.yaml").unlink(missing_ok=True)
    r = brig("learn", "--config", config, "--json", *options, "--", *argv, **more)
    assert r.stdout.startswith(b"{"), (r.stdout, r.errors)
    r.json["status"], r.json["errors"] = r.status, r.errors
    (workspace() / ".brig.yaml").write_text(r.json["file"])
    return r.json


def again(config, *argv, options=()):
    """A second run under what was learned, once its user has trusted it."""
    assert brig("allow", ".brig.yaml").status == 0
    return brig("run", "--config", config, "--json", *options, "--", *argv).json


def texts(rows):
    return [row["text"] for row in rows]


def python(code):
    return ("python3", "-c", BARE + code)


# ---- programs run again under what was learned ----


@on_every_door
def git_clones_again_and_no_more():
    seeded(repository())
    with Web("git.test", handler=GitHandler) as web:
        config, clone = door(web), ("sh", "-c", "git clone -q https://git.test/one.git /tmp/one && git -C /tmp/one log --format=%s")
        r = learn(config, *clone)
        assert r["status"] == 0 and texts(r["allow"]) == ["fetch:git.test/one"], r
        assert again(config, *clone)["stdout"] == "first\n"
        # What it did not do is closed.
        push = again(config, "sh", "-c", "cd /tmp && git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git push -q https://git.test/one.git HEAD:x 2>&1")
        assert push["exit_code"] and "403" in push["stdout"], push


@test(as_user="user")
def npm_installs_again():
    with npm_registry() as web:
        config = door(web)
        install = ("sh", "-c", "cd /tmp && npm install --no-audit --no-fund --registry https://npm.test brig-sample >/dev/null && cat node_modules/brig-sample/package.json")
        r = learn(config, *install, timeout=60)
        assert r["status"] == 0 and all(t.startswith("GET npm.test") for t in texts(r["allow"])), r
        assert '"brig-sample"' in again(config, *install)["stdout"]


@test(as_user="user")
def pip_installs_again():
    wheel = scratch() / "sample-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as z:
        z.writestr("sample.py", "said = 'from a wheel'\n")
        z.writestr("sample-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n")
        z.writestr("sample-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("sample-1.0.dist-info/RECORD", "")
    with Web("pypi.test", handler=type("Index", (Handler,), {
            "get_simple": lambda self: self.answer(f'<a href="/files/{wheel.name}">{wheel.name}</a>'.encode(), fields=[("Content-Type", "text/html")]),
            "get_files": lambda self: self.answer(wheel.read_bytes())})) as web:
        config = door(web)
        install = ("sh", "-c", "python3 -m pip install -q --no-input --disable-pip-version-check --target /tmp/t --index-url https://pypi.test/simple sample 2>&1 && PYTHONPATH=/tmp/t python3 -c 'import sample; print(sample.said)'")
        if subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True, check=False).returncode:
            install = python("import json\nfor p in ('/simple/sample/', '/files/" + wheel.name + "'): u.urlopen('https://pypi.test' + p).read()\nprint('from a wheel')")
        r = learn(config, *install, timeout=60)
        assert r["status"] == 0 and "from a wheel" in again(config, *install)["stdout"], r


@test
def a_build_in_c_runs_again():
    r = brig("learn", "--json", "--", "sh", "-c", "printf 'int main(void){return 7;}' > m.c && cc -o m m.c && ./m")
    assert r.status == 7 and r.json["allow"] == r.json["read"] == r.json["write"] == [], r.json
    (workspace() / ".brig.yaml").write_text(r.json["file"])
    assert brig("allow", ".brig.yaml").status == 0
    assert brig("run", "--", "sh", "-c", "cc -o m m.c && ./m").status == 7


@test
def requests_become_methods_and_the_path_they_share():
    with Web("api.test", "files.test") as web:
        config = door(web)
        code = python("for p in ('/v1/a?q=secret', '/v1/b', '/v1/b/c'): u.urlopen('https://api.test' + p).read()\n"
                      "u.urlopen('https://api.test/login', data=b'x').read()\n"
                      "r = u.Request('https://files.test/x/y', method='PUT', data=b'1', headers={'X-Tenant': 'a'}); u.urlopen(r).read()\n")
        r = learn(config, *code)
        assert sorted(texts(r["allow"])) == ["GET api.test/v1/", "POST api.test/login", "PUT files.test/x/y"], r
        assert [t.lower() for t in texts(r["fields"])] == ["files.test x-tenant"] and "secret" not in r["file"], r
        assert [row["count"] for row in r["allow"]] == [3, 1, 1]
        assert again(config, *code)["exit_code"] == 0
        # The control: another path of the same host, and another method, are refused now.
        for bad in ("u.urlopen('https://api.test/other')", "u.urlopen('https://api.test/v1/a', data=b'x')", "u.urlopen('https://files.test/x/y')"):
            assert "403" in again(config, *python(bad))["stderr"], bad


@test(as_user="user")
def a_websocket_becomes_the_rule_that_lets_it_through():
    client = """import asyncio, os, sys, websockets
for k in list(os.environ):
    if k.lower().endswith('_proxy'): del os.environ[k]
async def main():
    for path in sys.argv[1:]:
        async with websockets.connect('wss://ws.test' + path) as w:
            await w.send('text')
            print(await w.recv())
        if path.endswith('last'):
            w = await websockets.connect('wss://ws.test' + path)
            await w.send('open')
            print(await w.recv(), flush=True)
            os._exit(0)
asyncio.run(main())
"""
    with websocket_server() as web:
        config, code = door(web), ("/usr/bin/python3", "-c", client, "/v1/live?token=hush", "/v1/last")
        r = learn(config, *code)
        assert r["status"] == 0 and texts(r["allow"]) == ["ws:ws.test/v1/"] and r["allow"][0]["count"] == 3 and "hush" not in r["file"], r
        assert again(config, *code)["stdout"] == "text\ntext\nopen\n"
        # The control: another path, and a request that is none, are refused now.
        assert "403" in again(config, *code[:3], "/v2")["stderr"]
        assert "403" in again(config, *python("u.urlopen('https://ws.test/v1/live')"))["stderr"]


@test
def a_websocket_is_not_opened_against_what_the_line_said():
    code = python("import http.client\nc = http.client.HTTPSConnection('ws.test')\nc.request('GET', '/v1/live', headers={'Connection': 'Upgrade', 'Upgrade': 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ=='})\nprint(c.getresponse().status)")
    with websocket_server() as web:
        config = door(web)
        r = learn(config, *code, options=("--allow", "ws:ws.test/v2"))
        assert r["allow"] == [] and "--allow ws:ws.test/v1/live" in r["file"] and not web.heads, r
        assert texts(learn(config, *code, options=("--allow", "ws.test"))["allow"]) == ["ws:ws.test/v1/live"]  # the control


@test
def what_only_the_line_gave_is_named_and_not_written():
    line = ("--network", "none", "--set", "limits.memory=1g", "-e", "SECRET=hush", "--read", "/usr/share")
    r = learn(door(), "true", options=line)
    remark = "# That run was also given, and this file does not have it: limits.memory, env.set.\n"
    assert remark in r["file"] and "hush" not in r["file"], r
    assert "also given" not in learn(door(), "true", options=("--network", "none"))["file"]  # the control


@test
def two_runs_are_merged():
    with Web("one.test", "two.test") as web:
        config = door(web)
        first = learn(config, *python("u.urlopen('https://one.test/a').read()"))
        os.rename(workspace() / ".brig.yaml", workspace() / "first.yaml")
        r = learn(config, *python("u.urlopen('https://two.test/b').read()"), options=("--add", workspace() / "first.yaml"))
        assert sorted(texts(r["allow"])) == ["GET one.test/a", "GET two.test/b"] and texts(first["allow"]) == ["GET one.test/a"], r
        for host in ("one.test/a", "two.test/b"):
            assert again(config, *python(f"u.urlopen('https://{host}').read()"))["exit_code"] == 0
        (workspace() / "more.yaml").write_text("brig: 1\nlimits: {memory: 1g}\n")
        refused = brig("learn", "--add", "more.yaml", "--", "true")
        assert refused.status == 125 and "limits.memory" in refused.errors, refused.errors


# ---- files ----


def data():
    """A folder that a run is shown."""
    d = scratch() / "data"
    (d / "many").mkdir(parents=True)
    (d / "few").mkdir()
    for i in range(30):
        (d / "many" / f"f{i}").write_text(str(i))
    for n in ("a", "b", "c"):
        (d / "few" / n).write_text(n)
    (d / "link").symlink_to("few/b")
    for folder in (scratch(), d, d / "many", d / "few"):
        folder.chmod(folder.stat().st_mode | 0o555)
    return d


@test(backends=("native", "bwrap"))
def files_are_those_that_were_opened():
    d = data()
    line = ("sh", "-c", f"cat {d}/few/a >/dev/null; cat {d}/few/a; cat {d}/gone /opt/brig-learn-gone 2>/dev/null; cat /etc/hostname >/dev/null; echo x > own")
    r = learn(door(), *line, options=("--network", "none", "--read", d))
    assert r["blind"] is None and texts(r["read"]) == [f"{d}/few/a"] and r["read"][0]["count"] == 2, r
    assert r["write"] == [] and "/opt/brig-learn-gone" in r["missing"] and f"{d}/gone" in r["missing"], r
    assert "network: none" in r["file"]
    assert again(door(), *line)["stdout"] == "a" and "could not see" not in r["file"]
    # Where something was shown, what could not be followed may be missing in the list.
    (d / "loop").symlink_to("loop")
    loop = ("cat", d / "loop")
    assert "# 1 time brig could not see" in learn(door(), *loop, options=("--network", "none", "--read", d))["file"]
    assert "could not see" not in learn(door(), *loop, options=("--network", "none"))["file"]
    learn(door(), *line, options=("--network", "none", "--read", d))
    # The control: what it did not open is not there.
    assert again(door(), "cat", f"{d}/few/b")["exit_code"] == 1


@test(backends=("native", "bwrap"))
def names_in_its_own_home_are_not_told_and_in_the_callers_are():
    callers = f"{os.environ['HOME']}/brig-learn-gone"
    r = learn(door(), "sh", "-c", f"cat ~/.cache/gone /opt/brig-learn-gone {callers}; echo $HOME", options=("--network", "none"))
    assert r["blind"] is None and "/opt/brig-learn-gone" in r["missing"] and callers in r["missing"], r  # the control
    assert not [name for name in r["missing"] if name.startswith("/home/brig")], r


@test
def many_files_become_their_folder_and_links_the_folder_of_both():
    d = data()
    r = learn(door(), "sh", "-c", f"cat {d}/many/* {d}/few/c", options=("--read", d))
    assert sorted(texts(r["read"])) == [f"{d}/few/c", f"{d}/many"] or texts(r["read"]) == [str(d)], r
    line = ("cat", f"{d}/link")
    r = learn(door(), *line, options=("--read", d))
    assert again(door(), *line)["stdout"] == "b", r


@test
def what_is_written_is_told_apart_and_never_more_than_was_granted():
    d = data()
    r = learn(door(), "sh", "-c", f"cat {d}/few/a; echo y > {d}/few/b; echo z > {d}/many/new; echo no > {scratch()}/elsewhere; true",
              options=("--write", d))
    assert texts(r["read"]) == [f"{d}/few/a"] and sorted(texts(r["write"])) == [f"{d}/few/b", f"{d}/many"], r
    r = learn(door(), "sh", "-c", f"echo y > {d}/few/b; true", options=("--read", d))
    assert r["write"] == [], r


# ---- hostile commands ----


@on_every_door
def what_is_refused_is_told_and_not_allowed():
    with Web("near.test") as web:
        config = door(web)
        r = learn(config, "python3", "-c", "import urllib.request as u\nfor h in ('10.1.2.3', '169.254.169.254', 'x.local'):\n"
                                           "    try: u.urlopen('https://%s/' % h, timeout=5)\n    except Exception as e: print(e)\n")
        assert r["allow"] == [] and "network: none" in r["file"], r
        assert sorted(d["reason"].split(":")[0] for d in r["refused"]) == ["not-allowed", "not-allowed", "private-address"], r["refused"]
        assert "x.local" in r["file"] and "not allowed by this file" in r["file"]
        # The control: a name that is open is learned.
        assert texts(learn(config, *python("u.urlopen('https://near.test/')"))["allow"]) == ["GET near.test"]


@test
def names_that_only_look_public_are_told():
    if not IS_ROOT:
        return  # no port 53, no mount: nothing to try with
    inward = {"cdn.example.org": "10.0.0.1", "docs.example.net": "127.0.0.1", "meta.example.com": "169.254.169.254"}
    with Resolver(inward) as names, Web("api.test") as web:
        r = learn(door(web), *python(f"for h in {[*inward, 'api.test']!r}:\n    try: u.urlopen('https://%s/' % h, timeout=5)\n    except Exception as e: print(e)\n"))
        assert set(names.asked) == set(inward)  # the control: they were asked for, and led somewhere
        assert texts(r["allow"]) == ["GET api.test"] and {d["target"].split(":")[0] for d in r["refused"]} == set(inward), r


@test
def no_value_goes_along_unless_it_is_named():
    with Web("api.test") as web:
        config = door(web, more={"credentials": {"KEY_A": {"host": "api.test", "header": "Authorization", "prefix": "Bearer "}}, "env": {"pass": ["KEY_B"]}})
        code = python("r = u.Request('https://api.test/', headers={'Authorization': 'Bearer ' + os.environ.get('KEY_A', '-')}); u.urlopen(r).read(); print(os.environ.get('KEY_A'), os.environ.get('KEY_B'))")
        env = {"KEY_A": "zq8Gk2vTn41Lw0bYd7Rm", "KEY_B": "another-value"}
        r = learn(config, *code, env=env)
        assert "None None" in r["errors"] and not any("zq8Gk2" in str(s) for s in web.seen), (r, web.seen)
        r = learn(config, *code, env=env, options=("--credential", "KEY_A"))
        assert any("zq8Gk2" in str(s) for s in web.seen), web.seen
        assert "use_credentials" in r["file"] and "zq8Gk2" not in r["file"] + r["errors"], r
        assert again_with(config, env, code)["exit_code"] == 0


def again_with(config, env, code):
    assert brig("allow", ".brig.yaml").status == 0
    return brig("run", "--config", config, "--json", "--", *code, env=env).json


@test
def names_of_the_commands_choice_are_data():
    d = data()
    evil = "x\nwrite:\n  - etc # \u2028 \u202e \x85"
    (d / "few" / evil).write_text("1")
    r = learn(door(), "sh", "-c", 'cat "$1" "$2" "/opt/$3"; true', "sh", d / "few" / evil, d / "few" / "b", evil, options=("--read", d))
    assert texts(r["read"]) == [f"{d}/few"] and r["write"] == [], r
    lines = r["file"].split("\n")
    assert not any(line.startswith(("write", "  - etc")) for line in lines), r["file"]
    assert all(" " <= c <= "~" for line in lines if line.startswith("#") for c in line), r["file"]
    assert brig("config", "check", ".brig.yaml").status == 0
    with Web("api.test") as web:
        head = "GET /a HTTP/1.1\\r\\nHost: api.test\\r\\nX-All*: 1\\r\\nConnection: close\\r\\n\\r\\n"
        r = learn(door(web), *python("import socket, ssl\ns = ssl.create_default_context().wrap_socket(socket.create_connection(('api.test', 443)), server_hostname='api.test')\n"
                                     f"s.sendall(b'{head}'); s.recv(100)"))
        assert r["fields"] == [] and texts(r["allow"]) == ["GET api.test/a"] and "api.test X-All*" in texts(r["unnamed"]), r


@test
def floods_are_cut_and_told():
    d = data()
    code = f"import os\nfor i in range(4200):\n    os.close(os.open('{d}/w/%d' % i, os.O_RDWR | os.O_CREAT))\n    os.path.islink('/opt/%d' % i)\n    try: os.open('/opt/%d' % i, 0)\n    except OSError: pass\n"
    (d / "w").mkdir(mode=0o777)
    (d / "w").chmod(0o777)
    r = learn(door(), "python3", "-c", code + f"for i in range(4200): os.close(os.open('{d}/w/%d' % i, 0))", options=("--write", d), timeout=60)
    assert r["more_files"] and "the granted places stand whole" in r["file"] and texts(r["write"]) + texts(r["read"]) == [str(d)], r
    assert len(r["missing"]) <= 64 and r["more_missing"], r["missing"]
    assert len(r["file"]) < 65536


HELD = r"""
import ctypes, os, sys
print([os.readlink('/proc/self/fd/%s' % f) for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f)])
for p in os.listdir('/proc'):
    if p.isdigit():
        try: print(p, [os.readlink(f'/proc/{p}/fd/{f}') for f in os.listdir(f'/proc/{p}/fd')])
        except OSError: pass
"""


@test(backends=("native", "bwrap"))
def no_listener_reaches_the_command():
    r = brig("learn", "--save", "out.yaml", "--", "python3", "-c", HELD)
    assert r.status == 0 and "seccomp" not in r.text, r.text
    assert "pipe:" in r.text  # the control: descriptors are seen


@test
def nobody_waits_for_a_monitor_that_is_gone():
    """The command ends with its monitor, however many of its calls wait for an answer then."""
    p = start_brig("learn", "--save", "out.yaml", "--", "python3", "-c",
                   "import os, threading\ndef f():\n    while True: os.close(os.open('/etc/passwd', 0))\nfor _ in range(8): threading.Thread(target=f).start()\nprint('up', flush=True)")
    assert p.stdout.readline() == b"up\n"
    time.sleep(0.2)
    p.send_signal(signal.SIGKILL)
    p.communicate(timeout=10 * PATIENCE)  # its streams are closed when nobody holds them


@test
def a_monitor_that_stands_still_loses_nothing():
    p = start_brig("learn", "--save", "out.yaml", "--", "python3", "-c", "import os, sys\nprint('up', flush=True); sys.stdin.readline()\nfor _ in range(1000): os.close(os.open('/etc/passwd', 0))\nprint('done')", stdin=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    p.stdin.write(b"\n")
    p.stdin.flush()
    p.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    p.send_signal(signal.SIGCONT)
    out, _ = p.communicate(timeout=20 * PATIENCE)
    assert out == b"done\n" and p.returncode == 0


ABOVE = r"""
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int c, char **v) {
	struct sock_filter f[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 9999, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog p = { 4, f };
	(void)c;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	int l = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &p);
	if (l < 0 || dup(l) < 0) { perror("listener"); return 9; } /* it lives as long as somebody holds it */
	execvp(v[1], v + 1);
	return 9;
}
"""


@test
def below_another_listener_files_are_not_watched_and_that_is_said():
    d = data()
    (workspace() / "above.c").write_text(ABOVE)
    r = subprocess.run([compile_c(workspace() / "above.c"), *brig_argv("learn", "--json", "--read", d, "--", "cat", d / "few" / "a")], env=brig_environment(),
                       cwd=workspace(), capture_output=True, check=False, text=True, stdin=subprocess.DEVNULL)
    r = json.loads(r.stdout)
    assert r["blind"] and "Files were not watched" in r["file"] and texts(r["read"]) == [str(d)], r


RACE = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static char name[256];
static const char *a, *b;
static volatile int stop;
static void *swap(void *x) { (void)x; while (!stop) { memcpy(name, a, strlen(a) + 1); memcpy(name, b, strlen(b) + 1); } return NULL; }
int main(int c, char **v) {
	pthread_t t; int n = 0;
	if (c < 3) return 2;
	a = v[1]; b = v[2];
	pthread_create(&t, NULL, swap, NULL);
	for (int i = 0; i < 4000; i++) { int f = open(name, O_RDONLY); if (f >= 0) { n++; close(f); } }
	stop = 1; pthread_join(t, NULL);
	printf("%d\n", n);
	return 0;
}
"""


@test
def a_name_that_changes_meanwhile_opens_nothing_more():
    """What is read may be another name than the kernel reads: nothing is decided by it, and what is learned is a part of what was granted."""
    d = data()
    (workspace() / "race.c").write_text(RACE)
    os.chmod(workspace() / "race.c", 0o644)
    program = compile_c(workspace() / "race.c", "-pthread")
    (d / "race").write_bytes(program.read_bytes())
    (d / "race").chmod(0o755)
    secret = scratch() / "secret"
    secret.write_text("1")
    secret.chmod(0o644)
    r = learn(door(), d / "race", d / "few" / "a", secret, options=("--read", d))
    assert r["status"] == 0 and all(t == str(d) or t.startswith(f"{d}/") for t in texts(r["read"])) and r["write"] == [], r
    assert str(secret) not in str(r["read"])


OLD = r"""
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <errno.h>
int main(void) {
	long r = syscall(425, 8, 0);
	printf("io_uring %ld %d\n", r, errno);
	fflush(stdout);
#ifdef __x86_64__
	long fd;
	__asm__ volatile("int $0x80" : "=a"(fd) : "a"(5L), "b"("/etc/passwd"), "c"(0L) : "memory");
	printf("old %ld\n", fd);
#endif
	return 0;
}
"""


@test
def other_ways_into_the_kernel_stay_closed():
    (workspace() / "old.c").write_text(OLD)
    program = workspace() / "old"
    program.write_bytes(compile_c(workspace() / "old.c").read_bytes())
    program.chmod(0o755)
    r = brig("learn", "--save", "out.yaml", "--", "./old")
    assert "io_uring -1 38" in r.text and "old" not in r.text, r.text


# ---- the command line ----


@test
def init_writes_what_a_command_asked_for_and_does_not_trust_it():
    with Web("one.test", "two.test") as web:
        env = {"XDG_CONFIG_HOME": str(scratch() / "settings")}
        (scratch() / "settings/brig").mkdir(parents=True)
        (scratch() / "settings/brig/config.yaml").write_text(door(web).read_text())
        get = "u.urlopen('https://one.test/a').read()\n"
        done = brig("init", "--learn", "--yes", "--", *python(get), env=env)
        assert done.status == 0 and "[fail]" not in done.text and "brig allow" in done.text.split("next:")[1] and "failed" not in done.errors, done.text
        assert '- "GET one.test/a"' in (workspace() / ".brig.yaml").read_text()
        assert "brig allow" in brig("run", "--", "true", env=env).errors
        assert brig("allow", env=env).status == 0 and brig("run", "--", *python(get), env=env).status == 0
        assert "403" in brig("run", "--", *python("u.urlopen('https://two.test/')"), env=env).errors  # the control
        # Where nobody can say yes to the file the command is not run; shown it is with --dry-run.
        for options in ((), ("--json",)):
            r = brig("init", "--learn", "--force", *options, "--", "touch", "ran", env=env)
            assert r.status == 125 and "--yes" in r.errors and not (workspace() / "ran").exists(), r.text
        r = brig("init", "--learn", "--dry-run", "--", *python(get), env=env)
        assert r.status == 0 and '- "GET one.test/a"' in r.text, r.text
        done = brig("init", "--learn", "--yes", "--force", "--", "sh", "-c", "exit 3", env=env)
        assert done.status == 0 and "the command failed: what it did not come to is not in the file" in done.errors, done.text


@test
def a_file_is_never_written_over_unless_that_was_said():
    (workspace() / "there.yaml").write_text("mine\n")
    r = brig("learn", "--save", "there.yaml", "--", "touch", "ran")
    assert r.status == 125 and not (workspace() / "ran").exists() and (workspace() / "there.yaml").read_text() == "mine\n", r.errors
    assert "hint: --force replaces it; without --save it is printed" in r.errors, r.errors
    r = brig("learn", "--save", "there.yaml", "--force", "--", "touch", "ran")
    assert r.status == 0 and (workspace() / "ran").exists() and (workspace() / "there.yaml").read_text().startswith("# What a run"), r.errors
    assert stat.S_ISREG((workspace() / "there.yaml").lstat().st_mode)


@test
def the_file_alone_is_on_standard_output_and_is_trusted_by_nobody():
    r = brig("learn", "--", "sh", "-c", "echo said; exit 3")
    assert r.status == 3 and r.text.startswith("# What a run of brig learn") and "said" in r.errors, (r.text, r.errors)
    with Web("api.test") as web:
        config = door(web)
        learn(config, *python("u.urlopen('https://api.test/')"))
        refused = brig("run", "--config", config, "--json", "--", "true")
        assert refused.status == 125, refused.text


@test
def other_backends_are_refused_by_name():
    r = brig("learn", "--backend", "none", "--i-know-this-is-not-a-sandbox", "--", "true")
    assert r.status == 125 and "'none'" in r.errors and "--backend native" in r.errors and "public host is open" not in r.errors, r.errors
    assert "every public host is open" in brig("learn", "--", "true").errors  # the control


if __name__ == "__main__":
    sys.exit(main())
