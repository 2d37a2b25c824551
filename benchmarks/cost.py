"""What tool search costs: the same tasks against simulated providers, in each way of offering tools.

    python benchmarks/cost.py [--catalogs DIR] [--tasks 20] [--tools N]

Prints, per provider and way of offering tools, the averages of a task: requests, input tokens, those of tool
definitions, the share of input read from the prompt cache after the second request, and the input's price in units of
one uncached token (a read costs 0.1; a write costs 1.25 at Anthropic and 1 at OpenAI). DIR holds `tools/list` answers
of MCP servers as JSON, one file each; without it tools are made up. Rules and caches are simulated: tests/simulator.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mcpagent import Agent, ToolSearch
from mcpagent.messages import ToolDefinition
from mcpagent.models import AnthropicModel, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.capabilities import SAFE, Capabilities
from mcpagent.models.http_model import HttpModel
from mcpagent.tools import Tool, ToolOutput
from mcpagent.validation import argument_problem
from tests.simulator.server import Simulator
from tests.simulator.values import Counted, Said, View

QUESTIONS_PER_TASK = 2
"""Each takes a search, an addition, a call and an answer: eight turns in a task."""

INSTRUCTIONS = "You are a careful assistant. " * 60


@dataclass(frozen=True)
class Way:
    """One way of offering tools. `adds` and `searches` say what the model does before it calls."""

    name: str
    search: ToolSearch | bool
    searches: bool = True
    adds: bool = True
    grows_tools: bool = False


WAYS = (
    Way("all tools offered", False, searches=False, adds=False),
    Way("found tools at the end of `tools`", ToolSearch(), grows_tools=True),
    Way("search, add_tool, call", ToolSearch()),
    Way('search with load="search", call', ToolSearch(load="search"), adds=False),
    Way("search, call at once", ToolSearch(), adds=False),
)


@dataclass(frozen=True)
class Provider:
    """A simulated provider: how its model is made, by address and whether found tools grow `tools`."""

    name: str
    make: Callable[[str, bool], HttpModel]
    write_price: float


def _anthropic(url: str, grows: bool) -> HttpModel:
    # Models from Opus 4.8 on refuse thoughts whose prefix changed, so growing `tools` is only possible before.
    return AnthropicModel("claude-sonnet-4-6", api_key="k", base_url=url, capabilities=SAFE if grows else None)


def _openai(url: str, grows: bool) -> HttpModel:
    can = SAFE if grows else Capabilities("additional_tools", allowed_tools=True)
    return OpenAIResponsesModel("m", api_key="k", base_url=f"{url}/v1", capabilities=can)


def _chat(url: str, grows: bool) -> HttpModel:
    can = SAFE if grows else Capabilities("call_tool")
    return OpenAIChatModel("m", base_url=f"{url}/v1", provider="vllm", capabilities=can)


PROVIDERS = (
    Provider("Anthropic Messages", _anthropic, 1.25),
    Provider("OpenAI Responses", _openai, 1.0),
    Provider("Chat Completions (call_tool)", _chat, 1.0),
)


class Worker:
    """A model that does what a question names: finds the tool, adds it where it must, calls it, answers."""

    def __init__(self, way: Way, arguments: dict[str, dict[str, Any]]) -> None:
        self._way = way
        self._arguments = arguments

    def __call__(self, view: View) -> Sequence[Said]:
        asked = [text for text in view.texts if text.startswith("Use ")]
        name = asked[-1].removeprefix("Use ")
        since = view.texts[len(view.texts) - view.texts[::-1].index(asked[-1]) :]
        if any("the result of" in text for text in since):
            return ["Done."]
        if self._way.searches and not since:
            return [("search_tools", {"query": name})]
        if self._way.adds and not any("Added tools" in text or "Already" in text for text in since):
            return [("add_tool", {"tool_names": [name]})]
        if "call_tool" in view.shown:
            return [("call_tool", {"tool_name": name, "arguments": self._arguments[name]})]
        return [(name, self._arguments[name])]


def catalogue(folder: Path | None, count: int) -> list[ToolDefinition]:
    """Tools of real servers, named after their server; or made-up ones where there are none."""
    found = list(_recorded(folder)) if folder is not None and folder.is_dir() else []
    return (found or [_made_up(number) for number in range(count)])[:count]


def _recorded(folder: Path) -> Iterator[ToolDefinition]:
    for path in sorted(folder.glob("*.json")):
        for number, tool in enumerate(json.loads(path.read_text(encoding="utf-8"))["tools"]):
            name = f"{path.stem}_{number}_{tool['name']}"[:64].replace(".", "_").replace("/", "_")
            yield ToolDefinition(name, tool.get("description") or "", tool["inputSchema"])


def _made_up(number: int) -> ToolDefinition:
    properties = {f"p{place}": {"type": "string", "description": "What it is. " * 6} for place in range(4)}
    return ToolDefinition(f"tool_{number}", f"Does thing {number}. " * 8, {"type": "object", "properties": properties})


def fitting_arguments(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Arguments that validate, where simple ones do."""
    samples: dict[str, Any] = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    properties = schema.get("properties") or {}
    given = {name: samples.get(str(properties.get(name, {}).get("type")), "x") for name in schema.get("required") or ()}
    return None if argument_problem(schema, given) else given


