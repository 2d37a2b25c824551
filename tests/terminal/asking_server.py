"""An MCP server over stdio that asks its client something in the middle of a call; standard library only.

Each tool sends one request and gives the answer back as text: `book_table` a form, `open_page` an address, `summarise`
a request for the model. What the client said it can do is written to the file that the argument names.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2},
        "guests": {"type": "integer", "minimum": 1, "maximum": 8, "default": 2},
        "room": {"type": "string", "enum": ["in", "out"], "enumNames": ["inside", "on the terrace"]},
        "smoking": {"type": "boolean", "default": False},
    },
    "required": ["name", "guests", "room"],
}
ASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "book_table": ("elicitation/create", {"message": "Who comes?\x1b[2J\nAnd \x1b]0;when?", "requestedSchema": FORM}),
    "open_page": (
        "elicitation/create",
        {"mode": "url", "message": "Sign in here", "url": "https://example.com/sign-in?x=1", "elicitationId": "e1"},
    ),
    "summarise": (
        "sampling/createMessage",
        {
            "systemPrompt": "Be brief.",
            "messages": [{"role": "user", "content": {"type": "text", "text": "Summarise: a long story"}}],
            "maxTokens": 50,
        },
    ),
}
EMPTY = {"type": "object", "properties": {}}


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def asked(tool: str) -> str:
    method, params = ASKS[tool]
    send({"id": "question", "method": method, "params": params})
    for line in sys.stdin:
        answer = json.loads(line)
        if answer.get("id") == "question":
            return json.dumps(answer.get("result", answer.get("error")), sort_keys=True)
    return "no answer"


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            Path(sys.argv[1]).write_text(json.dumps(params["capabilities"]), "utf-8")
            return {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "asking", "version": "1"},
            }
        case "tools/list":
            about = {name: f"{name.replace('_', ' ').capitalize()}." for name in ASKS}
            return {
                "tools": [{"name": name, "description": text, "inputSchema": EMPTY} for name, text in about.items()]
            }
        case "tools/call":
            return {"content": [{"type": "text", "text": asked(params["name"])}]}
        case _:
            return {}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "method" in request and "id" in request:
            send({"id": request["id"], "result": answer(request["method"], request.get("params") or {})})


if __name__ == "__main__":
    main()
