#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""network: proxy on docker and podman: real clients in containers, real servers on loopback, and everything around the door.

What the door's own processes make of the bytes is the same behind every backend and is tried in tests/egress."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "egress")]
import common  # noqa: E402
from common import box, container_of, engine, environment, options, ours, podmans, settle, shared_engine, shared_podmans, start_box, token  # noqa: E402
from door import ADDRESS, PROXY, TALK, Handler, Oracle, Web, configure, denials, fields, own_addresses, said  # noqa: E402
from harness import PATIENCE, around, brig, brig_path, descendants, home, identity, installed_hidden, main, scratch, state, test, tree, uid, wait_until, workspace  # noqa: E402
from terminals import Terminal  # noqa: E402

around(shared_engine)
around(shared_podmans)
FREE = "for v in HTTP_PROXY HTTPS_PROXY ALL_PROXY; do unset $v $(echo $v | tr A-Z a-z); done; "  # nobody told them of a proxy
FETCH = "fetch(process.argv[1]).then(async r => console.log(r.status, await r.text())).catch(e => console.log(e.cause || e))"
VALUE = "zq8Gk2vTn41Lw0bYd7Rm"


def behind(config, script, *opts, image=engine.CURL_IMAGE, timeout=60, **more):
    return box("--json", "--config", config, *opts, "--", "sh", "-c", script, image=image, timeout=timeout, **more).json


def shared():
    return common.shared


def nothing_left(result_id, where=None):
    return wait_until(lambda: not [n for n in ours(where) if result_id in n], 20, 0.1) and \
        wait_until(lambda: not [p for p in tree(state() / "brig/docker")], 20, 0.1)


class Git(Handler):
    """The dumb side of git over HTTP: enough for ls-remote."""

    def get_repo(self):
        self.answer(b"0123456789012345678901234567890123456789\trefs/heads/main\n" if "info/refs" in self.path else b"")


@test(limit=180, all_roots=True)
def clients_reach_what_is_allowed_without_a_setting():
    with Web("api.test", handler=Git) as web, Web("closed.test") as closed:
        r = behind(configure(web, closed, allow=["api.test"]), f"""
            curl -sS https://api.test/curl; curl -sS -x socks5h://{ADDRESS}:{PROXY} https://api.test/socks
            curl -s -o /dev/null -w '%{{http_code}}\\n' https://closed.test/
            {FREE} curl -sS https://api.test/free; curl -sS -6 https://api.test/six; CURL_CA_BUNDLE= SSL_CERT_FILE= curl -sS --cacert /etc/ssl/certs/ca-certificates.crt https://api.test/system
            python3 -c 'import urllib.request; print(urllib.request.urlopen("https://api.test/python").read())'
            git ls-remote https://api.test/repo
            node -e '{FETCH}' https://api.test/node
            curl -sS https://closed.test/ | grep -o 'Host not in allowlist' | head -n 1
        """, "--read", os.path.realpath("/usr/bin/node"), "--env", "PATH=/bin:/usr/bin", image=engine.CLIENTS_IMAGE)
        assert r["stdout"].splitlines() == ["hello", "hello", "000", "hello", "hello", "hello", "b'hello\\n'",
                                            "0123456789012345678901234567890123456789\trefs/heads/main", "200 hello", "", "Host not in allowlist"], r
        paths = [line.split()[1] for line, _, _ in web.seen]
        assert paths == ["/curl", "/socks", "/free", "/six", "/system", "/python", "/repo/info/refs?service=git-upload-pack", "/repo/HEAD", "/node"], paths
        assert closed.connections == 0 and denials(r) == [("closed.test:443", "not-allowed")] * 2, (closed.seen, r["denials"])
        assert r["isolation"]["network"] == "proxy" and r["egress"]["allowed"] == 9 and nothing_left(r["id"]), r
        record = brig("audit", "list", "--json").text
        assert '"egress.allow"' in record and '"egress.deny"' in record, record


