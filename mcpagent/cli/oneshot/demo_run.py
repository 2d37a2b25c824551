"""`mcpagent demo`: a short real conversation over a thousand tools of bundled servers, with the model's requests."""

from __future__ import annotations

from contextlib import closing

from rich.text import Text

from mcpagent.cli.common.configuration import Configuration
from mcpagent.cli.common.exit_codes import ExitCode, run_to_end
from mcpagent.cli.common.number_formats import counted, duration, money, saving
from mcpagent.cli.common.options import Options
from mcpagent.cli.oneshot.agent_options import connecting
from mcpagent.cli.screen.lines import names_line
from mcpagent.cli.screen.rendering import TurnView
from mcpagent.cli.screen.terminal import Terminal, put
from mcpagent.errors import ServerError
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.toolsets.definition import RunOptions
from mcpagent.values.events import Event, RequestSent, RunFinished, ServerFailed
from mcpagent.values.messages import Usage

QUESTIONS = (
    "what time is it in Tokyo?",
    "convert 42 kilometres to miles",
    "what is 17% of 2450?",
)
PRICED = ("anthropic", "claude-sonnet-5-5")
"""The model whose input price converts tokens to dollars."""


def run_demo(options: Options, terminal: Terminal) -> ExitCode:
    """Run the conversation. `--model` replaces the offline model by a real one."""
    return run_to_end(_converse(options, terminal))


async def _converse(options: Options, terminal: Terminal) -> ExitCode:
    from mcpagent.agents.agent import Agent
    from mcpagent.config import load_servers
    from mcpagent.demo import demo_server_config
    from mcpagent.demo.many_tools import catalog_config

    servers = load_servers(
        {
            "mcpServers": {
                **demo_server_config()["mcpServers"],
                **catalog_config()["mcpServers"],
            }
        }
    )
    events: list[Event] = []
    agent = Agent(
        options.model or "offline",
        mcp_config=servers,
        tool_search=ToolSearch(strategy=options.search_strategy),
        on_event=events.append,
        options=RunOptions(servers=ServerOptions(startup_seconds=None)),
    )
    with connecting(terminal, Configuration(servers, is_demo=True)):
        await agent.__aenter__()
    try:
        for event in events:
            if isinstance(event, ServerFailed):
                raise ServerError(
                    f"a bundled server failed: {event.reason}",
                    server="demo",
                    phase="start",
                )
        known = agent._runtime.tools.known
        facts = f"  {agent._runtime.model.name}, {len(servers.servers)} real MCP servers with {len(known):,} tools"
        everything = f"offering them all would take {agent._runtime.tools.tokens(known):,} tokens in every request"
        put(
            terminal.out,
            Text.assemble(("tool search, live", "user"), facts),
            Text(everything, "dim"),
        )
        seen: tuple[str, ...] = ()
        for question in QUESTIONS:
            put(terminal.out, "", Text(f"> {question}", "user"))
            with closing(TurnView(terminal.out, terminal.out, terminal.glyphs)) as view:
                async with agent.stream(question) as stream:
                    async for event in stream:
                        if isinstance(event, RequestSent) and event.offered != seen:
                            view.note(_what_the_model_sees(event, seen, terminal))
                            seen = event.offered
                        view(event)
        put(
            terminal.out,
            *_summary(
                events, timed=not agent._runtime.model.name.startswith("offline:")
            ),
        )
        return ExitCode.OK
    finally:
        await agent.aclose()


def _what_the_model_sees(
    event: RequestSent, seen: tuple[str, ...], terminal: Terminal
) -> Text:
    new = [name for name in event.offered if name not in seen]
    sees = f"request {event.turn}: the model sees {len(event.offered)} of {event.known_tools:,} tools"
    line = f"{sees} ({event.offered_tokens:,} tok){', now also ' if seen else ': '}"
    return Text(
        line
        + names_line(new, min(terminal.out.width, 100) - len(line), terminal.glyphs),
        "dim",
    )


def _summary(events: list[Event], *, timed: bool) -> list[Text]:
    """Compare the tokens of the sent tool definitions, over all requests, with those of offering every tool.

    `timed`: include the seconds, which mean nothing without a real model.
    """
    requests = [event for event in events if isinstance(event, RequestSent)]
    sent, everything = (
        sum(item.offered_tokens for item in requests),
        sum(item.known_tokens for item in requests),
    )
    seconds = sum(event.seconds for event in events if isinstance(event, RunFinished))
    took = ""
    if timed:
        took = f" in {duration(seconds)}"
    less = saving(sent, everything) or "nothing saved"
    return [
        Text(""),
        Text(f"{counted(len(requests), 'request')}{took}", "user"),
        Text(
            f"  tool definitions sent      {sent:>11,} tokens{_priced(sent)}   ({less})"
        ),
        Text(
            f"  with every tool each time  {everything:>11,} tokens{_priced(everything)}"
        ),
        Text(
            f"prices: {PRICED[1]}, input that is not cached"
            if _priced(1_000_000)
            else "",
            "dim",
        ),
        Text("your turn: mcpagent", "dim"),
    ]


def _priced(tokens: int) -> str:
    """Return `  $0.013`, or "" if the price is unknown."""
    from mcpagent.models.prices import dollars_for

    dollars = dollars_for(Usage(input_tokens=tokens, requests=1), *PRICED, "")
    if dollars is not None:
        return f"  {money(dollars):>7}"
    return ""
