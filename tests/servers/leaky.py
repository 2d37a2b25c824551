"""A stdio server that says the secrets it was given wherever a server can say something. Standard library only."""

from __future__ import annotations

import base64
import json
import os
import sys
from typing import Any

SECRETS = sys.argv[2::2] or [os.environ[name] for name in os.environ["LEAKS"].split(",")]
"""Of its environment, or of its command line as values of options."""

ALL = " ".join([*SECRETS, *(base64.b64encode(value.encode()).decode() for value in SECRETS)])
QUESTION = {"type": "object", "properties": {"name": {"type": "string", "title": ALL, "default": ALL}}}

Message = dict[str, Any]


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def tools() -> list[Message]:
    schema = {
        "type": "object",
        "description": ALL,
        "properties": {"text": {"type": "string", "description": ALL, "default": ALL, "enum": ["", *SECRETS]}},
    }
    names = ("tell", "fail", "refuse", "structure", "log", "ask", "garble", "die", f"named_{SECRETS[0]}")
    return [
        {"name": name, "title": ALL, "description": f"Says it {name}. {ALL}", "inputSchema": schema} for name in names
    ]


def call(request: Message) -> None:
    name, token = request["params"]["name"], request["params"].get("_meta", {}).get("progressToken")
    print("about to", name, ALL, file=sys.stderr, flush=True)
    text = {"type": "text", "text": ALL}
    match name:
        case "tell":
            params = {"progressToken": token, "progress": 1, "message": ALL}
            send(method="notifications/progress", params=params)
            link = {"type": "resource_link", "uri": f"x://{SECRETS[0]}", "name": ALL, "description": ALL}
            inside = {"type": "resource", "resource": {"uri": f"x://{SECRETS[0]}", "text": ALL}}
            send(id=request["id"], result={"content": [text, link, inside]})
        case "fail":
            send(id=request["id"], result={"content": [text], "isError": True})
        case "refuse":
            send(id=request["id"], error={"code": -32000, "message": ALL, "data": ALL})
        case "structure":
            send(id=request["id"], result={"content": [], "structuredContent": {"secrets": SECRETS, ALL: 1}})
        case "log":
            send(method="notifications/message", params={"level": "error", "logger": ALL, "data": {"a": SECRETS}})
            send(method="notifications/resources/updated", params={"uri": f"x://{SECRETS[0]}"})
            send(id=request["id"], result={"content": []})
        case "ask":
            send(id="q", method="elicitation/create", params={"message": ALL, "requestedSchema": QUESTION})
            sys.stdin.readline()
            send(id=request["id"], result={"content": []})
        case "garble":
            print("junk", ALL, flush=True)
            send(id=request["id"], result=ALL)
        case _:
            print("it ends:", ALL, file=sys.stderr, flush=True)
            os._exit(7)


def answer(request: Message) -> None:
    about = {"name": "leaky", "version": ALL, "title": ALL}
    can: Message = {"tools": {}, "prompts": {}, "resources": {}, "logging": {}}
    results: dict[str, Message] = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": can, "serverInfo": about, "instructions": ALL},
        "tools/list": {"tools": tools()},
        "prompts/list": {
            "prompts": [{"name": "p", "description": ALL, "arguments": [{"name": "a", "description": ALL}]}]
        },
        "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": ALL}}]},
        "resources/list": {"resources": [{"uri": f"x://{SECRETS[0]}", "name": ALL, "title": ALL, "description": ALL}]},
        "resources/templates/list": {"resourceTemplates": []},
        "resources/read": {"contents": [{"uri": "x://", "text": ALL}]},
        "ping": {},
    }
    if (result := results.get(request["method"])) is None:
        send(id=request["id"], error={"code": -32601, "message": f"no {request['method']}: {ALL}"})
    else:
        send(id=request["id"], result=result)


for line in sys.stdin:
    received = json.loads(line)
    if received.get("method") == "tools/call":
        call(received)
    elif "id" in received and "method" in received:
        answer(received)