@test
def a_name_that_no_rule_allows_is_asked_about():
    settle()
    with Web("one.test") as web:
        t = Terminal("curl", "-sS", "https://one.test/", env=environment(), brig_options=(*options(image=engine.CURL_IMAGE)[1:], "--ask", "--config", str(configure(web, allow=[]))))
        t.until(b"and press Enter: ", 60)
        assert b"one.test  port 443" in t.seen and web.seen == [], t.seen
        time.sleep(0.6)  # what is typed sooner does not count
        t.type(b"once\r")
        assert t.finish(60) == 0 and b"hello" in t.seen and len(web.seen) == 1, t.seen


@test(limit=120)
def nothing_but_the_door_is_reached():
    addresses = own_addresses()
    with Oracle(addresses) as oracle, Web("api.test") as web:
        with socket.create_connection((addresses[0], oracle.port)):
            pass  # the control: from outside it is there
        r = behind(configure(web), "cat > /tmp/x.py; python3 /tmp/x.py", image=engine.CLIENTS_IMAGE, input=(TALK + f"""
for a in {[x for x in addresses if not x.startswith('127.') and x != '::1'] + ['10.0.0.1', '169.254.169.254', '172.17.0.1', '8.8.8.8', '2001:4860:4860::8888']!r}:
    family = socket.AF_INET6 if ':' in a else socket.AF_INET
    for port in ({oracle.port}, 22, 853):
        s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(5)
        say(a + '/' + str(port), lambda: s.connect((a, port)))
    say(a + '/udp', lambda: ask_udp(a, {oracle.port}))
for name, kind in (('raw', (socket.AF_INET, socket.SOCK_RAW, 1)), ('icmp', (socket.AF_INET, socket.SOCK_DGRAM, 1)), ('packet', (17, socket.SOCK_RAW, 768))):
    say('!' + name, lambda: socket.socket(*kind))
say('!own', lambda: socket.create_connection(('127.0.0.1', 443), timeout=5))
say('!own6', lambda: socket.create_connection(('::1', {PROXY}), timeout=5))
say('!address', lambda: talk('93.184.216.34', 443, get('closed.test'), 'closed.test'))
for port in (53, 80, 443, {PROXY}):  # the sandbox's own ports are its own
    l = socket.create_server(('0.0.0.0', port)); c = socket.create_connection(('127.0.0.1', port), timeout=5); l.accept()[0].sendall(b'mine')
    print('=' + str(port), c.recv(4).decode())
up = lambda n: int(open(f'/sys/class/net/{{n}}/flags').read(), 16) & 1  # some modules put a dead device into every namespace
print('=devices', *sorted(n for _, n in socket.if_nameindex() if n != 'lo' and up(n)))
print('=allowed', talk('api.test', 443, get('api.test'), 'api.test'))
""").encode())
        answers = said(r)
        walls = {k: v for k, v in answers.items() if k[0] not in "!="}
        assert len(walls) >= 20 and all("Refused" in v for v in walls.values()), (walls, r["stderr"])
        assert all(re.search("not (permitted|supported)|Permission", answers[k]) for k in ("!raw", "!icmp", "!packet")), answers
        assert "Refused" in answers["!own"] and "Refused" in answers["!own6"] and "403" in answers["!address"], answers
        assert all(answers[f"={port}"] == "mine" for port in (53, 80, 443, PROXY)) and answers["=devices"] == "eth0", answers
        assert "200" in answers["=allowed"] and len(oracle.visits) == 1 and len(web.seen) == 1, (answers, oracle.visits)


