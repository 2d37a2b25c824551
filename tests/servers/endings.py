"""A stdio server that runs what it is asked, logs it, and then ends the request as the call itself says.

`endings.py ERA LOG` appends a line to the file for each call that it runs; `booking.py` is the same over HTTP. Imports
are few: the tests start it often.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

PAUSE_SECONDS = 0.1
"""Between the pieces of an answer."""

PROMISED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = {"tools": [{"name": "book", "inputSchema": {"type": "object"}, "outputSchema": PROMISED}]}
MODERN_FIELDS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def usual_answer(message: dict[str, Any], *, is_modern: bool) -> dict[str, Any]:
    """The answer to all but a call."""
    method, more = message["method"], MODERN_FIELDS if is_modern else {}
    capabilities: dict[str, Any] = {"capabilities": {"tools": {}}}
    results: dict[str, Any] = {"ping": {}, "tools/list": TOOLS | more}
    if is_modern:
        results["server/discover"] = capabilities | more | {"supportedVersions": ["2026-07-28"]}
    else:
        info = {"name": "b", "version": "1"}
        results["initialize"] = capabilities | {"protocolVersion": "2025-11-25", "serverInfo": info}
    if method in results:
        return {"jsonrpc": "2.0", "id": message["id"], "result": results[method]}
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}}


def body_of(message: dict[str, Any]) -> str:
    """What a call wants to be answered with: `THIS` stands for its id, `FILL` for so many characters."""
    wanted = message["params"]["arguments"]
    return str(wanted["body"]).replace("THIS", json.dumps(message["id"])).replace("FILL", "x" * wanted.get("fill", 0))


def pieces_of(message: dict[str, Any]) -> Iterator[str]:
    """The body in so many pieces; of a negative number of them without an end."""
    body, count = body_of(message), message["params"]["arguments"]["pieces"]
    if count < 0:
        while True:
            yield body
    size = -(-len(body) // count)
    yield from (body[start : start + size] for start in range(0, len(body), size))


def main(era: str, log: str) -> None:
    """`endings.py ERA LOG`: a call's body is written as it is; without one the process ends."""
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "tools/call":
            with open(log, "a") as file:
                file.write(message["params"]["arguments"]["key"] + "\n")
            if "hang" in message["params"]["arguments"]:
                continue
            if "line" in message["params"]["arguments"]:
                line, left = message["params"]["arguments"]["line"], message["params"]["arguments"]["lines"]
                at_once = max(1, 1_000_000 // len(line))
                while left > 0:
                    sys.stdout.write(line * min(at_once, left))
                    left -= at_once
            if "pieces" in message["params"]["arguments"]:
                for piece in pieces_of(message):
                    sys.stdout.write(piece)
                    sys.stdout.flush()
                    time.sleep(message["params"]["arguments"].get("pause", PAUSE_SECONDS))
                continue
            body = body_of(message)
            sys.stdout.write(body + "\n" if body else "")
            sys.stdout.flush()
            if not body:
                return
        elif "id" in message and "method" in message:
            print(json.dumps(usual_answer(message, is_modern=era == "modern")), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
