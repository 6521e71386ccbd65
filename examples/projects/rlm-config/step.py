# SPDX-License-Identifier: Apache-2.0
"""A step as an agent would write it."""

import os
import socket

try:
    socket.create_connection(("192.0.2.1", 80), 2)
    network = "a network"
except OSError:
    network = "no network"
print(f"in {os.getcwd()}, task {os.environ.get('TASK_ID')}, {network}")
