# SPDX-License-Identifier: Apache-2.0
"""What a user of python3-brig does first: the program is found by its name, and the daemon starts by itself."""

import os

import brig

assert "/dist-packages/" in brig.__file__, brig.__file__
with brig.Client() as client:
    result = client.run(["sh", "-c", "echo $((6 * 7))"], workspace=os.getcwd(), timeout=60)
assert (result.exit_code, result.stdout) == (0, "42\n"), result
