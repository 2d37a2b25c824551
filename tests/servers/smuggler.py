"""A stdio server that puts one text at every place where a server's words can reach a model: `smuggler.py FILE [once]`.

Standard library only. FILE has the text, as JSON; `once`: only the description of `say` has it. The tool `say` answers
as its `how` says, `pick` with what it was given as JSON; `grow` changes the list of tools, which is announced.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

GIVEN: str = json.loads(Path(sys.argv[1]).read_text("utf-8"))
TEXT = "plain" if len(sys.argv) > 2 else GIVEN
PLAIN_URI = "notes://plain"
RESULTS: dict[str, dict[str, Any]] = {
    "text": {"content": [{"type": "text", "text": TEXT}]},
    "texts": {"content": [{"type": "text", "text": TEXT}, {"type": "text", "text": TEXT}]},
    "structured": {"content": [], "structuredContent": {"value": TEXT}},
    "resource": {"content": [{"type": "resource", "resource": {"uri": PLAIN_URI, "text": TEXT}}]},
    "resource uri": {"content": [{"type": "resource", "resource": {"uri": TEXT, "text": "plain"}}]},
    "link": {"content": [{"type": "resource_link", "name": TEXT, "uri": TEXT, "description": TEXT, "mimeType": TEXT}]},
    "image": {"content": [{"type": "image", "mimeType": TEXT, "data": "!"}]},
    "audio": {"content": [{"type": "audio", "mimeType": TEXT, "data": "!"}]},
    "unknown": {"content": [{"type": TEXT, "value": TEXT}]},
    "failed": {"content": [{"type": "text", "text": TEXT}], "isError": True},
}
PROMPTS = [
    {"name": "plain", "description": TEXT},
    {"name": "mine"},
    {"name": TEXT, "arguments": [{"name": TEXT, "description": TEXT}]},
]
RESOURCES = [{"uri": PLAIN_URI, "name": TEXT, "description": TEXT, "mimeType": TEXT}, {"uri": f"x:{TEXT}", "name": "n"}]
grown = False


def tools() -> list[dict[str, Any]]:
    schema = {
        "type": "object",
        "title": TEXT,
        "properties": {
            "value": {"type": "string", "description": TEXT, "enum": [TEXT, "plain"], "default": TEXT},
            "deep": {"type": "array", "items": {"anyOf": [{"const": TEXT}, {"type": "object", "description": TEXT}]}},
            TEXT: {"type": "string", "examples": [TEXT], "x-note": TEXT},
        },
    }
    how = {"type": "object", "properties": {"how": {"type": "string"}}}
    listed = [
        {"name": "say", "description": GIVEN, "inputSchema": how},
        {"name": "pick", "title": TEXT, "annotations": {"title": TEXT}, "inputSchema": schema},
        {"name": "grow", "description": "Changes the list.", "inputSchema": {"type": "object"}},
        {"name": f"odd {TEXT[:40]}", "description": "Its name is odd.", "inputSchema": {"type": "object"}},
    ]
    if grown:
        listed[0] = {**listed[0], "description": f"changed {TEXT}"}
        listed.append({"name": f"late {TEXT[:40]}", "description": TEXT, "inputSchema": schema})
    return listed


def called(params: dict[str, Any]) -> dict[str, Any]:
    global grown
    name, arguments = params["name"], params.get("arguments") or {}
    if name == "say":
        if arguments["how"] == "refused":
            raise ValueError(TEXT)
        return RESULTS[arguments["how"]]
    if name == "grow":
        grown = True
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    return {"content": [{"type": "text", "text": json.dumps(arguments)}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            info = {"name": TEXT, "title": TEXT, "version": TEXT}
            can = {"tools": {"listChanged": True}, "prompts": {}, "resources": {}}
            version = params["protocolVersion"]
            return {"protocolVersion": version, "capabilities": can, "serverInfo": info, "instructions": TEXT}
        case "tools/list":
            return {"tools": tools()}
        case "tools/call":
            return called(params)
        case "prompts/list":
            return {"prompts": PROMPTS}
        case "prompts/get":
            roles = ("user",) if params["name"] == "mine" else ("user", "assistant")
            said = [{"role": role, "content": {"type": "text", "text": TEXT}} for role in roles]
            return {"messages": said, "description": TEXT}
        case "resources/list":
            return {"resources": RESOURCES}
        case "resources/templates/list":
            return {"resourceTemplates": [{"uriTemplate": f"t:{{a}}{TEXT}", "name": TEXT}]}
        case "resources/read":
            return {"contents": [{"uri": params["uri"], "text": TEXT}, {"uri": TEXT, "mimeType": TEXT, "blob": "!"}]}
        case "ping":
            return {}
    return None


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked or "method" not in asked:
        continue
    head = {"jsonrpc": "2.0", "id": asked["id"]}
    try:
        result = answer(asked["method"], asked.get("params") or {})
    except ValueError as problem:
        send({**head, "error": {"code": -32000, "message": str(problem)}})
        continue
    if result is None:
        send({**head, "error": {"code": -32601, "message": "no such method"}})
    else:
        send({**head, "result": result})
