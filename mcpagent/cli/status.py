"""The status line: what the model is offered against what is known, in words and digits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len

from mcpagent.cli.figures import money, saving, tokens
from mcpagent.events import Event, RequestSent, ResponseReceived
from mcpagent.messages import Usage
from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent import Agent
    from mcpagent.cli.terminal import Glyphs
    from mcpagent.mcp.status import ServerStatus


@dataclass(slots=True)
class Figures:
    """What the last request was like; before the first one, what it would be like."""

    offered: int = 0
    known: int = 0
    offered_tokens: int = 0
    known_tokens: int = 0
    last: Usage | None = None
    dollars: float | None = None
    cost_known: bool = True

    def follow(self, event: Event) -> None:
        match event:
            case RequestSent():
                self.offered, self.known = len(event.offered), event.known_tools
                self.offered_tokens, self.known_tokens = event.offered_tokens, event.known_tokens
            case ResponseReceived(usage=usage, dollars=dollars):
                self.last = usage
                self.dollars = (self.dollars or 0.0) + (dollars or 0.0)
                self.cost_known = self.cost_known and (dollars is not None or not usage.input_tokens)
            case _:
                pass

    def read(self, agent: Agent) -> None:
        """The figures of the next request."""
        catalog = agent.catalog
        names = [tool.name for tool in agent.offered_tools()]
        self.offered, self.known = len(names), len(catalog.known)
        self.offered_tokens, self.known_tokens = catalog.tokens(names), catalog.tokens(catalog.known)


def status_line(
    model: str, figures: Figures, servers: Mapping[str, ServerStatus], approve: str, glyphs: Glyphs, width: int
) -> str:
    """` model │ ctx 4.1k │ tools 3/527 · 0.6k of 100k (-99%) │ mcp 61 ok 8.. 1! │ ask `: drops fields from the right.

    The last field is the approval mode.
    """
    fields = [short_model(model)]
    if figures.last is not None and figures.last.input_tokens:
        fields.append(f"ctx {tokens(figures.last.input_tokens)}")
    if figures.known:
        fields.append(tools_field(figures, glyphs))
    if servers:
        fields.append(servers_field(servers))
    if figures.dollars is not None:
        fields.append(money(figures.dollars, known=figures.cost_known))
    fields.append(approve)
    line = ""
    for field in fields:
        longer = f"{line} {glyphs.bar} {field}" if line else f" {field}"
        if cell_len(longer) + 1 > width:
            break
        line = longer
    return line + " "


def tools_field(figures: Figures, glyphs: Glyphs) -> str:
    """`tools 3/527 · 0.6k of 100k (-99%)`."""
    text = f"tools {figures.offered}/{figures.known} {glyphs.dot} {tokens(figures.offered_tokens)}"
    less = saving(figures.offered_tokens, figures.known_tokens)
    return f"{text} of {tokens(figures.known_tokens)} ({less})" if less else f"{text} tok"


def servers_field(servers: Mapping[str, ServerStatus]) -> str:
    """`mcp 61 ok 8.. 1!`: ready, connecting, failed."""
    states = [status.state for status in servers.values()]
    ready, failed = states.count("ready") + states.count("cached"), states.count("failed")
    connecting = states.count("connecting")
    parts = [f"{ready} ok"] if ready or not connecting else []
    parts += [f"{connecting}.."] if connecting else []
    parts += [f"{failed}!"] if failed else []
    return "mcp " + " ".join(parts)


def short_model(name: str) -> str:
    """The model's own name, without its provider."""
    provider, _, model = name.partition(":")
    return provider if provider == "offline" else safe_line(model or provider, 40)
