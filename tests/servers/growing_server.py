"""A catalogue over stdio that grows by itself: `growing_server.py PORT FILE.json`.

It lists the first tool of the file; when whoever listens on the port of 127.0.0.1 has closed it, it says that its list
has changed, and in its log that it has grown, and lists all of them.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from tests.servers.catalog_server import answer

_WRITING = Lock()


def send(message: dict[str, Any]) -> None:
    with _WRITING:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def main() -> None:
    catalog = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    shown = {**catalog, "tools": catalog["tools"][:1]}

    def grow() -> None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as waiting:
            waiting.recv(1)
        shown["tools"] = catalog["tools"]
        send({"method": "notifications/tools/list_changed"})
        send({"method": "notifications/message", "params": {"level": "info", "data": "it has grown"}})

    for line in sys.stdin:
        request = json.loads(line)
        if request["method"] == "notifications/initialized":
            Thread(target=grow, daemon=True).start()
        if "id" not in request:
            continue
        result = answer(shown, request)
        if result is None:
            send({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})
        else:
            if request["method"] == "initialize":
                result["capabilities"] = {"tools": {"listChanged": True}, "logging": {}}
            send({"id": request["id"], "result": result})


if __name__ == "__main__":
    main()
