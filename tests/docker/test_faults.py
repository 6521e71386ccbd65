#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Kills at random points: brig, its guard, the container. No hang, a typed outcome each time, nothing left in the end."""

import contextlib
import json
import os
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
from common import box, ours, shared_engine, start_box, token  # noqa: E402
from harness import around, descendants, main, test, tree, wait_until, workspace  # noqa: E402

around(shared_engine)
ROUNDS = int(os.environ.get("BRIG_KILLS", "12"))


def mine(word):
    status, found = common.shared.ask("GET", "/containers/json?all=1")
    return [c["Id"] for c in found if word in c["Command"]] if status == 200 else []


def strike(what, p, word):
    if what == "brig":
        p.kill()
    elif what == "guard":
        for pid, name in descendants().items():
            if name == "brig-guard":
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
    else:
        for c in mine(word):
            common.shared.ask(*random.choice((("POST", f"/containers/{c}/kill"), ("DELETE", f"/containers/{c}?force=1"))))


@test(limit=240)
def killed_at_any_point_nothing_hangs_and_nothing_is_left():
    seed = int(os.environ.get("BRIG_SEED", str(random.randrange(1 << 30))))
    print(f"BRIG_SEED={seed}")
    random.seed(seed)
    words = [token() for _ in range(ROUNDS)]
    for word in words:
        what = random.choice(("brig", "guard", "container"))
        p = start_box("--json", "--", "sh", "-c", f"sleep 0.3; : {word}")
        time.sleep(random.random())
        strike(what, p, word)
        out, err = p.communicate(timeout=60)
        if what != "brig" or p.returncode >= 0:
            r = json.loads(out)
            assert r["outcome"] in ("exited", "signalled", "failed", "refused"), (what, r)
            assert r["outcome"] not in ("failed", "refused") or r["error"]["what"], (what, r)
    assert box("--", "true").status == 0
    assert wait_until(lambda: not any(mine(w) for w in words), 20, 0.1), ours()
    assert wait_until(lambda: "brig-guard" not in descendants().values(), 20, 0.1)
    assert not tree(workspace()), tree(workspace())


if __name__ == "__main__":
    sys.exit(main())
