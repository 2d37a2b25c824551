"""The bundled demo MCP server, which `mcpagent chat` uses until a server is configured.

About eighty small, working tools that need no network and change nothing outside the server's own memory. Each public
function of a `*_tools` module is a tool, in source order.
"""

from __future__ import annotations

import csv
import sys
from importlib import resources
from typing import Any


class DemoToolError(ValueError):
    """An error of a demo tool; the message, one line for the model, names the problem, the argument, and a valid
    value.
    """


def module_server(module: str, about: str, *arguments: str) -> dict[str, Any]:
    """Return a server of an `mcpServers` mapping that runs this module with the current Python.

    `-P` prevents the import of a `random.py` or `mcp.py` in the user's folder instead of the real module.
    """
    return {
        "command": sys.executable,
        "args": ["-P", "-m", module, *arguments],
        "description": about,
    }


def demo_server_config() -> dict[str, Any]:
    """Return the demo server as an `mcpServers` mapping."""
    about = "time, dates, maths, units, text, notes, files in this folder, colours, countries"
    return {"mcpServers": {"demo": module_server("mcpagent.demo.server", about)}}


def number_text(number: float) -> str:
    """Return a number as text, without floating-point noise: 12 significant digits, no trailing zeros."""
    if isinstance(number, int):
        return str(number)
    return f"{number:.12g}"


def data_table(name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file in this folder, by the column names in its first line."""
    text = resources.files("mcpagent.demo").joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
