"""`mcpagent demo`: a short real conversation over the bundled server, with what the model saw at each step."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.text import Text

from mcpagent.catalog import ToolSearch
from mcpagent.cli.agents import connecting
from mcpagent.cli.configuration import Configuration
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.figures import counted, duration, saving
from mcpagent.cli.lines import joined
from mcpagent.cli.options import Options
from mcpagent.cli.rendering import TurnView
from mcpagent.cli.terminal import put
from mcpagent.errors import ServerError
from mcpagent.events import Event, RequestSent, RunFinished, ServerFailed

if TYPE_CHECKING:
    from mcpagent.cli.terminal import Terminal

QUESTIONS = (
    "what time is it in Tokyo?",
    "convert 42 kilometers to miles",
    "what is 17% of 2450?",
)


def run_demo(options: Options, terminal: Terminal) -> ExitCode:
    """Holds the conversation. `--model` puts a real model in the place of the offline one."""
    return asyncio.run(_Demo(options, terminal).run())


@dataclass(slots=True)
class _Cost:
    """Tokens of tool definitions over all requests: what was sent, and what offering everything would have been."""

    requests: int = 0
    sent: int = 0
    everything: int = 0
    seconds: float = 0.0
    offered: list[int] = field(default_factory=list[int])


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

        servers = load_servers(demo_server_config())
        agent = Agent(
            self.options.model or "offline",
            mcp_config=servers,
            tool_search=ToolSearch(),
            startup_seconds=None,
            on_event=self._on_event,
        )
        with connecting(self.terminal, Configuration(servers, is_demo=True)):
            await agent.__aenter__()
        try:
            if self.failure:
                raise ServerError(f"the bundled server failed: {self.failure}", server="demo", phase="start")
            catalog = agent.catalog
            everything = catalog.tokens(catalog.known)
            self._say(
                Text.assemble(
                    ("tool search, live", "user"),
                    f"  {agent.model.name}, a real MCP server with {counted(len(catalog.known), 'tool')}",
                ),
                Text(f"offering them all would cost {everything:,} tokens in every request", "dim"),
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
        names = joined(event.offered, min(self.terminal.out.width, 100) - 46, self.terminal.glyphs)
        if self.view is not None:
            self.view.note(
                Text(
                    f"request {event.turn}: the model sees {len(event.offered)} of {event.known_tools} tools "
                    f"({event.offered_tokens:,} tok): {names}",
                    "dim",
                )
            )

    def _summary(self) -> None:
        cost = self.cost
        less = saving(cost.sent, cost.everything) or "nothing saved"
        self._say(
            Text(""),
            Text(f"{counted(cost.requests, 'request')} in {duration(cost.seconds)}", "user"),
            Text(f"  tool definitions sent      {cost.sent:>9,} tokens   ({less})"),
            Text(f"  with every tool each time  {cost.everything:>9,} tokens"),
            Text("your turn: mcpagent", "dim"),
        )

    def _say(self, *lines: Text) -> None:
        put(self.terminal.out, *lines)
