# SPDX-License-Identifier: Apache-2.0
"""Companions for a test: one that does as it is told, and what is seen of them from outside."""

import json

from harness import workspace

# Does what is sent to it, one program a connection, and answers with what that leaves in `out`.
PUPPET = r"""
import json, socket, threading
def serve(c):
    f, g = c.makefile("rw"), {}
    try:
        exec(json.loads(f.readline()), g)
        out = g.get("out")
    except BaseException as e:
        out = repr(e)
    f.write(json.dumps(out) + "\n"); f.flush(); c.close()
s = socket.create_server(("", 8080))
while True:
    threading.Thread(target=serve, args=(s.accept()[0],)).start()
"""

ASK = r"""
import json, socket, sys
f = socket.create_connection((sys.argv[1], 8080), 10).makefile("rw")
f.write(json.dumps(sys.argv[2]) + "\n"); f.flush()
print(f.readline())
"""

LISTENS = ["CMD", "python3", "-c", "import socket; socket.create_connection(('localhost', 8080), 1)"]


def puppet(**more):
    return {"command": ["python3", "-c", PUPPET], "healthcheck": {"test": LISTENS, "interval": "50ms", "retries": 400}, **more}


def spec(companions, **more):
    return {"workspace": {"path": str(workspace())}, "companions": companions, **more}


def ask(d, box, name, code):
    """What the companion answers, asked from inside the sandbox."""
    done = d.exec(box, "python3", "-c", ASK, name, code)
    assert done["exit_code"] == 0, done
    return json.loads(done["stdout"])


def events(d, box):
    return [e for _, e, _ in d.stream("GET", f"/v1/events?since=0&follow=false&sandbox={box}")]
