# SPDX-License-Identifier: Apache-2.0
"""A real browser for a test: headless Chromium with its sandbox on, driven by the packaged chromedriver over plain HTTP.

It is an ordinary user's whoever starts brig: the uid of the suite, a profile of its own that goes with it.
"""

import base64
import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from harness import ORDINARY, PATIENCE

WAIT = 15 * PATIENCE
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Enter": "\ue007", "Tab": "\ue004", "Down": "\ue015", "Up": "\ue013", "End": "\ue010", "Home": "\ue011", "Escape": "\ue00c"}


class Browser:
    """One window. What is asked of it waits for nothing; use `until`."""

    def __init__(self, port, dark=False):
        self.port = port
        options = {"binary": "/usr/bin/chromium", "args": ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--window-size=1360,900",
                                                           "--disable-background-networking", *(["--blink-settings=preferredColorScheme=0"] if dark else [])]}
        self.id = None
        self.id = self._ask("POST", "", {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}, "pageLoadStrategy": "eager"}}})["sessionId"]

    def _ask(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        c.request(method, f"/session{'/' + self.id if self.id else ''}{path}", json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        a = c.getresponse()
        value = json.loads(a.read())["value"]
        c.close()
        if a.status != 200:
            raise RuntimeError(f"{method} {path}: {value.get('error')}: {value.get('message', '')[:600]}")
        return value

    def go(self, url):
        self._ask("POST", "/url", {"url": url})

    def script(self, text, *args):
        return self._ask("POST", "/execute/sync", {"script": text, "args": list(args)})

    def script_later(self, text, *args):
        """The last argument of the script is to be called with its result."""
        return self._ask("POST", "/execute/async", {"script": text, "args": list(args)})

    def url(self):
        return self._ask("GET", "/url")

    def text(self, selector="main"):
        return self.script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def count(self, selector):
        return self.script("return document.querySelectorAll(arguments[0]).length", selector)

    def click(self, selector):
        self._ask("POST", f"/element/{self._find(selector)}/click", {})

    def type(self, selector, text):
        self._ask("POST", f"/element/{self._find(selector)}/value", {"text": KEYS.get(text, text)})

    def key(self, name):
        """To whatever has the focus."""
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": [{"type": "keyDown", "value": KEYS[name]}, {"type": "keyUp", "value": KEYS[name]}]}]})

    def _find(self, selector):
        return self._ask("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def until(self, script, *args, wait=WAIT):
        """Until the expression is true; what it was last."""
        end = time.monotonic() + wait
        while True:
            value = self.script(f"return {script}", *args)
            if value or time.monotonic() > end:
                assert value, f"never: {script}\n{self.text('body')[:2000]}"
                return value
            time.sleep(0.05)

    def sees(self, text, selector="main"):
        return self.until("(document.querySelector(arguments[1])?.innerText ?? '').includes(arguments[0])", text, selector)

    def log(self):
        return self._ask("POST", "/se/log", {"type": "browser"})

    def cookies(self):
        return self._ask("GET", "/cookie")

    def forget_cookies(self):
        self._ask("DELETE", "/cookie")

    def picture(self, path):
        path = pathlib.Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))

    def show_as(self, width, height, dark=False):
        """As a screen of that size would show it, light or dark."""
        for command, asked in (("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}),
                               ("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})):
            self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": asked})

    def show_as_before(self):
        self._ask("POST", "/goog/cdp/execute", {"cmd": "Emulation.clearDeviceMetricsOverride", "params": {}})
        self._ask("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": []}})

    def window(self, handle=None):
        """The one that is asked from now on; without a handle, the present one."""
        if handle:
            self._ask("POST", "/window", {"handle": handle})
        return handle or self._ask("GET", "/window")

    def new_window(self):
        return self._ask("POST", "/window/new", {"type": "tab"})["handle"]

    def close_window(self):
        self._ask("DELETE", "/window")

    def close(self):
        if self.id:
            self._ask("DELETE", "")
        self.id = None


def _start_driver(folder):
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder), "LANG": "C.UTF-8"}
    argv = ["/usr/bin/chromedriver", "--port=0"]
    if os.geteuid() == 0:
        argv = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups", "--inh-caps=-all", *argv]
    return subprocess.Popen(argv, env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


@contextlib.contextmanager
def driver():
    """A chromedriver; gives its port. Whatever it started ends with it."""
    assert shutil.which("chromedriver") and shutil.which("chromium"), "tools/deps test installs chromium-driver"
    folder = pathlib.Path(tempfile.mkdtemp(prefix="brig-browser-", dir="/tmp"))
    if os.geteuid() == 0:
        os.chown(folder, ORDINARY, ORDINARY)
    process = _start_driver(folder)
    try:
        port = None
        for line in process.stdout:
            if (m := re.search(r"started successfully on port (\d+)", line)):
                port = int(m.group(1))
                break
        assert port, "chromedriver did not start"
        threading.Thread(target=process.stdout.read, daemon=True).start()  # so that it never waits for a reader
        yield port
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(WAIT)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def _start(port):
    """A window, tried again: on a machine with much else to do a browser may take longer than its driver waits."""
    for left in (2, 1, 0):
        try:
            return Browser(port)
        except RuntimeError:
            if not left:
                raise
    return None


@contextlib.contextmanager
def shared(folder):
    """One browser for the tests of a file, which take turns: see `borrowed`. A dashboard's host is its daemon's own, and so are its cookies."""
    folder.mkdir()
    with driver() as port:
        b = _start(port)
        b.lock = folder / "lock"
        try:
            yield b
        finally:
            b.close()


@contextlib.contextmanager
def borrowed(b):
    """A new window of it; whoever else wants one waits."""
    with open(b.lock, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        first = b.window()
        b.window(b.new_window())
        b.log()
        try:
            yield b
        finally:
            b.close_window()
            b.window(first)
