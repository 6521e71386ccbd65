#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard in a real browser: every page, many sandboxes and events behind it, and strings that attack it."""

import base64
import contextlib
import http.server
import json
import os
import pathlib
import shutil
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import browser  # noqa: E402
import sdk  # noqa: E402
from daemon import daemon  # noqa: E402
from harness import PATIENCE, TOP, around, brig, files_as_root, home, identity, main, start_brig, test, wait_until, workspace  # noqa: E402

WAIT = 10 * PATIENCE
BOXES, EVENTS = (int(os.environ.get(name, most)) for name, most in (("BRIG_BOXES", 100), ("BRIG_EVENTS", 10_000)))
PICTURES = TOP / "build" / "tests" / "dashboard"
window = None

# What a page would obey, hide or reorder if it were more than text. `owned` is set by whoever runs it.
ATTACK = "<img src=x onerror=\"window.owned=1\"><script>window.owned=1</script>\u202egnp.exe\u200b\x1b[31m"
SEEN = "<img src=x onerror=\"window.owned=1\"><script>window.owned=1</script>\\u{202e}gnp.exe\\u{200b}\\u{1b}[31m"


@around
@contextlib.contextmanager
def a_browser(folder):
    global window
    with browser.shared(folder) as window:
        yield


def address(d, **asked):
    return d.call("POST", "/v1/dashboard", asked).json["url"]


def picture(b, name):
    """For people to look at; one of the two identities is enough."""
    if identity() == "user":
        with files_as_root():
            b.picture(PICTURES / f"{name}.png")


def page(b, name):
    b.script("location.hash = arguments[0]", f"#/{name}")


def complaints(b):
    """What the browser refused, or failed to run."""
    return [line["message"] for line in b.log() if line["level"] == "SEVERE" and "401" not in line["message"]]


SCREENS = {"phone": (390, 844), "laptop": (1280, 800), "wide": (1920, 1080)}

# What is wider than the screen, and words that end in three dots, of the kinds that have room for all of them.
CUT = """return [...document.querySelectorAll('main *, header *')].filter(e => e.offsetParent && !e.closest('.skip') && (e.getBoundingClientRect().right > innerWidth + 1
    || (e.matches('.chip, .denied .soft, .view > .cols > div, h1, h2, strong, button, figcaption, dd') && getComputedStyle(e).overflowX === 'hidden' && e.scrollWidth > e.clientWidth + 1)))
    .map(e => `${e.tagName} ${e.className}: ${e.innerText}`)"""


def nothing_is_cut_off(b, name):
    for screen, size in SCREENS.items():
        for dark in (False, True):
            b.show_as(*size, dark)
            b.until("innerWidth === arguments[0] && matchMedia('(prefers-color-scheme: dark)').matches === arguments[1]", size[0], dark)
            b.script("dispatchEvent(new Event('resize'))")
            assert b.script(CUT) == [], (screen, b.script(CUT))
            picture(b, f"{name}-{screen}-{'dark' if dark else 'light'}")
    # The control: a heading that has no room.
    b.script("document.querySelector('h1').style.cssText = 'overflow: hidden; white-space: nowrap; width: 9px'")
    assert len(b.script(CUT)) == 1
    b.script("document.querySelector('h1').style.cssText = ''")
    b.show_as_before()


def every_run_is_shown(b):
    """On the first page: those of the daemon, those without, live and ended; one of them as a story."""
    assert brig("run", "--network", "proxy", "--set", "audit.agent=night shift", "--", "sh", "-c", "curl -s https://refused.example.net/; exit 3").status == 3
    b.until("[...document.querySelectorAll('.view .cols')].some(r => /night shift.*exit 3.*1 denied.*refused.example.net:443.*Allow…/s.test(r.innerText) && r.innerText.includes(arguments[0]))", str(workspace()))
    live = start_brig("run", "--", "sh", "-c", "sleep 1000")
    b.until("[...document.querySelectorAll('.view .cols')].some(r => /sh.*running.*MiB|sh.*running.*KiB/s.test(r.innerText))")
    order = b.script("return [...document.querySelectorAll('.view .cols')].map(r => Number(r.getAttribute('aria-rowindex')))")
    assert len(order) > 2 and order == sorted(order), order  # as they are seen, so are they read and tabbed through
    b.script("[...document.querySelectorAll('.view a')].find(a => /^sh.*running/s.test(a.closest('.cols').innerText)).click()")
    b.until("document.querySelectorAll('.curve path.line').length >= 1 && /running/.test(document.querySelector('.timeline').innerText)")
    page(b, "")
    live.terminate()
    live.communicate()
    b.until("[...document.querySelectorAll('.view .cols')].some(r => /sandbox.web.*running/s.test(r.innerText)) && ![...document.querySelectorAll('.view .cols')].some(r => /sh.*running/s.test(r.innerText))")
    nothing_is_cut_off(b, "runs")
    b.script("[...document.querySelectorAll('.view a')].find(a => a.closest('.cols').innerText.includes('night shift')).click()")
    b.until("/began.*sh.*for night shift.*denied.*refused.example.net:443.*ended.*exited with status 3/s.test(document.querySelector('.timeline')?.innerText)")
    b.until("/refused.example.net:443.*1 denied.*Allow…/s.test(document.querySelector('.bars').innerText) && document.querySelectorAll('.lanes .tick.bad').length === 1")
    nothing_is_cut_off(b, "run")


