"""A loopback server that speaks Chat Completions and says what it was told to: for `benchmarks/loop.py --wire`.

It prints its port and serves until its standard input ends. A request whose last prompt ends with `[calls=N]` is
answered with a call of `look_up` until N results follow that prompt, then with `Done after N calls.`; streamed where
the request asks for it. Requests are searched, not parsed, so that the server is never what is waited for.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from itertools import count
from typing import Any

WANTED = re.compile(rb"\[calls=(\d+)\]")
STREAMED = re.compile(rb'"stream": ?true')
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
_NUMBERS = count(1)


def answer(body: bytes) -> tuple[str, bytes]:
    """Content type and content of the answer to one request."""
    last = list(WANTED.finditer(body, max(0, body.rfind(b"[calls="))))[-1]
    done = body.count(b'"tool_call_id"', last.end())
    number, wanted = next(_NUMBERS), int(last.group(1))
    message: dict[str, Any] = {
        "role": "assistant",
        "content": f"Done after {wanted} calls.",
    }
    if done < wanted:
        function = {
            "name": "look_up",
            "arguments": json.dumps({"query": f"what number {number} is about"}),
        }
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [_call(f"call_new_{number}", function)],
        }
    about = {"id": f"chatcmpl-{number}", "created": 1_750_000_000, "model": "m"}
    reason = "tool_calls" if done < wanted else "stop"
    if not STREAMED.search(body):
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": reason,
            "logprobs": None,
        }
        whole = {
            **about,
            "object": "chat.completion",
            "choices": [choice],
            "usage": USAGE,
        }
        return "application/json", json.dumps(whole).encode()
    if "tool_calls" in message:
        message["tool_calls"] = [{"index": 0, **message["tool_calls"][0]}]
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {"choices": [], "usage": USAGE},
    ]
    written = [
        json.dumps({**about, "object": "chat.completion.chunk", **chunk})
        for chunk in chunks
    ]
    return "text/event-stream", "".join(
        f"data: {text}\n\n" for text in (*written, "[DONE]")
    ).encode()


def _call(call_id: str, function: dict[str, str]) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": function}


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = re.search(rb"content-length: (\d+)", head)
            kind, content = answer(
                await reader.readexactly(int(length.group(1)) if length else 0)
            )
            lines = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(content)}\r\n\r\n"
            writer.write(lines.encode() + content)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, backlog=1_000)
    async with server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