@test(limit=120)
def the_container_behind_it_is_held_like_any_other():
    with Web("api.test") as web:
        r = behind(configure(web), """
            grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status | tr '\\t' ' '
            cat /etc/resolv.conf /etc/hosts; hostname; id -u; echo $HOME; ls -A /
            for f in /etc/resolv.conf /etc/hosts /etc/brig/ca-bundle.crt /etc/ssl/certs/ca-certificates.crt; do
                echo x 2>/dev/null >> $f && echo open $f; rm -f $f 2>/dev/null && echo gone $f; mkdir -p etc/brig; done
            grep -c "the image's own" /etc/ssl/certs/ca-certificates.crt; cmp /etc/brig/ca-bundle.crt /etc/ssl/certs/ca-certificates.crt && grep -c BEGIN /etc/brig/ca-bundle.crt
            touch made""")
        out = r["stdout"]
        assert "CapEff: 0000000000000000" in out and "CapBnd: 0000000000000000" in out and "NoNewPrivs: 1" in out and "Seccomp: 2" in out, r
        assert f"nameserver {ADDRESS}\n" in out and "127.0.0.1 localhost brig\n" in out and "\nbrig\n" in out, out
        assert "open " not in out and "gone " not in out and ".brig-door" not in out, out
        me = 1000 if identity() == "root" else uid()
        assert out.splitlines()[-2] == "0" and int(out.splitlines()[-1]) > 1 and f"\n{me}\n/home/" in out, out
        assert (workspace() / "made").stat().st_uid == me


class Mirror(Handler):
    def do_GET(self):
        self.server.seen.append((self.requestline, fields(self.headers.items())))
        self.answer(self.headers.get("Authorization", "").encode() + b"\n")


@test(limit=120)
def a_credential_is_used_and_never_seen_and_a_leak_is_stopped():
    with Web("api.test", handler=Mirror) as web:
        config = configure(web, more={"credentials": {"TOKEN": {"host": "api.test"}}})
        r = behind(config, f"""echo $TOKEN; env; curl -sS -H "Authorization: Bearer $TOKEN" https://api.test/a
            curl -sS -o /dev/null -w '%{{http_code}}\\n' https://api.test/b?x=ghp_{"Ab3dE6gH9j" * 3}Ab3dE6""", env={"TOKEN": VALUE})
        assert [f.get("Authorization") for _, f in web.seen] == [f"Bearer {VALUE}"], (web.seen, r)
        assert VALUE not in r["output"] and r["stdout"].startswith("brig-") and r["stdout"].endswith("403\n"), r
        assert [d for d in denials(r) if d[1].startswith("leak")], r["denials"]
        # Not in what the engine was told either: only the placeholder.
        assert VALUE not in brig("audit", "list", "--json").text


@test(limit=120)
def without_its_worker_a_run_ends():
    with Web("api.test") as web:
        settle()
        word = token()
        p = start_box("--json", "--config", configure(web), "--", "sh", "-c", f"curl -sS https://api.test/; sleep 100; : {word}", image=engine.CURL_IMAGE)
        assert wait_until(lambda: web.seen, 40), p.poll()
        worker = [pid for pid, name in descendants(p.pid).items() if name == "brig-egress"]
        os.kill(min(worker), signal.SIGKILL)
        r = json.loads(p.communicate(timeout=60 * PATIENCE)[0])
        assert r["outcome"] == "failed" and "the door's process is gone" in r["error"]["what"] and nothing_left(r["id"]), r


@test(limit=180)
def killed_brigs_and_guards_leave_nothing():
    with Web("api.test") as web:
        config = configure(web)
        for what in ("brig", "guard"):
            word, seen = token(), len(web.seen)
            p = start_box("--config", config, "--", "sh", "-c", f"curl -sS https://api.test/; sleep 100; : {word}", image=engine.CURL_IMAGE)
            assert wait_until(lambda n=seen: len(web.seen) > n, 40), p.communicate()
            name = container_of(word, running=True)
            assert name in ours() and f"{name}-door" in ours(), ours()
            if what == "guard":
                guards = [pid for pid, n in descendants().items() if n == "brig-guard"]
                for pid in guards:
                    os.kill(pid, signal.SIGKILL)
                assert p.wait(40 * PATIENCE) != 0 and guards
            else:
                p.kill()
                p.wait()
            assert nothing_left(name), (what, ours(), tree(state()))


