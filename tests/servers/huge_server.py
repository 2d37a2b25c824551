"""A server over stdio whose results are huge: the name of the tool says which. It writes its answers as raw bytes.

With a number as its last argument it also lists tools whose definitions are huge, of about that many values each; with
`:name,name` after it only these. With
`http json` or `http events` before it, it prints its port and answers over HTTP, with a body or with an event stream.
"""

from __future__ import annotations

import base64
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PNG_HEAD = bytes.fromhex("89504e470d0a1a0a0000000d49484452000013880000138808020000000000000000")
TOOLS = ("rows", "picture", "words", "numbers", "nothing")


def deep(levels: int) -> str:
    """Return a schema that nests so many levels, as JSON."""
    return '{"type":"object","properties":{"a":' * levels + '{"type":"string"}' + "}}" * levels


def large_definitions(size: int) -> list[dict[str, Any]]:
    """Return tools of which one part is large: `size` values, or 54 characters for each."""
    text, names = "some words and more of them " * (size * 2), [f"n{number}" for number in range(size)]
    kinds = {name: {"type": "string"} for name in names}
    plain: dict[str, Any] = {"type": "object", "properties": {}}
    parts: dict[str, dict[str, Any]] = {
        "properties": {"inputSchema": plain | {"properties": kinds}},
        "choices": {"inputSchema": plain | {"properties": {"a": {"enum": names}}}},
        "definitions": {"inputSchema": plain | {"$defs": kinds}},
        "branches": {"inputSchema": plain | {"anyOf": [{"required": [name]} for name in names]}},
        "output": {"inputSchema": plain, "outputSchema": plain | {"properties": kinds}},
        "extras": {"inputSchema": plain, "_meta": {name: [] for name in names}},
        "description": {"inputSchema": plain, "description": text},
        "title": {"inputSchema": plain, "title": text},
        "default": {"inputSchema": plain | {"properties": {"a": {"default": text}}}},
    }
    return [{"name": f"large_{name}"} | part for name, part in parts.items()]


def tools() -> str:
    """Return the list: tools of one schema, and one that nests 10,000 deep."""
    schema = '{"type":"object","properties":{}}'
    listed = [f'{{"name":"{name}","description":"Returns {name}.","inputSchema":{schema}}}' for name in TOOLS]
    listed.insert(1, f'{{"name":"deep","description":"Nests.","inputSchema":{deep(10_000)}}}')
    size, _, parts = sys.argv[-1].partition(":")
    if size.isdigit():
        found = large_definitions(int(size))
        listed += [json.dumps(item) for item in found if not parts or item["name"] in parts.split(",")]
        listed.append(f'{{"name":"{"n" * int(size)}","inputSchema":{schema}}}')
    return f'{{"tools":[{",".join(listed)}]}}'


def result(name: str) -> str:
    """Return the result of a call."""
    match name:
        case "rows":
            row = '{"id":1234567,"name":"somebody","tags":["a","b"],"value":1.5}'
            return f'{{"content":[],"structuredContent":{{"rows":[{",".join([row] * 950_000)}]}}}}'
        case "numbers":
            return f'{{"content":[],"structuredContent":{{"numbers":[{",".join(["1"] * 3_000_000)}]}}}}'
        case "picture":
            data = base64.b64encode(PNG_HEAD + bytes(range(256)) * 90_000).decode()
            return f'{{"content":[{{"type":"image","mimeType":"image/png","data":"{data}"}}]}}'
        case "words":
            return json.dumps({"content": [{"type": "text", "text": 'a "line" of words\n' * 2_500_000}]})
        case _:
            return '{"content":[{"type":"text","text":"fine"}]}'


def answered(asked: dict[str, Any]) -> str | None:
    """Return the answer to a request, as JSON; None to a notification."""
    if "id" not in asked:
        return None
    head = f'{{"jsonrpc":"2.0","id":{json.dumps(asked["id"])}'
    match asked["method"]:
        case "initialize":
            version = asked["params"]["protocolVersion"]
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "huge", "version": "1"}}
            answer = json.dumps({"protocolVersion": version, **about})
        case "tools/list":
            answer = tools()
        case "tools/call":
            answer = result(asked["params"]["name"])
        case "ping":
            answer = "{}"
        case _:
            return f'{head},"error":{{"code":-32601,"message":"unknown"}}}}'
    return f'{head},"result":{answer}}}'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        answer = answered(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        body, media_type = (answer or "").encode(), "application/json"
        if sys.argv[2] == "events":
            body, media_type = b"event: message\ndata: " + body + b"\n\n", "text/event-stream"
        self.send_response(202 if answer is None else 200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_error(405)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def main() -> None:
    """Answer requests until stdin ends, or over HTTP until the process is killed."""
    if "http" in sys.argv:
        with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
            sys.stdout.write(f"{server.server_port}\n")
            sys.stdout.flush()
            server.serve_forever()
    for line in sys.stdin:
        answer = answered(json.loads(line))
        if answer is not None:
            sys.stdout.write(f"{answer}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