@test(limit=120)
def what_a_run_has_changed_is_shown_as_text_and_applied_or_thrown_away():
    name = ATTACK.replace("/", "_")
    make = "import sys; open(sys.argv[1], 'w').write(sys.argv[2] + chr(10)); open('.envrc', 'w').write('evil')"
    with browser.borrowed(window) as b, daemon() as d:
        run = brig("run", "--json", "--workspace", "overlay", "--", "python3", "-c", make, name, ATTACK).json
        b.go(address(d, admin=True))
        page(b, f"run/{run['id']}")
        b.sees(SEEN.replace("/", "_"))
        b.sees(f"+{SEEN}")
        b.sees("by name only")
        picture(b, "changes")
        b.script("window.confirm = () => true; [...document.querySelectorAll('button')].find(x => x.textContent === 'Apply').click()")
        b.sees("1 change applied, 1 left out.")
        assert (workspace() / name).read_text() == ATTACK + "\n" and not (workspace() / ".envrc").exists()
        b.script("[...document.querySelectorAll('button')].find(x => x.textContent === 'Discard').click()")
        b.sees("Discarded.")
        assert brig("diff", run["id"]).status == 125
        wrong = complaints(b)
        assert b.script("return window.owned === undefined") and not wrong, wrong
        # One that is paused: the same panel on its own page.
        box = d.create(name="boxed", spec={"workspace": {"path": str(workspace()), "mode": "overlay"}})["id"]
        d.exec(box, "sh", "-c", "echo x > boxed-file")
        page(b, f"sandbox/{box}")
        b.sees("What contains it")
        assert "What it changed" not in b.script("return document.querySelector('main').innerText")
        d.do(box, "pause")
        b.sees("boxed-file")
        d.do(box, "resume")


