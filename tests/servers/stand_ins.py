"""What the guides in docs/ talk to, on loopback: an Ollama, an endpoint for embeddings, a GitHub that wants a token."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.wire.provider import chat_stream

TOKEN = "github_pat_of_an_example"
"""Opens the stand-in, nothing else."""
MEANINGS = (("car", "vehicle", "automobile"), ("rain", "weather", "umbrella"))
"""One dimension each: words that mean the same."""

_ISSUE = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
_TOOLS = [
    {"name": "create_issue", "description": "Open a new issue in a repository.", "inputSchema": _ISSUE},
    {"name": "list_issues", "description": "List the issues of a repository.", "inputSchema": {"type": "object"}},
]


def _vector(text: str) -> list[float]:
    words = text.casefold()
    return [float(any(word in words for word in alike)) for alike in MEANINGS] + [0.1]


def _mcp_result(request: Mapping[str, Any]) -> dict[str, Any] | None:
    match request["method"]:
        case "initialize":
            about = {"name": "github", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": _TOOLS}
        case _:
            return None


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        match self.path:
            case "/v1/chat/completions":
                self._put(200, chat_stream({"content": "Hello."}).content, "text/event-stream")
            case "/v1/embeddings":
                rows = [{"index": at, "embedding": _vector(text)} for at, text in enumerate(body["input"])]
                self._put(200, json.dumps({"data": rows}).encode())
            case "/mcp/" if self.headers["authorization"] != f"Bearer {TOKEN}":
                self._put(401, b"{}")
            case "/mcp/" if "id" not in body:
                self._put(202, b"")
            case "/mcp/":
                result = _mcp_result(body)
                unknown = {"error": {"code": -32601, "message": "no such method"}}
                outcome = {"result": result} if result is not None else unknown
                self._put(200, json.dumps({"jsonrpc": "2.0", "id": body["id"], **outcome}).encode())
            case _:
                self._put(404, b"{}")

    def do_GET(self) -> None:
        self._put(405, b"{}")

    def do_DELETE(self) -> None:
        self._put(405, b"{}")

    def _put(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Nothing: requests are not logged."""


@contextmanager
def stand_ins() -> Iterator[str]:
    """The address of all of them, `http://127.0.0.1:PORT`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
