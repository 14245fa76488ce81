"""A small MCP server over stdin and stdout, in plain Python; it notes when it starts and ends in a file.

Run as `python mcp_server.py LOG`. Its one tool, `shout`, gives text back in capitals; it notes each call in a
file `called` beside the log, and waits while there is a file `hold-shout`. With `never` as a second argument
it answers nothing.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

TOOL = {
    "name": "shout",
    "description": "Say it loud.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a request."""
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "small", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        folder = Path(sys.argv[1]).parent
        note(str(folder / "called"), "call")
        while (folder / "hold-shout").exists():
            time.sleep(0.02)
        return {"content": [{"type": "text", "text": params["arguments"]["text"].upper()}]}
    return {}


def note(log: str, word: str) -> None:
    """Add a line to the log."""
    with open(log, "a") as file:
        file.write(f"{word} {os.getpid()}\n")


if __name__ == "__main__":
    note(sys.argv[1], "start")
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request and "never" not in sys.argv:
            result = answer(request["method"], request.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