@test(limit=240)
def every_page_shows_what_there_is():
    with browser.borrowed(window) as b, daemon() as d:
        d.create(name="quiet", spec={"workspace": {"path": str(workspace())}})
        web = d.create(name="web", spec={"workspace": {"path": str(workspace())}, "network": "proxy", "egress": {"allow": ["good.example.org"]}, "limits": {"memory": "256m", "pids": "64"}})
        d.exec("web", "sh", "-c", "echo to-be-seen; echo to-be-red >&2; exit 3")
        b.go(address(d, admin=True))
        page(b, "network")
        b.sees("Nothing has asked for the network yet")
        page(b, "")
        every_run_is_shown(b)
        page(b, "sandboxes")
        b.sees("web")
        assert "#code" not in b.url() and b.cookies()[0]["httpOnly"] and b.cookies()[0]["sameSite"] == "Strict", b.cookies()
        assert b.script("return document.cookie") == ""
        # Live: a sandbox that is made, used and stopped while the page is open.
        b.until("/of 256 MiB/.test(document.querySelector('main').innerText)")
        d.create(name="later", spec={"workspace": {"path": str(workspace())}})
        b.sees("later")
        d.call("POST", "/v1/sandboxes/later/stop", {})
        b.until("[...document.querySelectorAll('.view .cols')].some(r => r.innerText.includes('later') && r.innerText.includes('stopped'))")
        picture(b, "sandboxes")
        # A host that is there for some requests alone is not offered for all of them.
        named = "return deniedNames({ questions: 1, names: 'b.example', denied: [{ target: '.git/hooks' }, { type: 'egress.deny', host: 'a.example', reason: 'Host not in allowlist: a.example' }] }).join()"
        assert b.script(named) == "a.example,b.example,.git/hooks"  # the button beside them is about the first
        offers = "return arguments[0].map(reason => allowButton({ type: 'egress.deny', host: 'a.example.org', reason }) !== null)"
        assert b.script(offers, ["Host not in allowlist: a.example.org", "Host not in allowlist for this request: POST a.example.org/", "plain HTTP to a.example.org is refused"]) == [True, False, False]
        # By the keyboard: along the rows, into one of them.
        b.script("document.querySelector('.view a').focus()")
        b.key("End")
        b.until("document.activeElement.textContent === 'quiet'")
        b.key("Up")
        b.until("document.activeElement.textContent === 'web'")
        b.key("Enter")
        b.sees("What contains it")
        b.until("document.activeElement.tagName === 'H1' && document.title.startsWith('web')")
        b.until("/ready/.test(document.querySelector('[aria-label=Events]').innerText) && /ended sh exit 3/.test(document.querySelector('[aria-label=Events]').innerText)")
        b.until("/limit 256m[ ,].*CPUs.all/s.test(document.querySelector('dl').innerText)")
        b.click("details summary")
        b.until("/to-be-seen/.test(document.querySelector('pre').innerText) && document.querySelector('pre .err').innerText.includes('to-be-red')")
        b.sees("exit 3")
        # Decisions as they happen, with the reason, on its own page and on that of all.
        page(b, "network")
        b.sees("night shift")
        d.exec("web", "sh", "-c", "curl -sS -m 10 https://new.example.net/ || true")
        b.sees("new.example.net:443")
        b.sees("Host not in allowlist")
        b.until("[...document.querySelectorAll('.view a')].some(a => a.textContent === 'web')")
        picture(b, "network")
        # "Allow this": the difference; nothing changes before the host is typed.
        b.click("[aria-label^='Allow new.example.net']")
        b.sees('+    - "new.example.net"', "#allow")
        picture(b, "allow")
        b.type("#allow input", "new.example.ne")
        assert b.script("return document.querySelector('#allow button.main').disabled")
        b.type("#allow input", "t")
        b.click("#allow button.main")
        b.sees("Changed:", "#allow")
        b.click("#allow .end button")
        # The record has it; a search, and one record in full.
        page(b, "record?type=policy.change")
        b.sees("new.example.net")
        b.click("details summary")
        b.sees("egress.allow")
        page(b, "record")
        b.type("input[name=type]", "egress.deny")
        b.click("form button")
        b.until("/egress.deny/.test(document.querySelector('.records').innerText) && !/sandbox.create/.test(document.querySelector('.records').innerText)")
        picture(b, "record")
        page(b, "doctor")
        b.until("document.querySelectorAll('.checks li').length > 5")
        picture(b, "doctor")
        page(b, f"sandbox/{web['id']}")
        b.sees("new.example.net:443")
        picture(b, "sandbox")
        # Landmarks, names for what can be used, one heading.
        assert b.script("""return [...document.querySelectorAll('button, a, input')].filter(e => !e.hidden && !(e.innerText || e.getAttribute('aria-label') || e.labels?.length)).length""") == 0
        assert b.count("main") == b.count("header") == b.count("nav[aria-label]") == b.count("h1") == 1 and b.script("return document.documentElement.lang") == "en"
        assert complaints(b) == []
        b.click("#leave")
        b.sees("You have signed out")
        forget_settings()


