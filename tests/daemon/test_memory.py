#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What idle sandboxes take. BRIG_IDLE says how many there are (make soak: 1000), BRIG_FIGURES where the figures go."""

import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from daemon import daemon  # noqa: E402
from harness import descendants, files_as_root, main, test  # noqa: E402

MIB = 1 << 20
IDLE = int(os.environ.get("BRIG_IDLE", "20"))
FIGURES = os.environ.get("BRIG_FIGURES")


def pss(pid):
    with files_as_root():
        found = re.search(r"^Pss:\s+(\d+) kB$", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
    return int(found[1]) * 1024


@test(limit=60 + IDLE, alone=True)
def idle_sandboxes_and_their_daemon_are_small():
    with daemon() as d:
        for _ in range(IDLE):
            d.create(idle_ttl="0s")
        own = pss(d.call("GET", "/v1/info").json["pid"])
        rest = {pid: name for pid, name in descendants().items() if name.startswith("brig-")}
        total = own + sum(pss(pid) for pid in rest)
        if FIGURES:
            with files_as_root(), open(FIGURES, "a") as f:
                f.write(f"daemon {own / MIB:.1f} MiB, {IDLE} idle sandboxes {(total - own) / MIB:.1f} MiB in {len(rest)} processes\n")
        assert own < 32 * MIB, own
        # 1.2 GiB for a thousand; what all of them share weighs more where they are few.
        assert total - own < 64 * MIB + IDLE * 1200 * 1024, (total - own, rest)


if __name__ == "__main__":
    sys.exit(main())
