"""A model that never comes to an end, and what each limit leaves of its run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from mcpagent import Limits, Message, ModelRequest, ModelResponse, Text, ToolCall
from mcpagent.values.events import Emit, TextDelta
from mcpagent.values.messages import Usage

SECONDS = 0.4
"""A limit that a run of some requests does not come near to, and that a test can sit out."""


@dataclass
class Endless:
    """Says "step 1" and calls `look`, and so on; made to answer, it does, or once it `answers`. It hangs in request
    number `hangs_at`.

    Each request takes 90 tokens in, 10 out, and half a dollar, unless its price is not known (`dollars` None).
    """

    dollars: float | None = 0.5
    hangs_at: int = 0
    calls_at_once: int = 1
    answers: bool = False
    tool: str = "look"
    name: str = "endless:test"
    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])
    hanging: asyncio.Event = field(default_factory=asyncio.Event)

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        self.requests.append(request)
        number = len(self.requests)
        said = f"step {number}"
        emit(TextDelta(said))
        if number == self.hangs_at:
            self.hanging.set()
            await asyncio.Event().wait()
        usage = Usage(90, 10, requests=1)
        if self.answers or request.tool_choice == "none":
            return ModelResponse(
                Message("assistant", (Text(f"made to answer at {number}"),)), usage, "end", self.dollars
            )
        calls = [
            ToolCall(f"c{number}-{n}", self.tool, self._arguments(f"{number}-{n}")) for n in range(self.calls_at_once)
        ]
        return ModelResponse(Message("assistant", (Text(said), *calls)), usage, "tool_calls", self.dollars)

    def _arguments(self, place: str) -> dict[str, str]:
        return {"place": place} if self.tool == "look" else {"city": place}

    async def aclose(self) -> None:
        """Nothing to give back."""


@dataclass
class Looking:
    """The tool, and where it was called."""

    seen: list[str] = field(default_factory=list[str])

    def tool(self) -> Any:
        def look(place: str) -> str:
            """Looks at a place."""
            self.seen.append(place)
            return f"seen {place}"

        return look


@dataclass(frozen=True)
class Case:
    """A limit, what the endless model does under it, and what comes of that."""

    limits: Limits
    requests: int
    calls: int
    answer: str
    hangs_at: int = 0
    dollars: float | None = 0.5

    @property
    def kind(self) -> str:
        (kind,) = self.limits.given()
        return kind

    @property
    def stop(self) -> str:
        return f"max_{self.kind}"

    def model(self) -> Endless:
        return Endless(self.dollars, self.hangs_at)


CASES = {
    "turns": Case(Limits(turns=3), 4, 3, "made to answer at 4"),
    "tool_calls": Case(Limits(tool_calls=2), 4, 2, "made to answer at 4"),
    "tokens": Case(Limits(tokens=250), 3, 2, "step 3"),
    "dollars": Case(Limits(dollars=1.2), 3, 2, "step 3"),
    "unknown price": Case(Limits(dollars=9.0), 1, 0, "step 1", dollars=None),
    "seconds": Case(Limits(seconds=SECONDS), 2, 1, "step 2", hangs_at=2),
}