@test(limit=240)
def the_owner_is_asked_on_every_page():
    with browser.borrowed(window) as b, daemon() as d, sdk.page() as to:
        names = {n: to for n in ("one.test", "two.test", "three.test", "four.test", "five.test", "xn--bcher-kva.test")}
        d.create(name="asker", spec={"workspace": {"path": str(workspace())}, "network": "proxy", "egress": {"ask": True, "https_only": False, "resolve": names}})
        get = "curl -s -o /dev/null -w '%{http_code} ' http://"

        def asks(name):
            return d.call("POST", "/v1/sandboxes/asker/exec", {"command": f"{get}{name}/", "detach": True}).json["exec"]

        def said(run):
            assert wait_until(lambda: d.call("GET", f"/v1/sandboxes/asker/execs/{run}").json["state"] == "ended", 30)
            return b"".join(base64.b64decode(e["data"]) for kind, e, _ in d.stream("GET", f"/v1/sandboxes/asker/execs/{run}/stream") if kind == "stdout")

        def press(word):
            b.until("[...document.querySelectorAll('#asks button')].some(x => x.textContent === arguments[0] && !x.disabled)", word)
            b.script("[...document.querySelectorAll('#asks button')].find(x => x.textContent === arguments[0]).click()", word)

        b.go(address(d))  # a session that only looks asks nobody
        page(b, "doctor")
        run = asks("one.test")
        time.sleep(1)
        assert b.count("#asks button") == 0
        for q in d.call("GET", "/v1/sandboxes/asker/questions").json["questions"]:
            d.call("POST", f"/v1/sandboxes/asker/questions/{q['question']}", {"answer": "no"})
        assert said(run) == b"403 "
        b.go(address(d, admin=True))
        page(b, "doctor")
        time.sleep(1)
        run = asks("two.test")
        b.sees("asker wants to reach two.test:80, which no rule allows", "#asks")
        picture(b, "question")
        # A click that was on its way is none.
        assert b.script("const x = [...document.querySelectorAll('#asks button')]; return x.length === 4") is True
        press("Once")
        assert said(run) == b"200 "
        b.until("document.getElementById('asks').hidden")
        run = asks("two.test")
        press("No")
        assert said(run) == b"403 "
        run = asks("xn--bcher-kva.test")
        b.sees("not all of its letters are what they look like", "#asks")
        press("For this sandbox")
        assert said(run) == b"200 " and said(asks("xn--bcher-kva.test")) == b"200 "
        # Nor is one that was meant for a question which has gone, and would meet the one that moves into its place.
        asks("four.test")
        b.sees("four.test:80", "#asks")
        run = asks("five.test")
        b.sees("five.test:80", "#asks")
        b.until("[...document.querySelectorAll('#asks button')].filter(x => !x.disabled).length === 8")
        b.script("""window.open = []; new MutationObserver(() => window.open.push([...document.querySelectorAll('#asks button')].filter(x => !x.disabled).length))
                    .observe(document.getElementById('asks'), {childList: true});""")
        first = [q["question"] for q in d.call("GET", "/v1/sandboxes/asker/questions").json["questions"] if q["host"] == "four.test"]
        d.call("POST", f"/v1/sandboxes/asker/questions/{first[0]}", {"answer": "no"})
        assert b.until("window.open.length && window.open") == [0]
        press("Once")
        assert said(run) == b"200 "
        run = asks("three.test")
        press("Always…")
        b.sees('+    - "three.test:80"', "#allow")
        b.type("#allow input", "three.test:80")
        b.click("#allow button.main")
        b.sees("Changed:", "#allow")
        assert said(run) == b"200 " and '"three.test:80"' in settings().read_text()
        forget_settings()
        assert complaints(b) == [], complaints(b)


def settings():
    return home() / ".config" / "brig" / "config.yaml"


def forget_settings():
    shutil.rmtree(home() / ".config")


def events(d, ids, count):
    """So many events, as fast as the daemon takes the calls that make them."""
    with d.dial() as s:
        reader = threading.Thread(target=lambda: [None for _ in iter(lambda: s.recv(1 << 20), b"")])
        reader.start()
        for at in range(0, count, 500):
            s.sendall(b"".join(b"PATCH /v1/sandboxes/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (ids[i % len(ids)].encode(), len(body), body)
                               for i in range(at, min(at + 500, count)) for body in [json.dumps({"labels": {"n": str(i)}}).encode()]))
        s.shutdown(socket.SHUT_WR)
        reader.join()