async def _result(_arguments: dict[str, Any]) -> ToolOutput:
    return ToolOutput.of_text("the result of the call: " + "some data. " * 40)


async def run(
    provider: Provider, way: Way, tools: list[ToolDefinition], tasks: list[list[str]], arguments: dict[str, Any]
) -> tuple[list[Counted], int]:
    """Tokens of every request of all tasks but the caches' first, and how many requests there were."""
    bound = [Tool(tool, _result) for tool in tools]
    counted: list[Counted] = []
    late: list[Counted] = []
    requests = 0
    async with Simulator(Worker(way, arguments)) as simulator:
        model = provider.make(simulator.url, way.grows_tools)
        options: dict[str, Any] = {"tool_search": way.search} if isinstance(way.search, ToolSearch) else {}
        async with Agent(model, tools=bound, instructions=INSTRUCTIONS, **options) as agent:
            for task in tasks:
                agent.new_conversation()
                before = len(simulator.log.counted)
                for name in task:
                    await agent.ask(f"Use {name}")
                own = simulator.log.counted[before:]
                counted += own
                late += own[2:]
                requests += len(own)
        await model.aclose()
    if simulator.log.refused:
        raise SystemExit(f"{provider.name}, {way.name}: refused: {simulator.log.refused[0].message}")
    return [*counted, *late], requests


def report(provider: Provider, way: Way, found: list[Counted], requests: int, tasks: int) -> str:
    counted, late = found[:requests], found[requests:]
    total = sum(count.total for count in counted)
    price = sum(
        count.total - count.read - count.written + 0.1 * count.read + provider.write_price * count.written
        for count in counted
    )
    definitions = sum(count.definitions for count in counted)
    share = sum(count.read for count in late) / max(sum(count.total for count in late), 1)
    return (
        f"| {way.name} | {requests / tasks:.1f} | {total / tasks:,.0f} | {definitions / tasks:,.0f} "
        f"| {share:.1%} | {price / tasks:,.0f} |"
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--catalogs", type=Path, help="folder of tools/list answers")
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--tools", type=int, default=10_000, help="use at most so many tools")
    chosen = parser.parse_args()
    tools = catalogue(chosen.catalogs, chosen.tools)
    arguments = {tool.name: fitting_arguments(tool.parameters) for tool in tools}
    usable = [name for name, given in arguments.items() if given is not None]
    count = chosen.tasks * QUESTIONS_PER_TASK
    asked = [usable[place * len(usable) // count] for place in range(count)]
    half = len(asked) // 2
    tasks = [[asked[place], asked[place + half]] for place in range(half)]
    print(f"{len(tools):,} tools, {len(tasks)} tasks of {QUESTIONS_PER_TASK} questions\n")
    for provider in PROVIDERS:
        print(f"{provider.name}\n")
        print("| way | requests | input tokens | of definitions | read from cache | price |")
        print("|---|---|---|---|---|---|")
        for way in WAYS:
            found, requests = await run(provider, way, tools, tasks, arguments)
            print(report(provider, way, found, requests, len(tasks)), flush=True)
        print()


if __name__ == "__main__":
    asyncio.run(main())
