# SPDX-License-Identifier: Apache-2.0
"""The official conformance suites of MCP, on brig with the tools that they call by name (fixture.c)."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "lib"))

from daemon import daemon
from harness import PATIENCE, brig_argv, brig_environment, main, scratch, test, workspace
from mcp_http import GoBetween, Server

HERE = pathlib.Path(__file__).parent
FOLDER = pathlib.Path(subprocess.run([HERE / "fetch", "--where"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip())
NODE = FOLDER / "node_modules/node/bin/node"
FIXTURE = pathlib.Path(os.environ.get("BRIG", "build/brig")).resolve().parent / "tests/brig-fixture"
FINE = ("SUCCESS", "INFO", "SKIPPED")


def expected(suite):
    rows = [line.split() for line in (HERE / "expected-failures").read_text().splitlines() if line and not line.startswith("#")]
    return {(scenario, check) for which, scenario, check in rows if which == suite}


def start_fixture(d):
    program = scratch() / "brig-fixture"  # where every user can reach it
    shutil.copy(FIXTURE, program)
    program.chmod(0o755)
    argv = [str(program) if str(w).endswith("/brig") else w for w in brig_argv("mcp", "--http", "127.0.0.1:0")]
    return subprocess.Popen(argv, cwd=workspace(), env={**brig_environment(), **d.environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run_suite(suite, *options):
    """What each check of each scenario came to."""
    out = scratch() / "results"
    with daemon() as d, Server(d, program=start_fixture(d)) as s:
        between = GoBetween(s)  # the suite knows no tokens
        subprocess.run([NODE, FOLDER / f"node_modules/conformance-{suite}/dist/index.js", "server", "--url", between.url, "-o", out, *options], cwd=scratch(),
                       env={**os.environ, "HOME": str(scratch())}, capture_output=True, timeout=250 * PATIENCE, check=False)
        between.close()
    found = {}
    for file in out.glob("*/checks.json"):
        scenario = re.fullmatch(r"(?:server-)?(.*)-\d{4}-\d\d-\d\dT.*", file.parent.name).group(1)
        for check in json.loads(file.read_text()):
            key = (scenario, check["id"])
            found[key] = found.get(key) or (check["status"] not in FINE and f"{check['status']}: {check.get('errorMessage')}")
    return found


def judge(suite, found, least):
    assert len(found) >= least, found
    rows = expected(suite)
    failed = {key: why for key, why in found.items() if why}
    new = {key: why for key, why in failed.items() if key not in rows and (key[0], "*") not in rows}
    stale = {row for row in rows if row not in failed and not (row[1] == "*" and any(key[0] == row[0] for key in failed))}
    assert not new and not stale, {"new": new, "stale": stale}


@test(as_user="user", slow=True)
def the_suite_of_the_older_era():
    judge("legacy", run_suite("legacy"), 25)


@test(as_user="user", slow=True)
def the_suite_of_the_new_era():
    judge("modern", run_suite("modern", "--requirements", "2026-07-28"), 120)


if __name__ == "__main__":
    sys.exit(main())
