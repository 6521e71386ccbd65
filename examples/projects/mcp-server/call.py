# SPDX-License-Identifier: Apache-2.0
"""Starts the server of mcp.json, calls one tool, prints what it says: call.py TOOL ARGUMENTS."""

import json
import subprocess
import sys

entry = json.load(open("mcp.json"))["mcpServers"]["brig"]
server = subprocess.Popen([entry["command"], *entry["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(number, method, **params):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
    server.stdin.flush()
    for line in server.stdout:
        message = json.loads(line)
        if message.get("id") == number:
            return message["result"]


ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "call.py", "version": "1"})
server.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
result = ask(2, "tools/call", name=sys.argv[1], arguments=json.loads(sys.argv[2]))
print(result["structuredContent"]["stdout"], end="")
server.stdin.close()
server.wait()