@test(limit=120)
def an_end_before_the_start_leaves_nothing():
    with Web("api.test") as web:
        config = configure(web)
        r = box("--json", "--config", config, "--", "no-such-command", image=engine.CURL_IMAGE).json
        assert (r["exit_code"], r["outcome"]) == (127, "refused") and nothing_left(r["id"]), r
        p = start_box("--json", "--config", config, "--", "sleep", "100", image=engine.CURL_IMAGE)
        mine = state() / "brig/docker"  # another test's door would have it end before it listens to signals
        assert wait_until(lambda: [n for n in ours() if n.endswith("-door") and (mine / n[len("brig-"):-len("-door")]).exists()], 30, 0.01)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60 * PATIENCE)
        r = json.loads(out)
        assert r["outcome"] == "cancelled" and nothing_left(r["id"]), (r, err)


@test(limit=60)
def what_cannot_be_had_is_refused_by_name():
    with Web("api.test") as web:
        config = configure(web)
        r = box("--json", "--config", config, "--runtime", "runsc", "--", "true", image=engine.CURL_IMAGE).json
        assert r["outcome"] == "refused" and "'runsc'" in r["error"]["what"] and "runc" in r["error"]["hint"], r
        (scratch() / "etc").mkdir()
        os.chown(scratch() / "etc", 1000, 1000)
        r = box("--json", "--config", config, "--mount", f"{scratch()}/etc:/etc", "--", "true", image=engine.CURL_IMAGE).json
        assert r["outcome"] == "refused" and "/etc" in r["error"]["what"] and not os.listdir(scratch() / "etc"), r
        r = box("--json", "--config", config, "--", "true", image=engine.CURL_IMAGE, host="tcp://127.0.0.1:2375").json
        assert r["outcome"] == "refused" and "tcp://127.0.0.1:2375" in r["error"]["what"], r
        assert not [n for n in ours() if r["id"] in n]


@test(limit=60)
def a_missing_helper_is_named():
    programs = ("brig", "brig-egress", "brig-door", "brig-gate")
    for missing in programs[2:]:
        alone = scratch() / f"without-{missing}"
        alone.mkdir()
        for name in programs:
            if name != missing:
                shutil.copy(brig_path().with_name(name), alone / name)
        with Web("api.test") as web, installed_hidden():
            settle()
            argv = [alone / "brig", *options(image=engine.CURL_IMAGE), "--json", "--config", configure(web), "--", "true"]
            drop = ["setpriv", f"--reuid={uid()}", f"--regid={uid()}", "--clear-groups", "--inh-caps=-all", "--"] if identity() == "user" else []
            env = {"PATH": os.environ["PATH"], "HOME": str(home()), "XDG_STATE_HOME": str(state()), **environment()}
            done = subprocess.run([*drop, *argv], env=env, cwd=workspace(), capture_output=True, check=False)
            r = json.loads(done.stdout)
            assert r["outcome"] == "refused" and f"'{missing}'" in r["error"]["what"] and missing in r["error"]["hint"] and nothing_left(r["id"]), r


@test(limit=120)
def an_images_own_ways_change_nothing():
    """Entry point, command, user, folder and volumes of the image: all of it is the command's alone."""
    name = f"brig-test:odd-{identity()}"
    shared().import_image(engine.curl_tar(), name, ['ENTRYPOINT ["/bin/false"]', 'CMD ["no"]', "USER 99:99", "WORKDIR /nowhere", "VOLUME /data",
                                                    "ENV LD_PRELOAD=/no.so HTTPS_PROXY=http://192.0.2.9:1 SSL_CERT_FILE=/no"])
    with Web("api.test") as web:
        word = token()
        p = start_box("--config", configure(web), "--", "sh", "-c", f"unset LD_PRELOAD; curl -sS https://api.test/; sleep 100; : {word}", image=name)
        assert wait_until(lambda: web.seen, 40), p.communicate()
        status, found = shared().ask("GET", "/volumes")
        assert status == 200 and not found["Volumes"], found
        run = container_of(word, running=True)
        p.kill()
        p.wait()
        assert nothing_left(run), ours()


