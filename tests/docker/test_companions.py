#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Companions of a sandbox in containers: each in one of its own, on a network that none of the engine's is part of."""

import contextlib
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import common  # noqa: E402
from common import engine, ours, settle  # noqa: E402
from companions import ask, events, puppet, spec  # noqa: E402
from daemon import daemon  # noqa: E402
from harness import FACTOR, around, descendants, files_as_root, main, state, test, wait_until, workspace  # noqa: E402

WAIT = 30 * FACTOR
SERVICES_IMAGE = "brig-test:services"
CACHE_IMAGE = "brig-test:cache"


@contextlib.contextmanager
def engine_with_services(folder):
    """One engine for this file: the images of services are large."""
    with engine.Dockerd(folder) as e:
        e.import_image(engine.services_tar(), SERVICES_IMAGE)
        e.import_image(engine.services_tar(), CACHE_IMAGE, changes=('ENTRYPOINT ["redis-server", "--port"]', 'CMD ["6379"]', "WORKDIR /srv"))
        e.import_image(engine.python_tar(), engine.PYTHON_IMAGE)
        common.shared = e
        yield e


around(engine_with_services)


def made(companions, **more):
    settle()
    return spec(companions, backend="docker", image=engine.PYTHON_IMAGE, **more)


@test(limit=120)
def they_are_reached_by_name_and_by_each_other():
    with daemon(env=common.environment()) as d:
        box = d.create(spec=made({"a": puppet(), "b": puppet(env={"WHO": "b"})}))["id"]
        assert ask(d, box, "a", "import os; out = os.getuid()") not in (0, None)
        assert ask(d, box, "b", "import os; out = os.environ['WHO']") == "b"


if __name__ == "__main__":
    sys.exit(main())
