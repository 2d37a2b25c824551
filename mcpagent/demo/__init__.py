"""The bundled demo MCP server: what `mcpagent chat` talks to when nobody has configured a server yet.

About eighty small tools that really work, need no network and change nothing outside the server's own memory.
"""

from __future__ import annotations

import sys
from typing import Any


def demo_server_config() -> dict[str, Any]:
    """The demo server as an `mcpServers` mapping, run by this Python.

    `-P` keeps a `random.py` or `mcp.py` in the user's folder from being imported in place of the real one.
    """
    return {
        "mcpServers": {
            "demo": {
                "command": sys.executable,
                "args": ["-P", "-m", "mcpagent.demo.server"],
                "description": "time, dates, maths, units, text, notes, files in this folder, colours, countries",
            }
        }
    }
