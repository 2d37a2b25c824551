"""The simulated providers over real HTTP on loopback, with the faults a test asks for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tests.servers.loopback import LoopbackServer
from tests.simulator import anthropic_rules as messages_api
from tests.simulator import gemini_rules as gemini_api
from tests.simulator import openai_rules as openai_api
from tests.simulator.output_rules import check_held
from tests.simulator.prompt_cache import BreakpointCache, LocalCache, PrefixCache
from tests.simulator.values import PROVIDER_SEARCH, THEIRS, Brain, Counted, Log, Refusal, Said, Unit, View, rendered

Fault: TypeAlias = Literal["cut", "silent", "reset"] | tuple[int, dict[str, Any], dict[str, str]]
"""What one request meets instead of an answer: half of it, nothing at all, a closed connection, or an error."""


@dataclass(frozen=True)
class Protocol:
    """One API: what it refuses, how a request reads, and how an answer looks."""

    check: Callable[[Mapping[str, Any], Mapping[str, str]], None]
    units: Callable[[Mapping[str, Any]], list[Unit]]
    definition_tokens: Callable[[Mapping[str, Any]], int]
    view: Callable[[Mapping[str, Any]], View]
    answer: Callable[..., dict[str, Any]]
    events: Callable[[Mapping[str, Any]], list[dict[str, Any]]]
    cache: Callable[[], BreakpointCache | PrefixCache] = PrefixCache


PROTOCOLS: Mapping[str, Protocol] = {
    "/v1/messages": Protocol(
        messages_api.check,
        messages_api.units,
        messages_api.definition_tokens,
        messages_api.view,
        messages_api.answer,
        messages_api.events,
        BreakpointCache,
    ),
    "/v1/responses": Protocol(
        openai_api.check_responses,
        openai_api.responses_units,
        openai_api.responses_definition_tokens,
        openai_api.responses_view,
        openai_api.responses_answer,
        openai_api.responses_events,
    ),
    "/v1/chat/completions": Protocol(
        openai_api.check_chat,
        openai_api.chat_units,
        openai_api.chat_definition_tokens,
        openai_api.chat_view,
        openai_api.chat_answer,
        openai_api.chat_events,
    ),
    "/claude/v1/chat/completions": Protocol(
        openai_api.check_marked_chat,
        openai_api.marked_chat_units,
        openai_api.chat_definition_tokens,
        openai_api.chat_view,
        openai_api.chat_answer,
        openai_api.chat_events,
        BreakpointCache,
    ),
    "/local/v1/chat/completions": Protocol(
        openai_api.check_chat,
        openai_api.chat_units,
        openai_api.chat_definition_tokens,
        openai_api.chat_view,
        openai_api.chat_answer,
        openai_api.chat_events,
        LocalCache,
    ),
    "/v1beta/openai/chat/completions": Protocol(
        gemini_api.check,
        openai_api.chat_units,
        openai_api.chat_definition_tokens,
        openai_api.chat_view,
        gemini_api.answer,
        gemini_api.events,
    ),
}


class Simulator(LoopbackServer):
    """`async with Simulator(brain) as simulator:` serves all four APIs at `simulator.url`.

    `faults` meet the first requests, one each. What is longer than
    `window_tokens` is refused, as each API words it. `log` holds what was asked and what it cost.
    """

    def __init__(self, brain: Brain, faults: Sequence[Fault] = (), *, window_tokens: int | None = None) -> None:
        super().__init__()
        self._brain = brain
        self._window = window_tokens
        self._faults = list(faults)
        self._caches: dict[str, BreakpointCache | PrefixCache] = {}
        self.log = Log()
        self.requests = 0
        self.asked = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.requests += 1
            self.asked.set()
            fault = self._faults.pop(0) if self._faults else None
            path = head[0].split(" ")[1].partition("?")[0]
            if not body:  # a gateway that looks for a server
                await _write(writer, 404, b"{}", "application/json", {})
                return
            await self._respond(path, headers, json.loads(body), fault, writer)
        finally:
            writer.close()

    async def _respond(
        self,
        path: str,
        headers: Mapping[str, str],
        body: dict[str, Any],
        fault: Fault | None,
        writer: asyncio.StreamWriter,
    ) -> None:
        if fault == "reset":
            writer.transport.abort()
            return
        if isinstance(fault, tuple):
            await _write(writer, fault[0], json.dumps(fault[1]).encode(), "application/json", fault[2])
            return
        try:
            answer = self.answer(path, headers, body)
        except Refusal as refusal:
            self.log.refused.append(refusal)
            error = {
                "type": "invalid_request_error",
                "message": refusal.message,
                "details": {"error_code": refusal.code},
            }
            await _write(
                writer, refusal.status, rendered({"type": "error", "error": error}).encode(), "application/json"
            )
            return
        if not body.get("stream"):
            await _write(writer, 200, rendered(answer).encode(), "application/json", whole=fault is None)
            return
        events = PROTOCOLS[path].events(answer)
        lines = [_event(event) for event in events]
        if path.endswith("/chat/completions"):
            lines.append("data: [DONE]\n\n")
        content = "".join(lines if fault is None else lines[:1]).encode()
        await _write(writer, 200, content, "text/event-stream", whole=fault is None)
        if fault == "silent":
            await asyncio.wait_for(self.closing.wait(), 30)

    def answer(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> dict[str, Any]:
        """The answer to one body. Raises `Refusal`."""
        protocol = PROTOCOLS[path]
        self.log.bodies.append(body)
        if path == "/v1/messages":
            body = messages_api.in_blocks(body)
        protocol.check(body, headers)
        units = protocol.units(body)
        total = sum(unit.tokens for unit in units)
        if self._window is not None and total > self._window:
            raise _too_long(path, total, self._window)
        cache = self._caches.setdefault(path, protocol.cache())
        read, written = cache.read_and_write(units)
        seen = protocol.view(body)
        said = self._brain(seen)
        check_held(said, seen.output)
        self.log.blind_calls += _blind(said, seen)
        usage = {"total": total, "read": read, "output": sum(len(str(piece)) for piece in said) // 4 + 1}
        definitions = protocol.definition_tokens(body)
        self.log.counted.append(Counted(total, read, written, definitions, usage["output"]))
        if path == "/v1/messages":
            usage = {
                "input_tokens": total - read - written,
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": written,
                "output_tokens": usage["output"],
            }
        return protocol.answer(body, said, len(self.log.bodies), usage)


def _too_long(path: str, total: int, window: int) -> Refusal:
    if path == "/v1/messages":
        return Refusal(400, f"prompt is too long: {total} tokens > {window} maximum")
    words = f"This model's maximum context length is {window} tokens. However, you requested {total} tokens."
    return Refusal(400, words, "context_length_exceeded")


def _blind(said: Sequence[Said], seen: View) -> list[str]:
    """Calls of tools whose schema the model was not shown; a search in the same answer may just have shown it."""
    names = [piece[0] for piece in said if not isinstance(piece, str)]
    names = [name for name in names if name not in THEIRS or name == PROVIDER_SEARCH]
    return [] if PROVIDER_SEARCH in names else [name for name in names if name not in seen.shown]


def _event(event: Mapping[str, Any]) -> str:
    named = f"event: {event['type']}\n" if "type" in event else ""
    return f"{named}data: {json.dumps(event)}\n\n"


async def _write(
    writer: asyncio.StreamWriter,
    status: int,
    content: bytes,
    kind: str,
    headers: Mapping[str, str] | None = None,
    *,
    whole: bool = True,
) -> None:
    """An answer; when not `whole`, more is promised than comes."""
    length = len(content) + (0 if whole else 1000)
    fields = {"content-type": kind, "content-length": str(length), "connection": "close", **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    writer.write(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + content)
    await writer.drain()
