"""The conversation that run.py starts: an agent with thousands of tools, and what its model saw at each step."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from examples.tool_search.workspace import make_workspace, web_page
from mcpagent import Agent, McpAgentError, RunOptions, ServerOptions
from mcpagent.models import ModelRequest, ModelResponse, OfflineModel
from mcpagent.utilities.text.safe_text import safe_line, safe_text
from mcpagent.values.events import (
    Emit,
    Event,
    Notice,
    RequestSent,
    RunFinished,
    ServerConnected,
    ServerFailed,
    ToolCallFinished,
    ToolsLoaded,
    ToolsSearched,
)

CONFIG = Path(__file__).with_name("mcp_servers.json")
ONLY_READ = frozenset({"calculate", "list_tables"})
"""Tools of the calculator's and the SQLite server that only read. These two are older than the mark for it, and the
stand-in calls by itself only what is marked, so the example vouches for them.
"""

SHOWN_CHARACTERS = 600


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, and the server that has a tool for it."""

    prompt: str
    server: str


def everyday_requests(page: str) -> list[Request]:
    return [
        Request("What time is it in Tokyo?", "time"),
        Request("Convert 14:30 from Europe/Berlin to America/New_York", "time"),
        Request("What is (17 + 25) * 3?", "calculator"),
        Request("Show the last 2 commits in the git log of ./repository", "git"),
        Request("Which tables are in the SQLite database?", "sqlite"),
        Request(f"Fetch the web page {page}", "fetch"),
        Request("List the files in the directory ./files", "filesystem"),
        Request("Show the whole knowledge graph", "memory"),
        Request('Echo the message "good morning"', "everything"),
        Request("List my S3 buckets", "aws"),
        Request('Create an SQS queue named "orders"', "aws"),
        Request('Delete the S3 bucket named "old-logs"', "aws"),
    ]


class StandIn:
    """The offline model, which is told which tools only read where their server does not say so."""

    def __init__(self) -> None:
        self._rules = OfflineModel()
        self.name = self._rules.name

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        tools = (
            replace(tool, read_only=True) if tool.name in ONLY_READ else tool
            for tool in request.tools
        )
        return await self._rules.respond(replace(request, tools=tuple(tools)), emit)

    async def aclose(self) -> None:
        await self._rules.aclose()


@dataclass(slots=True)
class Report:
    """Prints events as they come and adds up what the end tells."""

    requests: list[RequestSent] = field(default_factory=list)
    searches: int = 0
    calls: int = 0
    loaded: dict[str, None] = field(default_factory=dict)
    seconds: float = 0.0

    def show(self, event: Event) -> None:
        match event:
            case ServerConnected(server=server, tools=tools, seconds=seconds):
                line("server", f"{server:<12} {tools:>6,} tools   {seconds:4.1f} s")
            case ServerFailed(server=server, reason=reason):
                line("server", f"{server:<12} failed: {reason}")
            case Notice(text=text):
                line("note", text)
            case RequestSent():
                tokens = f"{event.offered_tokens:,} tokens of tools (all: {event.known_tokens:,})"
                line(
                    "request",
                    f"offers {len(event.offered)} of {event.known_tools:,} tools, {tokens}",
                )
                if not self.requests or event.offered != self.requests[-1].offered:
                    line("", " ".join(event.offered))
                self.requests.append(event)
            case ToolsSearched():
                self.searches += 1
                names = ", ".join(event.matches) or "nothing"
                line(
                    "search",
                    f'"{event.query}": {event.found} found, shown: {names}  ({1000 * event.seconds:.0f} ms)',
                )
            case ToolsLoaded(names=names, tokens=tokens):
                self.loaded.update(dict.fromkeys(names))
                line(
                    "add",
                    f"{', '.join(names)}: {tokens:,} tokens more from the next request on",
                )
            case ToolCallFinished():
                self._show_call(event)
            case RunFinished(answer=answer, seconds=seconds):
                self.seconds += seconds
                line("answer", shortened(answer))
            case _:
                pass

    def _show_call(self, finished: ToolCallFinished) -> None:
        """A call to a server; the virtual tools tell of themselves, unless they fail."""
        call, result = finished.call, finished.result
        if finished.server is None and result.error is None:
            return
        self.calls += finished.server is not None
        line("call", f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}")
        outcome = f"{result.error}: {result.text}" if result.error else result.text
        line(
            "",
            f"{finished.server or 'mcpagent'}, {result.seconds:.2f} s: {safe_line(outcome, 160)}",
        )

    def summary(self) -> str:
        sent = sum(request.offered_tokens for request in self.requests)
        everything = sum(request.known_tokens for request in self.requests)
        saved = 1 - sent / everything if everything else 0.0
        return "\n".join(
            [
                "What tool search did",
                f"  tools known            {max((request.known_tools for request in self.requests), default=0):,}",
                f"  offered at most        {max((len(request.offered) for request in self.requests), default=0)}",
                f"  discovered             {len(self.loaded)}: {', '.join(self.loaded) or 'none'}",
                f"  tool tokens sent       {sent:,} (estimated, characters / 4)",
                f"  offering every tool    {everything:,}",
                f"  saved                  {saved:.2%}",
                f"  requests to the model  {len(self.requests)}, {self.searches} searches, {self.calls} calls",
                f"  time                   {self.seconds:.1f} s",
            ]
        )


def line(label: str, text: str) -> None:
    first, *more = safe_text(text).splitlines() or [""]
    print(f"  {label:<8} {first}", flush=True)
    for rest in more:
        print(f"  {'':<8} {rest}", flush=True)


def shortened(text: str) -> str:
    return (
        text
        if len(text) <= SHOWN_CHARACTERS
        else f"{text[:SHOWN_CHARACTERS].rstrip()} ... ({len(text):,} characters)"
    )


async def converse(
    model: str | None, servers: Sequence[str], requests: Sequence[Request]
) -> None:
    report = Report()
    started = time.monotonic()
    agent = Agent(
        model or StandIn(),
        mcp_config=CONFIG,
        with_tool_search_mode=True,
        on_event=report.show,
        options=RunOptions(
            servers=ServerOptions(selected_servers=servers, startup_seconds=None)
        ),
    )
    print("\nMCP servers, connected all at once:")
    async with agent:
        print(
            f"  {len(agent.known_tools):,} tools in {time.monotonic() - started:.1f} s\n\nThe system prompt:"
        )
        session = agent.session()
        for text in session.system.splitlines():
            print(f"  | {text}")
        for number, request in enumerate(requests, 1):
            print(f"\n[{number}] {request.prompt}")
            await session.ask(request.prompt)
    print(f"\n{report.summary()}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--servers", nargs="*", default=[])
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--ask", action="append", default=[])
    options = parser.parse_args()
    make_workspace(options.workspace)
    os.environ["DEMO_WORKSPACE"] = str(options.workspace)
    with web_page(options.workspace) as page:
        requests = [Request(prompt, "") for prompt in options.ask] or [
            request
            for request in everyday_requests(page)
            if request.server in options.servers
        ]
        try:
            asyncio.run(converse(options.model, options.servers, requests))
        except McpAgentError as problem:
            sys.exit(f"error: {problem}")
        except KeyboardInterrupt:
            sys.exit(130)


if __name__ == "__main__":
    main()
