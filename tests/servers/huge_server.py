"""A server over stdio whose results are huge: the name of the tool says which. It writes its answers as raw bytes."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

PNG_HEAD = bytes.fromhex("89504e470d0a1a0a0000000d49484452000013880000138808020000000000000000")
TOOLS = ("rows", "picture", "words", "nothing")


def deep(levels: int) -> str:
    """Return a schema that nests so many levels, as JSON."""
    return '{"type":"object","properties":{"a":' * levels + '{"type":"string"}' + "}}" * levels


def tools() -> str:
    """Return the list: tools of one schema, and one that nests 10,000 deep."""
    schema = '{"type":"object","properties":{}}'
    listed = [f'{{"name":"{name}","description":"Returns {name}.","inputSchema":{schema}}}' for name in TOOLS]
    listed.insert(1, f'{{"name":"deep","description":"Nests.","inputSchema":{deep(10_000)}}}')
    return f'{{"tools":[{",".join(listed)}]}}'


def result(name: str) -> str:
    """Return the result of a call."""
    match name:
        case "rows":
            row = '{"id":1234567,"name":"somebody","tags":["a","b"],"value":1.5}'
            return f'{{"content":[],"structuredContent":{{"rows":[{",".join([row] * 950_000)}]}}}}'
        case "picture":
            data = base64.b64encode(PNG_HEAD + bytes(range(256)) * 90_000).decode()
            return f'{{"content":[{{"type":"image","mimeType":"image/png","data":"{data}"}}]}}'
        case "words":
            return json.dumps({"content": [{"type": "text", "text": 'a "line" of words\n' * 2_500_000}]})
        case _:
            return '{"content":[{"type":"text","text":"fine"}]}'


def main() -> None:
    """Answer requests until stdin ends."""
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        if "id" not in asked:
            continue
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
                error = '{"code":-32601,"message":"unknown"}'
                sys.stdout.write(f'{{"jsonrpc":"2.0","id":{json.dumps(asked["id"])},"error":{error}}}\n')
                sys.stdout.flush()
                continue
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{json.dumps(asked["id"])},"result":{answer}}}\n')
        sys.stdout.flush()


if __name__ == "__main__":
    main()
