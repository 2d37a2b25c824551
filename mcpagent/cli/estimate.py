"""`--estimate`: what the first request would be, without making it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcpagent.catalog import CHARACTERS_PER_TOKEN
from mcpagent.cli.figures import counted, money
from mcpagent.messages import Usage

if TYPE_CHECKING:
    from mcpagent import Agent


@dataclass(frozen=True, slots=True)
class Estimate:
    """Tokens of one request, as characters / 4. `dollars` is the price (US) of that input, None where not known."""

    model: str
    system: int
    question: int
    offered: tuple[str, ...]
    offered_tokens: int
    known_tools: int
    known_tokens: int
    dollars: float | None

    @property
    def total(self) -> int:
        return self.system + self.question + self.offered_tokens

    @property
    def with_every_tool(self) -> int:
        return self.system + self.question + self.known_tokens

    def lines(self) -> list[str]:
        price = f", {money(self.dollars)}" if self.dollars is not None else ", price not known"
        offered = counted(len(self.offered), "tool")
        known = counted(self.known_tools, "tool")
        return [
            f"first request to {self.model}: about {self.total:,} tokens{price}",
            f"  system {self.system:,}, question {self.question:,}, {offered} offered {self.offered_tokens:,}",
            f"  offering all {known}: {self.with_every_tool:,} tokens",
            "characters / 4; each call makes one more request, with what was said before and what the tools gave",
        ]


def estimate(agent: Agent, question: str) -> Estimate:
    """What asking this would send first; the model is not asked."""
    from mcpagent.models.prices import dollars_for

    names = tuple(tool.name for tool in agent.offered_tools())
    system, asked = (len(text) // CHARACTERS_PER_TOKEN for text in (agent.system, question))
    offered_tokens = agent.catalog.tokens(names)
    usage = Usage(input_tokens=system + asked + offered_tokens)
    provider, _, model = agent.model.name.partition(":")
    return Estimate(
        model=agent.model.name,
        system=system,
        question=asked,
        offered=names,
        offered_tokens=offered_tokens,
        known_tools=len(agent.catalog.known),
        known_tokens=agent.catalog.tokens(agent.catalog.known),
        dollars=0.0 if provider == "offline" else dollars_for(usage, provider, model, ""),
    )
