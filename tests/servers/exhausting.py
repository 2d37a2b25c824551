"""A server that has too much of one thing: `exhausting.py KIND` over stdio, `exhausting.py KIND http` prints its port.

Standard library only. The tool `work` is there in each kind; what is too large is written once, as text, by hand.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KIND = sys.argv[1]
MEGABYTE = 1_000_000
LEVELS = 10_000
PLAIN = '{"name": "work", "description": "Works.", "inputSchema": {"type": "object"}}'


def tools() -> str:
    """The list of tools as JSON."""
    match KIND:
        case "tools":
            many = (PLAIN.replace("work", f"work_{number}") for number in range(100_000))
            return f"[{PLAIN}, {', '.join(many)}]"
        case "schema":
            one = '"p%d": {"type": "string", "description": "' + "x" * 940 + '"}'
            return _with("large", "", ", ".join(one % number for number in range(50_000)))
        case "description":
            return _with("large", "word " * 2 * MEGABYTE, "")
        case "levels":
            return _with("deep", "", '"a": ' + '{"items": ' * LEVELS + "{}" + "}" * LEVELS)
    return f"[{PLAIN}]"


def _with(name: str, description: str, properties: str) -> str:
    schema = f'{{"type": "object", "properties": {{{properties}}}}}'
    return f'[{PLAIN}, {{"name": "{name}", "description": "{description}", "inputSchema": {schema}}}]'


def result() -> str:
    """What a call gives, as JSON."""
    match KIND:
        case "answer":
            return f'{{"content": [{{"type": "text", "text": "{"y" * 10 * MEGABYTE}"}}]}}'
        case "deep answer":
            return f'{{"content": [], "structuredContent": {{"a": {"[" * LEVELS}{"]" * LEVELS}}}}}'
    return '{"content": [{"type": "text", "text": "worked"}]}'


def answered(message: dict[str, Any]) -> str | None:
    """The answer as one line; None to what asks for none."""
    if "id" not in message:
        return None
    answer = f'{{"jsonrpc": "2.0", "id": {json.dumps(message["id"])}, '
    match message["method"]:
        case "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": KIND, "version": "1"}}
            said = json.dumps({"protocolVersion": message["params"]["protocolVersion"], **about})
        case "tools/list":
            said = f'{{"tools": {tools()}}}'
        case "tools/call":
            said = result()
        case "ping":
            said = "{}"
        case _:
            return answer + '"error": {"code": -32601, "message": "no"}}'
    return f'{answer}"result": {said}}}'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        said = answered(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        body = (said or "").encode()
        self.send_response(200 if said else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_error(405)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass


def main() -> None:
    if sys.argv[2:] == ["http"]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        print(server.server_port, flush=True)
        server.serve_forever()
    for line in sys.stdin:
        if (said := answered(json.loads(line))) is not None:
            print(said, flush=True)


if __name__ == "__main__":
    main()
