# SPDX-License-Identifier: Apache-2.0
"""Client of brig: run code that nobody has read in sandboxes, from Python.

    import brig

    with brig.Client() as client:
        print(client.run(["echo", "hello"]).stdout)

`brig.aio` has the same for asyncio. Nothing but the standard library is needed.
"""

from ._settings import Network, Policy, Settings, settings
from .client import Client, Context, Exec, Files, Sandbox
from .errors import *  # noqa: F401,F403
from .errors import __all__ as _errors
from .model import Change, Companion, Event, ExecInfo, File, Info, Output, Packed, Question, Result, SandboxInfo, Shown

__version__ = "0.2.0"
__all__ = ["Change", "Client", "Companion", "Context", "Event", "Exec", "ExecInfo", "File", "Files", "Info", "Network", "Output", "Packed", "Policy", "Question", "Result", "Sandbox",
           "SandboxInfo", "Settings", "Shown", "settings", *_errors]
