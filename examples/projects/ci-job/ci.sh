#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No network, no credential, no view of the runner's files; limits that end what does not end.
set -e
brig doctor > doctor.txt || { cat doctor.txt; exit 1; }
status=0
brig run --json --timeout 20m --memory 2g --pids 512 -- sh tests.sh > result.json || status=$?
python3 -c '
import json
r = json.load(open("result.json"))
print("tests: {}, exit status {}".format(r["outcome"], r["exit_code"]))
print(r["stdout"], end="")'
exit $status
