#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A fresh sandbox for each line of jobs/all.jsonl; a line of result for each, in the order in which they end.
brig batch jobs/all.jsonl --jobs 4 --policy readonly --memory 128m --quiet > results.jsonl || echo "some failed"
python3 -c '
import json
results = [json.loads(line) for line in open("results.jsonl")]
for r in sorted(results, key=lambda r: r["line"]):
    print("{:<10} {:<8} {}".format(r["id"], r["class"], r["result"]["exit_code"]))'