@test(limit=60)
def the_plan_shows_both_containers():
    settle()
    p = json.loads(brig("plan", "--backend", "docker", "--image", "x:1", "--allow", "api.test:8443", "--", "true", env={"DOCKER_HOST": "unix:///nowhere"}).text)
    door, create = p["door"]["HostConfig"], p["create"]["HostConfig"]
    assert create["NetworkMode"] == "container:brig-ID-door" and "CapAdd" not in create and "Hostname" not in p["create"], p
    assert door["NetworkMode"] == "none" and door["ReadonlyRootfs"] and p["door"]["Entrypoint"] == ["/brig-door"], p
    assert {"/etc/resolv.conf", "/etc/hosts", "/etc/brig/ca-bundle.crt"} <= {m["Target"] for m in create["Mounts"]}, p


@test(limit=180, as_user="root")
def an_engine_that_stops_ends_the_run():
    with engine.Dockerd(pathlib.Path(f"/tmp/{os.getpid()}-d")) as e, Web("api.test") as web:
        try:
            e.import_image(engine.curl_tar(), engine.CURL_IMAGE)
            p = start_box("--json", "--config", configure(web), "--", "sh", "-c", "curl -sS https://api.test/; sleep 100", image=engine.CURL_IMAGE, host=e.host)
            assert wait_until(lambda: web.seen, 40), p.communicate()
            e.stop_daemon(signal.SIGKILL)
            r = json.loads(p.communicate(timeout=60 * PATIENCE)[0])
            assert r["outcome"] == "failed" and "engine" in r["error"]["what"], r
            e.start()
            assert box("--", "true", image=engine.CURL_IMAGE, host=e.host).status == 0
            assert nothing_left(r["id"], e), ours(e)
        finally:
            e.stop()
            shutil.rmtree(e.folder, ignore_errors=True)


@test(limit=180)
def podman_has_the_same_door():
    here = podmans[identity()]
    addresses = own_addresses()
    with Web("api.test") as web, Web("closed.test") as closed, Oracle(addresses) as oracle:
        far = next((a for a in addresses if not a.startswith("127.") and ":" not in a), "10.0.0.1")
        r = behind(configure(web, closed, allow=["api.test"]), f"""
            curl -sS https://api.test/proxy; {FREE} curl -sS https://api.test/free; curl -sS -6 https://api.test/six
            curl -sS https://closed.test/ | grep -o 'Host not in allowlist' | head -n 1
            curl -s -m 5 http://{far}:{oracle.port}/; echo $?; curl -s -m 5 'http://[2001:db8::1]:{oracle.port}/'; echo $?
            (echo mine | nc -l -p 443 > /dev/null) & sleep 1; nc -w 2 127.0.0.1 443 < /dev/null
            grep -E 'CapEff|CapBnd' /proc/self/status | tr '\\t' ' '; hostname; ip link | grep -c ',UP'; grep nameserver /etc/resolv.conf
            grep -c "the image's own" /etc/ssl/certs/ca-certificates.crt; touch made; id -u
        """, host=here.host, timeout=120)
        me = 1000 if identity() == "root" else uid()
        assert r["stdout"].splitlines() == ["hello", "hello", "hello", "Host not in allowlist", "7", "7", "mine", "CapEff: 0000000000000000",
                                            "CapBnd: 0000000000000000", "brig", "2", f"nameserver {ADDRESS}", "0", str(me)], r
        assert len(web.seen) == 3 and closed.connections == 0 and not oracle.visits and denials(r) == [("closed.test:443", "not-allowed")], r
        assert (workspace() / "made").stat().st_uid == me and nothing_left(r["id"], here), ours(here)
        word = token()
        p = start_box("--config", configure(web), "--", "sh", "-c", f"curl -sS https://api.test/; sleep 100; : {word}", image=engine.CURL_IMAGE, host=here.host)
        assert wait_until(lambda: len(web.seen) > 3, 60), p.communicate()
        name = container_of(word, here, running=True)
        p.kill()
        p.wait()
        assert nothing_left(name, here), ours(here)


if __name__ == "__main__":
    sys.exit(main())
