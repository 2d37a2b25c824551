"""A small model over real HTTP on loopback: it calls the tool that a prompt orders, also one that changes things.

The offline stand-in runs by itself only what reads, so whatever is about calls that need a yes asks this one. It speaks
Chat Completions and knows three sentences: "push (the) branch X to (the remote) Y", "call NAME {arguments}", and the
name of a tool alone. Where the tool is not offered yet, it searches and adds it first. Tools that are listed as JSON
(`mcpagent tools examples suggest`) get two requests each, but for those that are called "wait_seconds". An answer to
"endlessly" begins and never ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.wire.provider import chat_stream

_PUSH = re.compile(r"push (?:the )?branch (?P<branch>\S+) to (?:the )?(?:remote )?(?P<remote>\S+)")
_CALL = re.compile(r"call (?P<name>\S+) (?P<arguments>\{.*\})")


def _delta(messages: Sequence[Mapping[str, Any]], offered: Sequence[str]) -> dict[str, Any]:
    """The next message, as a function of the conversation."""
    last = max(at for at, message in enumerate(messages) if message["role"] == "user")
    since = messages[last + 1 :]
    called = [call["function"]["name"] for message in since for call in message.get("tool_calls") or ()]
    prompt = str(messages[last]["content"])
    if prompt.startswith('{"1": '):
        return {"content": json.dumps(_requests(json.loads(prompt)))}
    pushed, ordered = _PUSH.search(prompt), _CALL.search(prompt)
    last_word = prompt.split()[-1] if prompt.split() else ""
    name = "push_branch" if pushed else ordered["name"] if ordered else last_word
    if name in called or not (pushed or ordered or name in offered):
        return {"content": str(since[-1]["content"]) if since else "I only call tools."}
    if name in offered:
        arguments = json.loads(ordered["arguments"]) if ordered else {}
        arguments |= {key: pushed[key] for key in ("remote", "branch")} if pushed else {}
    elif "add_tool" in called:
        return {"content": f"{name} cannot be added."}
    elif "search_tools" in called:
        name, arguments = "add_tool", {"tool_names": [name]}
    else:
        name, arguments = "search_tools", {"query": "push branch main origin"}
    call = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": f"call_{len(messages)}", "type": "function", "function": call}]}


def _requests(listed: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    names = {place: tool["tool"] for place, tool in listed.items() if tool["tool"] != "wait_seconds"}
    return {place: [f"do the {name[:3]} thing", f"{name[-3:]} it, marvin"] for place, name in names.items()}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        offered = [tool["function"]["name"] for tool in body.get("tools") or ()]
        delta = _delta(body["messages"], offered)
        answer = chat_stream(delta, finish="tool_calls" if "tool_calls" in delta else "stop").content
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        if "endlessly" in str(body["messages"][-1]["content"]):
            self.end_headers()
            first, _, _ = chat_stream({"content": "So far so good, "}, finish="stop").content.partition(b"\n\n")
            self.wfile.write(first + b"\n\n")
            self.connection.recv(1)  # until the client is gone
            return
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Nothing: requests are not logged."""


@contextmanager
def small_model() -> Iterator[str]:
    """The model's name for `-m`, while it answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"openai-chat:small?base_url=http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
