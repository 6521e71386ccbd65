#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""brig's reader of HTTP/1 beside Node's: a short run of tests/differential, always the same. `make fuzz` has the long one."""

import os
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[n] / d) for n, d in ((0, "."), (1, "lib"), (1, "differential"))]
from compare import compare, judge  # noqa: E402
from harness import TOP, main, test  # noqa: E402


@test(as_user="root")
def whatever_brig_takes_node_understands_as_the_same():
    reader = pathlib.Path(os.environ.get("BRIG", TOP / "build/brig")).resolve().parent / "tests/differential-reader"
    count = 1000 if os.environ.get("LIGHT") else 4000
    n, taken, faults = compare(reader, count, 1)
    assert n == count and taken > count // 5, (n, taken)  # it takes enough for this to mean something
    assert not faults, "\n".join(faults[:5])


@test(as_user="root")
def readings_that_differ_are_seen():
    one, two = "474554|2f||", "474554|2f32||"
    assert judge(f"{one} end 9", f"{one} end") is None
    assert judge("refused 0", f"{one} end") is None  # stricter
    for ours, theirs in ((f"{one} end 9", f"{two} end"), (f"{one} {two} end 9", f"{one} end"), ("more 0", f"{one} end"), (f"{one} end 9", "more"),
                         (f"{one} end 9", f"{one} {two} end"), (f"{one} end 9", "refused HPE_INVALID_CONSTANT")):
        assert judge(ours, theirs), (ours, theirs)


if __name__ == "__main__":
    sys.exit(main())
