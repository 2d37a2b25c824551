"""A loopback server that speaks Chat Completions with a window and a prefix cache, for `benchmarks/context_beside.py`.

    python -m benchmarks.context_server WINDOW

It prints its port and serves until its standard input ends; `GET /figures` gives what it counted as JSON. Tokens are
characters / 4 of messages and definitions as JSON. What is longer than the window is refused. Cached is the longest
prefix of whole messages, from 1,024 tokens on, that an earlier request had. A question that begins with `Step N:` is
answered with a call of `read_document` and then with a note, also where mcpagent told it of its readers; any other last
message is taken for a summary that is wanted.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from hashlib import sha256
from typing import Any

NOTE = (
    "The document was read and what matters of it was noted down for the report. " * 4
)
SUMMARY = (
    "The user has sixty documents read, one in each step, and a report written at the end. "
    * 18
)
_STEP = re.compile(r"Step (\d+):")


class Provider:
    """What it has seen so far."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._seen: set[str] = set()
        self.figures = {
            "requests": 0,
            "sent": 0,
            "cached": 0,
            "largest": 0,
            "refused": 0,
            "summaries": 0,
            "output": 0,
        }

    def answer(self, body: dict[str, Any]) -> tuple[int, bytes, str]:
        """Status, content and its type."""
        pieces = [
            json.dumps(one, sort_keys=True)
            for one in (body.get("tools") or [], *body["messages"])
        ]
        total = sum(len(piece) // 4 for piece in pieces)
        if total > self._window:
            self.figures["refused"] += 1
            words = f"This model's maximum context length is {self._window} tokens. However, you requested {total}."
            error = {
                "message": words,
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
            return 400, json.dumps({"error": error}).encode(), "application/json"
        cached = self._cached(pieces)
        message = self._said(
            body["messages"],
            may_call=body.get("tool_choice") != "none" and bool(body.get("tools")),
        )
        output = len(json.dumps(message)) // 4
        self._count(total, cached, output)
        usage = {
            "prompt_tokens": total,
            "completion_tokens": output,
            "total_tokens": total + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        about = {
            "id": f"chatcmpl-{self.figures['requests']}",
            "created": 1_750_000_000,
            "model": "m",
        }
        reason = "tool_calls" if "tool_calls" in message else "stop"
        if not body.get("stream"):
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
                "usage": usage,
            }
            return 200, json.dumps(whole).encode(), "application/json"
        if "tool_calls" in message:
            message = {
                **message,
                "tool_calls": [{"index": 0, **message["tool_calls"][0]}],
            }
        chunks: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
            {"choices": [], "usage": usage},
        ]
        written = [
            json.dumps({**about, "object": "chat.completion.chunk", **chunk})
            for chunk in chunks
        ]
        return (
            200,
            "".join(f"data: {text}\n\n" for text in (*written, "[DONE]")).encode(),
            "text/event-stream",
        )

    def _cached(self, pieces: list[str]) -> int:
        hashed, size, cached = "", 0, 0
        for piece in pieces:
            hashed = sha256((hashed + piece).encode()).hexdigest()
            size += len(piece) // 4
            cached = size if hashed in self._seen else cached
            self._seen.add(hashed)
        return cached // 128 * 128 if cached >= 1_024 else 0

    def _count(self, total: int, cached: int, output: int) -> None:
        figures = self.figures
        figures["requests"] += 1
        figures["sent"] += total
        figures["cached"] += cached
        figures["output"] += output
        figures["largest"] = max(figures["largest"], total)

    def _said(
        self, messages: list[dict[str, Any]], *, may_call: bool
    ) -> dict[str, Any]:
        last = messages[-1]
        if last["role"] == "tool" or _text(last["content"]).startswith(
            "What was set aside"
        ):
            return {"role": "assistant", "content": NOTE}
        asked = _STEP.match(
            _text(last["content"]).rpartition("\n\n")[2]
        ) or _STEP.match(_text(last["content"]))
        if asked is None or not may_call:
            self.figures["summaries"] += 1
            return {"role": "assistant", "content": SUMMARY}
        function = {
            "name": "read_document",
            "arguments": json.dumps({"number": int(asked[1])}),
        }
        call = {
            "id": f"call_{self.figures['requests']}",
            "type": "function",
            "function": function,
        }
        return {"role": "assistant", "content": None, "tool_calls": [call]}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n\n".join(str(piece.get("text", "")) for piece in content or ())


async def main() -> None:
    provider = Provider(int(sys.argv[1]))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head.lower())
                content = await reader.readexactly(
                    int(length.group(1)) if length else 0
                )
                if head.startswith(b"GET"):
                    status, given, kind = (
                        200,
                        json.dumps(provider.figures).encode(),
                        "application/json",
                    )
                else:
                    status, given, kind = provider.answer(json.loads(content))
                lines = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(given)}\r\n\r\n"
                writer.write(lines.encode() + given)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
