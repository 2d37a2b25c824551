"""The bundled demo MCP server, which `mcpagent chat` uses if no server is configured yet.

About eighty small tools that really work, need no network and change nothing outside the server's own memory. Each
public function of a `*_tools` module is a tool, in source order.
"""

from __future__ import annotations

import csv
import sys
from importlib import resources
from typing import Any


class DemoToolError(ValueError):
    """An error line for the model: the problem, the argument, and a valid value."""


def module_server(module: str, about: str, *arguments: str) -> dict[str, Any]:
    """A module as a server of an `mcpServers` mapping, run by this Python.

    `-P` keeps a `random.py` or `mcp.py` in the user's folder from being imported in place of the real one.
    """
    return {
        "command": sys.executable,
        "args": ["-P", "-m", module, *arguments],
        "description": about,
    }


def demo_server_config() -> dict[str, Any]:
    """The demo server as an `mcpServers` mapping."""
    about = "time, dates, maths, units, text, notes, files in this folder, colours, countries"
    return {"mcpServers": {"demo": module_server("mcpagent.demo.server", about)}}


def number_text(number: float) -> str:
    """A number without floating-point dust: 12 significant digits, no trailing zeros."""
    if isinstance(number, int):
        return str(number)
    return f"{number:.12g}"


def data_table(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file of this folder, by the names in its first line."""
    text = resources.files("mcpagent.demo").joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
