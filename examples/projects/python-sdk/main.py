# SPDX-License-Identifier: Apache-2.0
"""One command, then a sandbox for several."""

import brig

with brig.Client() as client:
    print(client.run(["python3", "-c", "print(6 * 7)"], timeout=10).stdout, end="")
    with client.create(workspace=".", limits={"memory": "256m"}) as box:
        box.files.write("/tmp/hello", "hello from the sandbox\n")
        print(box.exec(["cat", "/tmp/hello"]).stdout, end="")
        print("exit", box.exec("exit 3").exit_code)
