"""A small MCP server over stdio for tests of the terminal, standard library only: `small_server.py MODE`.

Modes: "good" answers; "poor" describes its tools badly; "writes" has one more tool, which changes
things; "offers" has prompts and resources besides, but no list of templates; "dies" writes its reason to stderr and
exits; "sleeps" never answers.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

ESCAPES = "red \x1b[31mtext\x1b]0;title\x07 [bold]markup[/bold]"
HOSTILE = f"{ESCAPES} \u202eright to left"

TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "get_weather": ("Get the current weather for a city.", {"city": {"type": "string", "description": "City name"}}),
    "hostile_text": (f"Give a hostile text: {ESCAPES}", {}),
    "wait_seconds": ("Wait for some seconds.", {"seconds": {"type": "number"}}),
    "fail_always": ("Fail whatever is asked.", {}),
}


WRITING: dict[str, tuple[str, dict[str, Any]]] = {
    "push_branch": (
        "Push a branch to a remote.",
        {"remote": {"type": "string"}, "branch": {"type": "string"}},
    )
}


POOR: dict[str, tuple[str, dict[str, Any]]] = {
    "query": ("Run it.", {"q": {"type": "string"}}),
    "blank": ("", {}),
    "first_twin": ("Count the sheep in the field.", {"days": {"type": "integer", "description": "How many days."}}),
    "second_twin": ("Count the sheep in the field.", {"day": {"type": "string", "enum": ["today"]}}),
}


def tool(name: str) -> dict[str, Any]:
    description, properties = TOOLS[name]
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    annotations = {"readOnlyHint": name not in WRITING}
    return {"name": name, "description": description, "inputSchema": schema, "annotations": annotations}


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name == "fail_always":
        lines = "\n".join(f"line {number}" for number in range(8))
        return {"content": [{"type": "text", "text": lines}], "isError": True}
    if name == "wait_seconds":
        time.sleep(float(arguments["seconds"]))
    if name == "push_branch":
        return {"content": [{"type": "text", "text": f"pushed {arguments['branch']} to {arguments['remote']}"}]}
    if name == "first_twin":
        return {"content": [{"type": "text", "text": json.dumps(arguments)}]}
    text = {"get_weather": f"{arguments.get('city')}: 18 degrees", "hostile_text": HOSTILE}.get(name, "done")
    return {"content": [{"type": "text", "text": text}]}


PROMPTS = [
    {
        "name": "review",
        "description": "Review a text.",
        "arguments": [{"name": "text", "required": True}, {"name": "tone", "description": "How to say it."}],
    },
    {"name": "greeting"},
]
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
RESOURCES = {
    "note://today": {"text": f"water the plants\n{HOSTILE}"},
    "picture://dot": {"blob": DOT, "mimeType": "image/png"},
}
CAPABILITIES: dict[str, Any] = {"tools": {}}


def offer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """What the mode "offers" answers besides."""
    if method == "prompts/list":
        return {"prompts": PROMPTS}
    if method == "prompts/get":
        given = params.get("arguments") or {}
        said = " ".join(f"{name}={value}" for name, value in sorted(given.items()))
        text = f"What is the weather in Tokyo? prompt {params['name']} {said}".strip()
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
    if method == "resources/list":
        return {"resources": [{"uri": uri, "name": uri.partition("://")[2]} for uri in RESOURCES]}
    if method == "resources/read" and params["uri"] in RESOURCES:
        return {"contents": [{"uri": params["uri"], **RESOURCES[params["uri"]]}]}
    return None


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": CAPABILITIES,
            "serverInfo": {"name": "small", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [tool(name) for name in TOOLS]}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})
    if "prompts" in CAPABILITIES and (offered := offer(method, params)) is not None:
        return offered
    return {} if method == "ping" else None


def main() -> None:
    mode = sys.argv[1]
    if mode == "dies":
        sys.exit("KeyError: GITHUB_TOKEN is required")
    if mode == "writes":
        TOOLS.update(WRITING)
    if mode == "poor":
        TOOLS.clear()
        TOOLS.update(POOR)
    if mode == "offers":
        CAPABILITIES.update(prompts={}, resources={})
    if mode == "sleeps":
        time.sleep(60)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(request["method"], request.get("params") or {})
        body = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **body}), flush=True)


if __name__ == "__main__":
    main()
