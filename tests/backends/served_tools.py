"""A server of tools over the Model Context Protocol: as a program, `served_tools.py LOG`, over its pipes; or
in a thread, over HTTP.

It notes in the file LOG what it does. Both generations of the `mcp` package have it under another name.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any


def shop(log: Path) -> Any:
    """The server with its tools."""
    try:
        kind: Any = import_module("mcp.server.mcpserver").MCPServer
    except ImportError:
        kind = import_module("mcp.server.fastmcp").FastMCP
    made = kind("shop")

    def note(word: str) -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{word} {os.getpid()}\n")

    def price(article: str) -> str:
        """The price of an article."""
        return f"{article} costs 3 EUR"

    def order(article: str, count: int = 1) -> str:
        """Order an article."""
        note(f"ordered {count} {article}")
        return f"ordered {count} {article}"

    def fail() -> str:
        """A tool that fails."""
        raise ValueError("out of stock")

    for tool in (price, order, fail):
        made.tool()(tool)
    note("start")
    return made


@contextmanager
def listening(log: Path) -> Generator[str]:
    """A server that listens; its URL. Who calls before it is ready waits in the queue of its socket."""
    import uvicorn

    from tests.limits import LIMIT  # what runs this file as a program need not find it

    with socket.create_server(("127.0.0.1", 0)) as opened:
        config = uvicorn.Config(
            shop(log).streamable_http_app(), log_config=None, log_level="error", timeout_graceful_shutdown=0
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{opened.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join(LIMIT)


if __name__ == "__main__":
    shop(Path(sys.argv[1])).run("stdio")