@test(as_user="user", limit=240 + BOXES)
def many_sandboxes_and_events_leave_a_page_that_answers():
    took = {}

    def until(name, *what):
        began = time.monotonic()
        b.until(*what)
        took[name] = round((time.monotonic() - began) * 1000)

    with browser.borrowed(window) as b, daemon() as d:
        ids = [d.call("POST", "/v1/sandboxes", {"name": f"box-{i}", "spec": {}}).json["id"] for i in range(BOXES)]
        assert wait_until(lambda: d.call("GET", "/metrics").body.count(b'state="ready"} %d' % BOXES) == 1, 6 * WAIT)
        b.go(address(d))
        page(b, "sandboxes")
        until("list", "document.querySelector('.list').getAttribute('aria-rowcount') === arguments[0]", str(BOXES + 1))
        began = time.monotonic()
        flood = threading.Thread(target=events, args=(d, ids, EVENTS))
        flood.start()
        # While they come: elements for what is in sight alone, and keys and searches do what they should.
        b.script("document.querySelector('.view a').focus()")
        b.key("End")
        until("End", "document.activeElement.textContent === 'box-0'")
        b.key("Home")
        until("Home", "document.activeElement.textContent === arguments[0]", f"box-{BOXES - 1}")
        b.type("input[type=search]", f"box-{BOXES // 2}")
        until("search", "document.querySelector('.list').getAttribute('aria-rowcount') === '2'")
        assert b.count(".view > .cols") <= 60
        b.script("const f = document.querySelector('input[type=search]'); f.value = ''; f.dispatchEvent(new Event('input'))")
        b.until("document.querySelector('.list').getAttribute('aria-rowcount') === arguments[0]", str(BOXES + 1))
        during = flood.is_alive()
        flood.join()
        took["events"] = round((time.monotonic() - began) * 1000)
        # Afterwards it has what is true now, and the story of one has its newest events, not all.
        last = max(i for i in range(EVENTS) if i % BOXES == 0)
        page(b, f"sandbox/{ids[0]}")
        b.sees("changed")
        assert d.call("GET", f"/v1/sandboxes/{ids[0]}").json["labels"] == {"n": str(last)}
        until("story", "document.querySelectorAll('[aria-label=Events] li').length > 1 && document.querySelectorAll('[aria-label=Events] li').length <= 500")
        page(b, "sandboxes")
        b.sees("box-")
        picture(b, "many")
        assert complaints(b) == []
    if figures := os.environ.get("BRIG_FIGURES"):
        pathlib.Path(figures).write_text(json.dumps({"sandboxes": BOXES, "events": EVENTS, "keys while they came": during, "ms": took}) + "\n")


class Enemy(http.server.BaseHTTPRequestHandler):
    """Another page on this machine, such as a port that a sandbox has published."""

    target, asked = None, []

    def do_GET(self):  # noqa: N802
        Enemy.asked.append((self.path, self.headers.get("Cookie")))
        body = b"<!doctype html><title>enemy</title><body>enemy</body>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        for cookie in ("brig=evil", "brig=evil; Path=/v1", *(f"b{i}={'x' * 3900}" for i in range(40))) if self.path == "/toss" else ():
            self.send_header("Set-Cookie", cookie + "; Domain=localhost")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def enemy():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Enemy)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Enemy.asked = []
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


CALLS = """
const [origin, done] = arguments;
const one = (path, options) => fetch(origin + path, {credentials: 'include', ...options}).then(async r => `${r.type} ${r.status} ${(await r.text()).length}`, e => 'refused');
const frame = () => new Promise(r => { const f = document.createElement('iframe'); f.onload = () => { try { r(f.contentDocument ? 'same ' + f.contentDocument.title : 'other'); } catch (e) { r('other'); } }; f.src = origin + '/'; document.body.append(f); });
const form = () => { const f = document.createElement('form'); f.method = 'POST'; f.enctype = 'text/plain'; f.action = origin + '/v1/policy/allow'; f.target = 'nowhere'; const i = document.createElement('input');
  i.name = '{"rule":"evil.example.org","typed":"evil.example.org","x":"'; i.value = '"}'; f.append(i); document.body.append(f); f.submit(); };
(async () => {
  const said = [await one('/v1/sandboxes'), await one('/v1/sandboxes', {mode: 'no-cors'}), await one('/v1/policy/allow', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{"rule":"evil.example.org","typed":"evil.example.org"}'}),
    await one('/v1/policy/allow', {method: 'POST', mode: 'no-cors', body: '{"rule":"evil.example.org","typed":"evil.example.org"}'}), await one('/v1/dashboard/session', {method: 'DELETE'})];
  form();
  done(said);
})();
"""


