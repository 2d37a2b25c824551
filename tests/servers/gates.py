"""What holds a gated server (`gated.py`) back, and lets it go when a test says so."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

SERVERS = Path(__file__).resolve().parent


class Gate:
    """A port of 127.0.0.1: servers behind it start when it is opened, and wait again once it is shut."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])

    def open(self) -> None:
        """Lets go who waits, and whoever comes."""
        self._listening.close()

    def shut(self) -> None:
        """Holds back who comes from now on."""
        self._listening = socket.create_server(("127.0.0.1", self.port))

    def open_at_the_first(self) -> None:
        """Waits for somebody, and lets it go."""
        self._listening.accept()[0].close()
        self._listening.close()

    def server(self, *script: str) -> dict[str, Any]:
        """The entry of a script that is held back."""
        return {"command": sys.executable, "args": [str(SERVERS / "gated.py"), str(self.port), *script]}

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listening.close()


def catalogue(folder: Path, **tools: str) -> tuple[str, str]:
    """Script and arguments of a server of these tools, with their descriptions."""
    listed = [
        {"name": name, "description": text, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
        for name, text in tools.items()
    ]
    file = folder / f"{'-'.join(tools)}.json"
    file.write_text(json.dumps({"server": "slow", "tools": listed}), encoding="utf-8")
    return str(SERVERS / "catalog_server.py"), str(file)
