"""`mcpagent demo`: a short real conversation over a thousand tools of bundled servers, with what the model saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.text import Text

from mcpagent.catalog import ToolSearch
from mcpagent.cli.agents import connecting
from mcpagent.cli.configuration import Configuration
from mcpagent.cli.ending import run_to_end
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.figures import counted, duration, money, saving
from mcpagent.cli.lines import joined
from mcpagent.cli.options import Options
from mcpagent.cli.rendering import TurnView
from mcpagent.cli.terminal import put
from mcpagent.errors import ServerError
from mcpagent.events import Event, RequestSent, RunFinished, ServerFailed
from mcpagent.messages import Usage

if TYPE_CHECKING:
    from mcpagent.cli.terminal import Terminal

QUESTIONS = (
    "what time is it in Tokyo?",
    "convert 42 kilometres to miles",
    "what is 17% of 2450?",
)
PRICED = ("anthropic", "claude-sonnet-5-5")
"""Whose price for input the tokens are shown at, so that they mean something."""


def run_demo(options: Options, terminal: Terminal) -> ExitCode:
    """Holds the conversation. `--model` puts a real model in the place of the offline one."""
    return run_to_end(_Demo(options, terminal).run())


@dataclass(slots=True)
class _Cost:
    """Tokens of tool definitions over all requests: what was sent, and what offering everything would have been."""

    requests: int = 0
    sent: int = 0
    everything: int = 0
    seconds: float = 0.0
    seen: tuple[str, ...] = ()


class _Demo:
    def __init__(self, options: Options, terminal: Terminal) -> None:
        self.options = options
        self.terminal = terminal
        self.cost = _Cost()
        self.view: TurnView | None = None
        self.failure = ""

    async def run(self) -> ExitCode:
        from mcpagent.agent import Agent
        from mcpagent.config import load_servers
        from mcpagent.demo import demo_server_config
        from mcpagent.demo.catalog import catalog_config

        servers = load_servers({"mcpServers": {**demo_server_config()["mcpServers"], **catalog_config()["mcpServers"]}})
        agent = Agent(
            self.options.model or "offline",
            mcp_config=servers,
            tool_search=ToolSearch(strategy=self.options.search_strategy.value),
            startup_seconds=None,
            on_event=self._on_event,
        )
        with connecting(self.terminal, Configuration(servers, is_demo=True)):
            await agent.__aenter__()
        try:
            if self.failure:
                raise ServerError(f"a bundled server failed: {self.failure}", server="demo", phase="start")
            catalog = agent.catalog
            everything = catalog.tokens(catalog.known)
            self._say(
                Text.assemble(
                    ("tool search, live", "user"),
                    f"  {agent.model.name}, {len(servers.servers)} real MCP servers with {len(catalog.known):,} tools",
                ),
                Text(f"offering them all would take {everything:,} tokens in every request", "dim"),
            )
            for question in QUESTIONS:
                self._say(Text(""), Text(f"> {question}", "user"))
                self.view = TurnView(self.terminal.out, self.terminal.out, self.terminal.glyphs)
                try:
                    await agent.ask(question)
                finally:
                    self.view.close()
            self._summary()
            return ExitCode.OK
        finally:
            await agent.aclose()

    def _on_event(self, event: Event) -> None:
        match event:
            case ServerFailed(reason=reason):
                self.failure = reason
            case RequestSent():
                self._count(event)
            case RunFinished():
                self.cost.seconds += event.seconds
        if self.view is not None:
            self.view(event)

    def _count(self, event: RequestSent) -> None:
        self.cost.requests += 1
        self.cost.sent += event.offered_tokens
        self.cost.everything += event.known_tokens
        if event.offered == self.cost.seen or self.view is None:
            return
        new = [name for name in event.offered if name not in self.cost.seen]
        sees = f"request {event.turn}: the model sees {len(event.offered)} of {event.known_tools:,} tools"
        line = f"{sees} ({event.offered_tokens:,} tok){',' if self.cost.seen else ':'} "
        line += "now also " if self.cost.seen else ""
        names = joined(new, min(self.terminal.out.width, 100) - len(line), self.terminal.glyphs)
        self.cost.seen = event.offered
        self.view.note(Text(line + names, "dim"))

    def _summary(self) -> None:
        cost = self.cost
        less = saving(cost.sent, cost.everything) or "nothing saved"
        self._say(
            Text(""),
            Text(f"{counted(cost.requests, 'request')} in {duration(cost.seconds)}", "user"),
            Text(f"  tool definitions sent      {cost.sent:>11,} tokens{_priced(cost.sent)}   ({less})"),
            Text(f"  with every tool each time  {cost.everything:>11,} tokens{_priced(cost.everything)}"),
            Text(f"prices: {PRICED[1]}, input that is not cached", "dim") if _priced(1_000_000) else Text(""),
            Text("your turn: mcpagent", "dim"),
        )

    def _say(self, *lines: Text) -> None:
        put(self.terminal.out, *lines)


def _priced(tokens: int) -> str:
    """`  $0.013`, or nothing where the price is not known."""
    from mcpagent.models.prices import dollars_for

    dollars = dollars_for(Usage(input_tokens=tokens, requests=1), *PRICED, "")
    return f"  {money(dollars):>7}" if dollars is not None else ""
