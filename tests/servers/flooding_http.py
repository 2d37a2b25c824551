"""`flooding_http.py COUNT`: an HTTP server in a process of its own, which prints its URL.

It lists so many tools, in a body or with the path /events in an event; a call is answered after so many notifications.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 0
SCHEMA = {"type": "object", "properties": {"text": {"type": "string", "description": "What is to be said"}}}
ABOUT = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}, "logging": {}},
    "serverInfo": {"name": "flood", "version": "1"},
}


def result_of(asked: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request."""
    results = {
        "initialize": ABOUT,
        "tools/list": {
            "tools": [{"name": f"tool_{n}", "description": f"Tool {n}", "inputSchema": SCHEMA} for n in range(COUNT)]
        },
        "tools/call": {"content": [{"type": "text", "text": "fine"}]},
    }
    if asked["method"] in results:
        return {"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}
    return {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "Method not found"}}


def messages_for(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The messages of an event stream: for a call, the flood first."""
    for number in range(COUNT if asked["method"] == "tools/call" else 0):
        yield {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": number}}
    yield result_of(asked)


class Flooding(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a request."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in asked:
            self._send(202, "", b"")
        elif asked["method"] == "tools/call" or self.path == "/events":
            events = [f"event: message\ndata: {json.dumps(message)}\n\n" for message in messages_for(asked)]
            self._send(200, "text/event-stream", "".join(events).encode())
        else:
            self._send(200, "application/json", json.dumps(result_of(asked)).encode())

    def do_GET(self) -> None:
        """Refuse the stream for other messages."""
        self._send(405, "", b"")

    def do_DELETE(self) -> None:
        """End a session."""
        self._send(202, "", b"")

    def log_message(self, *_: object) -> None:
        """Write nothing."""

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Flooding)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
