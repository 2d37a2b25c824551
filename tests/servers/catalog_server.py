"""Serves the tools of a catalogue file over stdio: `catalog_server.py FILE.json`.

The standard library only, since tests start dozens. The tools are listed as they are in the file; a call is answered
with one JSON text that names server and tool and echoes the arguments.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")


def answer(catalog: dict[str, Any], request: dict[str, Any]) -> dict[str, Any] | None:
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": catalog.get("serverInfo") or {"name": catalog.get("server", "catalog"), "version": "1"},
        } | ({"instructions": catalog["instructions"]} if catalog.get("instructions") else {})
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": catalog["tools"]}
    if method == "tools/call":
        name = params.get("name")
        if name not in {tool["name"] for tool in catalog["tools"]}:
            return {"content": [{"type": "text", "text": f"unknown tool {name}"}], "isError": True}
        called = {"server": catalog.get("server"), "tool": name, "arguments": params.get("arguments") or {}}
        return {"content": [{"type": "text", "text": json.dumps(called, sort_keys=True)}]}
    return None


def main() -> None:
    catalog = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        result = answer(catalog, request)
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if result is None:
            reply["error"] = {"code": -32601, "message": "Method not found"}
        else:
            reply["result"] = result
        sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
