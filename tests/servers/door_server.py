"""A server that writes down what a model had it do: `door_server.py LOG`, or in this process over HTTP.

It has the tools of `tools`, of which those named `read...` say that they only read, one resource, one template, one
prompt. It speaks the protocol by hand, since its tools are named as no SDK would let them be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from mcpagent.config import ServerConfig

WANTED = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name", "completion/complete": "ref"}
PLAIN = ("read", "push")


class Door:
    """What the server answers, and what it received of `WANTED`, in order."""

    def __init__(self, log: Path, tools: Sequence[str] = PLAIN) -> None:
        self.log, self.tools = log, tools

    def answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        method, params = message.get("method", ""), message.get("params") or {}
        if "id" not in message:
            return None
        if method in WANTED:
            with self.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps([method, params[WANTED[method]]]) + "\n")
        result = self._result(method, params)
        outcome = {"result": result} if result is not None else {"error": {"code": -32601, "message": "unknown"}}
        return {"jsonrpc": "2.0", "id": message["id"], **outcome}

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        match method:
            case "initialize":
                capabilities: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
                about = {"name": "door", "version": "1"}
                version = params["protocolVersion"]
                return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": about}
            case "ping":
                return {}
            case "tools/list":
                return {"tools": [_tool(name) for name in self.tools]}
            case "resources/list":
                return {"resources": [{"uri": "notes://today", "name": "today"}]}
            case "resources/templates/list":
                return {"resourceTemplates": [{"uriTemplate": "notes://{day}", "name": "of a day"}]}
            case "prompts/list":
                return {"prompts": [{"name": "review", "arguments": [{"name": "code", "required": True}]}]}
            case "tools/call":
                return {"content": [{"type": "text", "text": f"did {params['name']}"}]}
            case "resources/read":
                return {"contents": [{"uri": params["uri"], "text": f"content of {params['uri']}"}]}
            case "prompts/get":
                return {"messages": [{"role": "user", "content": {"type": "text", "text": "Review it."}}]}
        return None


def _tool(name: str) -> dict[str, Any]:
    annotations = {"readOnlyHint": name.startswith("read")}
    return {"name": name, "description": "Does it.", "inputSchema": {"type": "object"}, "annotations": annotations}


def received(log: Path) -> list[tuple[str, str]]:
    """What reached the server, as (method, name or URI)."""
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    return [(method, name) for method, name in map(json.loads, lines)]


def over_stdio(name: str, log: Path, tools: Sequence[str] = PLAIN, **options: Any) -> ServerConfig:
    return ServerConfig(name, command=sys.executable, args=(__file__, str(log), *tools), **options)


@contextmanager
def over_http(name: str, log: Path, tools: Sequence[str] = PLAIN, **options: Any) -> Iterator[ServerConfig]:
    door = Door(log, tools)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            answer = door.answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            body = json.dumps(answer).encode() if answer is not None else b""
            self.send_response(200 if body else 202)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.send_response(405)
            self.send_header("content-length", "0")
            self.end_headers()

        do_DELETE = do_GET  # noqa: N815 - the library's name

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
            """Nothing: requests are not logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield ServerConfig(name, url=f"http://127.0.0.1:{server.server_port}/mcp", **options)
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    stdio = Door(Path(sys.argv[1]), sys.argv[2:])
    for line in sys.stdin:
        if (told := stdio.answer(json.loads(line))) is not None:
            print(json.dumps(told), flush=True)