@test(limit=240)
def strings_from_inside_and_other_pages_do_nothing():
    with browser.borrowed(window) as b, daemon() as d, enemy() as port:
        program = workspace() / ATTACK.replace("/", "|")
        program.write_text("#!/bin/sh\nprintf '%s' \"$1\"\nprintf '%s' \"$1\" >&2\n")
        program.chmod(0o755)
        d.create(name="guest", labels={"l": ATTACK}, spec={"workspace": {"path": str(workspace())}, "network": "proxy"})
        box = d.create(labels={"l": ATTACK}, spec={"workspace": {"path": str(workspace())}})
        d.exec("guest", f"./{program.name}", ATTACK)
        d.exec("guest", "sh", "-c", "curl -sS -m 10 http://%3Cimg%20src=x%20onerror=window.owned=1%3E.example.net/ 'http://a.example.net/<script>window.owned=1</script>' || true")
        # The control: as HTML on a page without our rules the same string runs.
        b.go(f"http://127.0.0.1:{port}/")
        b.script("document.body.innerHTML = arguments[0]", ATTACK)
        b.until("window.owned === 1")
        # Here it is text, escapes and all, wherever it is shown.
        brig("run", "--set", f"audit.agent={ATTACK}", "--", f"./{program.name}", ATTACK)
        b.go(address(d, admin=True))
        b.until("[...document.querySelectorAll('.view .chip.agent')].some(c => c.textContent === arguments[0])", SEEN[:64])
        b.script("[...document.querySelectorAll('.view a')].find(a => a.textContent.startsWith('./<img')).click()")
        b.sees(f"began ./{SEEN.replace('/', '|')} for {SEEN[:64]} ·", ".timeline")
        # Nor is the name of a folder that it made, in a denial.
        folder = "in " + ATTACK.replace("/", "|")
        done = brig("run", "--", "sh", "-c", f"mkdir -p '{folder}/.git/hooks' '{folder}/.git/objects' '{folder}/.git/refs'; echo 'ref: refs/heads/x' >'{folder}/.git/HEAD'; echo x >'{folder}/.git/hooks/pre-commit'")
        assert "protected-path" in done.errors, done.errors
        page(b, "record?type=access.deny")
        b.sees("in " + SEEN.replace("/", "|"))
        shutil.rmtree(workspace() / folder)
        page(b, "sandboxes")
        b.sees("l=" + SEEN)
        page(b, "sandbox/guest")
        b.sees(SEEN.replace("/", "|"))
        b.script("for (const s of document.querySelectorAll('details summary')) s.click()")
        b.until("[...document.querySelectorAll('pre')].some(p => p.innerText.includes(arguments[0]) && p.querySelector('.err')?.innerText.includes(arguments[0]))", SEEN)
        page(b, "record?type=sandbox.exec")
        b.sees("onerror=")
        page(b, "network")
        b.sees("example.net")
        assert b.script("return document.documentElement.outerHTML.includes('\\u202e')") is False
        assert b.count("main img, main script") == 0 and b.script("return window.owned") is None
        # Whoever tried to make HTML of it would be refused by the browser.
        assert b.script("try { document.body.innerHTML = arguments[0]; return 'made' } catch (e) { return e.name }", ATTACK) == "TypeError"
        assert b.script("try { const s = document.createElement('script'); s.text = 'window.owned = 1'; document.body.append(s); } catch (e) { } return window.owned") is None
        assert b.script("return window.owned") is None
        # Another page of this machine: it gets no answer, no cookie and no frame. The control is our own page.
        own = b.script("return location.origin")
        ours = b.script_later(CALLS.replace("form();", ""), own)
        assert ours[0].startswith("basic 200") and ours[2].startswith("basic 200"), ours
        b.go(address(d, admin=True))
        b.sees("guest")
        assert "evil.example.org" in settings().read_text()
        settings().unlink()
        b.go(f"http://127.0.0.1:{port}/enemy")
        assert b.script_later(CALLS, own) == ["refused"] * 5
        b.script("const f = document.createElement('iframe'); f.src = arguments[0] + '/'; f.id = 'theirs'; document.body.append(f); const g = document.createElement('iframe'); g.src = '/frame'; g.id = 'mine'; document.body.append(g)", own)
        assert wait_until(lambda: any(path == "/frame" for path, _ in Enemy.asked), WAIT)
        b.until("document.getElementById('mine').contentDocument?.title === 'enemy'")
        assert wait_until(lambda: any("frame-ancestors" in line["message"] for line in b.log()), WAIT)
        assert all(cookie is None for _, cookie in Enemy.asked), Enemy.asked
        assert not settings().exists()
        # Nor does it toss cookies at ours from a name nearby; the control: it has them itself.
        for name in ("evil.localhost", "localhost"):
            b.go(f"http://{name}:{port}/toss")
        assert len(b.cookies()) > 30 and "brig" in {c["name"] for c in b.cookies()}
        b.forget_cookies()
        # The session was not harmed, and the guest's sandbox is as it was.
        b.go(f"{own}/")
        b.sees("guest")
        assert d.call("GET", f"/v1/sandboxes/{box['id']}").json["state"] == "ready"
        forget_settings()
        program.unlink()


if __name__ == "__main__":
    sys.exit(main())
