"""The status line: what the model is offered against what is known, in words and digits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
    _windows: dict[str, int | None] = field(default_factory=dict[str, "int | None"])

    def window(self, model: str) -> int | None:
        """How many tokens this model takes, where that is known."""
        if model not in self._windows:
            from mcpagent.models.prices import context_window

            provider, _, name = model.partition(":")
            self._windows[model] = context_window(provider, name.partition("?")[0])
        return self._windows[model]

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
    """` model │ ctx 2% 4.1k/200k │ tools 3/527 · 0.6k of 100k (-99%) │ mcp 61 ok 8.. 1! │ ask `.

    Drops fields from the right; the last one is the approval mode.
    """
    fields = [short_model(model)]
    if figures.last is not None and figures.last.input_tokens:
        fields.append(context_field(figures.last.input_tokens, figures.window(model)))
    if figures.known:
        fields.append(tools_field(figures, glyphs))
    if servers:
        fields.append(servers_field(servers))
    if figures.dollars is not None:
        fields.append(money(figures.dollars, known=figures.cost_known))
    fields.append(approve)
    line = ""
    for item in fields:
        longer = f"{line} {glyphs.bar} {item}" if line else f" {item}"
        if cell_len(longer) + 1 > width:
            break
        line = longer
    return line + " "


def context_field(used: int, window: int | None) -> str:
    """`ctx 5% 10.2k/200k`; only the tokens where the window is not known."""
    return f"ctx {100 * used / window:.0f}% {tokens(used)}/{tokens(window)}" if window else f"ctx {tokens(used)}"


def status_document(
    model: str, figures: Figures, servers: Mapping[str, ServerStatus], approve: str, folder: str
) -> dict[str, Any]:
    """What a user's own status line gets on its standard input.

    `model`, `workspace`, `cost` and `version` are named as other agents name them, so that their scripts work.
    """
    from mcpagent import __version__

    states = [status.state for status in servers.values()]
    used = figures.last.input_tokens if figures.last is not None else 0
    return {
        "schema": "mcpagent.status/1",
        "version": __version__,
        "cwd": folder,
        "workspace": {"current_dir": folder},
        "model": {"id": model, "display_name": short_model(model)},
        "context": {"tokens": used, "window": figures.window(model) if used else None},
        "tools": {
            "offered": figures.offered,
            "known": figures.known,
            "offered_tokens": figures.offered_tokens,
            "known_tokens": figures.known_tokens,
        },
        "mcp": {
            "ready": states.count("ready") + states.count("cached"),
            "connecting": states.count("connecting"),
            "failed": states.count("failed"),
        },
        "cost": {"total_cost_usd": figures.dollars or 0.0, "known": figures.cost_known},
        "approve": approve,
    }


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
