#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A fresh sandbox for each file of jobs/; the results come in the order of the names.
ls jobs | xargs -P 4 -n 1 sh -c '
	brig script --json --policy readonly --timeout 2s --memory 128m "jobs/$1" > "results-$1.json" 2>/dev/null || true' one
python3 -c '
import json, pathlib
for path in sorted(pathlib.Path(".").glob("results-*.json")):
    r = json.loads(path.read_text())
    print("{:<15} {:<8} {}".format(path.stem[len("results-"):], r["outcome"], r["exit_code"]))'
