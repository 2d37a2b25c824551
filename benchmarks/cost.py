"""What tool search costs: the same tasks against simulated providers, in each way of offering tools.

    python benchmarks/cost.py [--catalogs DIR] [--tasks 20] [--questions 8] [--tools N]
    python benchmarks/cost.py --everyday [--questions 8]
    python benchmarks/cost.py --sweep [--catalogs DIR]

Prints, per provider and way of offering tools, what a task takes: the requests until a found tool is called, input
tokens, those of tool definitions, the share of input read from the prompt cache after the second question, and the
price in units of one uncached input token (a read costs 0.1, a write 1.25 at Anthropic and 1 at OpenAI, an output
token 5). Each question of a task needs another tool, which it names. `--everyday` asks the requests of
`data/everyday_requests.json` instead, over their tools, with the tools that the user's words load (prefetch) beside;
who has to search knows the name of the tool, so only what is loaded before it depends on the words. `--sweep` prints
what `enabled="auto"` costs as a share of offering all tools, for catalogues of 5 to 10,000 tools and models whose
prices of cached tokens differ, by the price table.

DIR holds `tools/list` answers of MCP servers as JSON, one file each; without it tools are made up. Rules and caches
are simulated: tests/simulator. Ways that send every definition with every request are measured on the first tasks
alone, the rest counted as the last of these. pydantic-ai stands beside where it is installed, with the extras
"anthropic" and "openai" of pydantic-ai-slim.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.pop(0)  # this folder: its file names would hide packages
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.search_everyday import load_requests, load_tools
from mcpagent import Agent, ToolSearch
from mcpagent.history.conversation import Conversation
from mcpagent.models import AnthropicModel, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.capabilities import APPENDING, KEEPING, Capabilities
from mcpagent.models.http_model import HttpModel
from mcpagent.models.prices import dollars_for
from mcpagent.run.validation import argument_problem
from mcpagent.tool_search.catalog import Catalog, Listing
from mcpagent.tool_search.search_options import definition_tokens
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.values.messages import ToolDefinition, Usage
from mcpagent.values.tools import Tool, ToolOutput
from tests.simulator.server import Simulator
from tests.simulator.values import PROVIDER_SEARCH, Counted, Said, View

INSTRUCTIONS = "You are a careful assistant. " * 60
OUTPUT_PRICE = 5.0
READ_PRICE = 0.1


@dataclass(frozen=True)
class Way:
    """One way of offering tools. `steps` are what the model does before it calls."""

    name: str
    search: ToolSearch | None
    steps: tuple[str, ...] = ()
    grows_tools: bool = False
    measured_tasks: int | None = None
    peer: bool = False
    in_words: bool = False
    """It searches for what was asked, in the user's words, and by the tool's name only if that does not show it."""


ADD = ("search_tools", "add_tool")
WAYS = (
    Way("all tools offered", None, measured_tasks=2),
    Way("found tools at the end of `tools`", ToolSearch(), ADD, grows_tools=True),
    Way("search, add_tool, call", ToolSearch(), ADD),
    Way(
        'search with load="search", call', ToolSearch(load="search"), ("search_tools",)
    ),
    Way("search, call at once", ToolSearch(), ("search_tools",)),
    Way(
        "the provider searches",
        ToolSearch(execution="provider"),
        (PROVIDER_SEARCH,),
        measured_tasks=3,
    ),
    Way(
        "pydantic-ai, its search", None, ("search_tools",), measured_tasks=3, peer=True
    ),
)

EVERYDAY_WAYS = (
    *(way for way in WAYS if way.search == ToolSearch() and not way.grows_tools),
    *(
        Way(f"prefetch={count}; else {way.name}", ToolSearch(prefetch=count), way.steps)
        for way in WAYS
        if way.search == ToolSearch() and not way.grows_tools
        for count in (1, 2, 3)
    ),
    Way(
        'load="search", in the user\'s words',
        ToolSearch(load="search"),
        ("search_tools",),
        in_words=True,
    ),
)


@dataclass(frozen=True)
class Provider:
    """A simulated provider: how its model is made, by address and whether found tools grow `tools`, if they may."""

    name: str
    make: Callable[[str, bool], HttpModel]
    write_price: float
    searches: bool = True
    may_grow: bool = True


def _anthropic(url: str, grows: bool) -> HttpModel:
    # Models from Opus 4.8 on refuse thoughts whose prefix changed, so growing `tools` is only possible before.
    return AnthropicModel(
        "claude-sonnet-4-6",
        api_key="k",
        base_url=url,
        capabilities=APPENDING if grows else None,
    )


def _newest(url: str, _grows: bool) -> HttpModel:
    return AnthropicModel("claude-sonnet-5-5", api_key="k", base_url=url)


def _openai(url: str, grows: bool) -> HttpModel:
    can = (
        APPENDING
        if grows
        else Capabilities("additional_tools", allowed_tools=True, searches=True)
    )
    return OpenAIResponsesModel(
        "m", api_key="k", base_url=f"{url}/v1", capabilities=can
    )


def _older(url: str, grows: bool) -> HttpModel:
    can = APPENDING if grows else KEEPING
    return OpenAIResponsesModel(
        "m", api_key="k", base_url=f"{url}/v1", capabilities=can
    )


def _chat(url: str, grows: bool) -> HttpModel:
    can = APPENDING if grows else Capabilities("call_tool")
    return OpenAIChatModel(
        "m", base_url=f"{url}/v1", provider="openai-chat", capabilities=can
    )


PROVIDERS = (
    Provider("Anthropic Messages", _anthropic, 1.25),
    Provider("Anthropic Messages, tool changes", _newest, 1.25, may_grow=False),
    Provider("OpenAI Responses", _openai, 1.0),
    Provider("OpenAI Responses, older models (call_tool)", _older, 1.0, searches=False),
    Provider("Chat Completions (call_tool)", _chat, 1.0, searches=False),
)


class Worker:
    """A model that does what is asked: finds the tool, adds it where it must, calls it, answers.

    `wanted` tells which tool a question is about; `in_words` that its first search is the question.
    """

    def __init__(
        self, steps: Sequence[str], work: Job, *, in_words: bool = False
    ) -> None:
        self._steps = steps
        self._in_words = in_words
        self._arguments = work.arguments
        self._wanted = work.wanted

    def __call__(self, view: View) -> Sequence[Said]:
        question, since = _asked(view, self._wanted)
        name = self._wanted[question]
        if any("the result of" in text for text in since):
            return ["Done."]
        if any(name in _loaded(text) for text in view.texts):
            return [self._call(name, view)]
        done = bool(since) + any(
            "Added tools" in text or "Already" in text for text in since
        )
        # Without search tools, because all tools are offered, there is nothing to do before the call.
        steps = [
            step
            for step in self._steps
            if step == PROVIDER_SEARCH or step in view.shown
        ]
        if any(
            text.startswith("Found for what is asked next")
            and f'"name": "{name}"' in text
            for text in view.texts
        ):
            steps = [step for step in steps if step != "search_tools"]
        call = self._call(name, view)
        if self._in_words and not any(f'"name": "{name}"' in text for text in since):
            return [("search_tools", {"query": name if since else question})]
        match steps[done:]:
            case ["search_tools", *_]:
                return [("search_tools", {"query": name})]
            case ["add_tool", *_]:
                return [("add_tool", {"tool_names": [name]})]
            case [provider_search]:
                return [(provider_search, {"query": name}), call]
            case _:
                return [call]

    def _call(self, name: str, view: View) -> tuple[str, dict[str, Any]]:
        if "call_tool" in view.shown and name not in view.shown:
            return "call_tool", {"tool_name": name, "arguments": self._arguments[name]}
        return name, self._arguments[name]


def _loaded(text: str) -> list[str]:
    """The tools that a line says were loaded before the model was asked."""
    _, is_that, names = text.partition("Loaded for what is asked next: ")
    return names.partition(". ")[0].split(", ") if is_that else []


def _asked(view: View, wanted: Mapping[str, str]) -> tuple[str, Sequence[str]]:
    """The last question, and all that was said since.

    A question stands at the end of its text: a provider that wants one message of a user is given a note before it.
    """
    questions = [text.rpartition("\n\n")[2] for text in view.texts]
    place = max(place for place, question in enumerate(questions) if question in wanted)
    return questions[place], view.texts[place + 1 :]


def catalogue(folder: Path | None, count: int) -> list[ToolDefinition]:
    """Tools of real servers, or made-up ones where there are none or too few; their names are all different."""
    found = list(_recorded(folder)) if folder is not None and folder.is_dir() else []
    if len(found) < count:
        found += [_made_up(number) for number in range(count - len(found))]
    return [found[place * len(found) // count] for place in range(count)]


def _recorded(folder: Path) -> Iterator[ToolDefinition]:
    for path in sorted(folder.glob("*.json")):
        for number, tool in enumerate(
            json.loads(path.read_text(encoding="utf-8"))["tools"]
        ):
            name = (
                f"{path.stem}_{number}_{tool['name']}"[:64]
                .replace(".", "_")
                .replace("/", "_")
            )
            yield ToolDefinition(
                name,
                tool.get("description") or "",
                tool["inputSchema"],
                server=path.stem,
                original_name=name,
            )


def _made_up(number: int) -> ToolDefinition:
    properties = {
        f"p{place}": {"type": "string", "description": "What it is. " * 6}
        for place in range(4)
    }
    schema = {"type": "object", "properties": properties}
    name = f"tool_{number}"
    return ToolDefinition(
        name,
        f"Does thing {number}. " * 8,
        schema,
        server=f"s{number % 40}",
        original_name=name,
    )


def fitting_arguments(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Arguments that validate, where simple ones do."""
    samples: dict[str, Any] = {
        "string": "x",
        "integer": 1,
        "number": 1,
        "boolean": True,
        "array": [],
        "object": {},
    }
    properties = schema.get("properties") or {}
    given = {
        name: samples.get(str(properties.get(name, {}).get("type")), "x")
        for name in schema.get("required") or ()
    }
    return None if argument_problem(schema, given) else given


async def _result(_arguments: dict[str, Any]) -> ToolOutput:
    return ToolOutput.of_text("the result of the call: " + "some data. " * 40)


@dataclass(frozen=True)
class Job:
    """Tools, and tasks as lists of questions."""

    tools: Sequence[ToolDefinition]
    tasks: Sequence[Sequence[str]]
    arguments: dict[str, Any]
    wanted: Mapping[str, str]
    """The tool that each question is about."""


def job(tools: Sequence[ToolDefinition], tasks: int, questions: int) -> Job:
    arguments = {tool.name: fitting_arguments(tool.parameters) for tool in tools}
    usable = [name for name, given in arguments.items() if given is not None]
    asked = [
        usable[place * len(usable) // (tasks * questions)]
        for place in range(tasks * questions)
    ]
    texts = [f"Use {name}" for name in asked]
    wanted = dict(zip(texts, asked, strict=True))
    return Job(
        tools, [texts[place::tasks] for place in range(tasks)], arguments, wanted
    )


def everyday_job(questions: int) -> Job:
    """The everyday requests with one need, in an order that mixes servers; of the tools that meet it the first."""
    own = {f"{tool.server}.{tool.original_name}": tool for tool in load_tools()}
    arguments = {tool.name: fitting_arguments(tool.parameters) for tool in own.values()}
    met = {
        request.text: own[min(request.needs[0])].name
        for request in load_requests()
        if len(request.needs) == 1
        and arguments[own[min(request.needs[0])].name] is not None
    }
    texts = sorted(met, key=lambda text: hashlib.sha256(text.encode()).digest())
    tasks = len(texts) // questions
    return Job(
        list(own.values()),
        [texts[place::tasks][:questions] for place in range(tasks)],
        arguments,
        met,
    )


@dataclass(frozen=True)
class TaskCost:
    """One task's requests; `later` are those after its second question."""

    requests: Sequence[Counted]
    later: Sequence[Counted]

    def price(self, write_price: float) -> float:
        return sum(
            count.total
            - count.read
            - count.written
            + READ_PRICE * count.read
            + write_price * count.written
            + OUTPUT_PRICE * count.output
            for count in self.requests
        )


async def run(provider: Provider, way: Way, work: Job) -> list[TaskCost]:
    """What each task took, in order; the cache is cold before the first."""
    async with Simulator(Worker(way.steps, work, in_words=way.in_words)) as simulator:
        costs: list[TaskCost] = []
        model = provider.make(simulator.url, way.grows_tools)
        options: dict[str, Any] = {"tool_search": way.search} if way.search else {}
        bound = [Tool(tool, _result) for tool in work.tools]
        async with Agent(
            model, tools=bound, instructions=INSTRUCTIONS, **options
        ) as agent:
            for task in work.tasks[: way.measured_tasks]:
                agent.new_conversation()
                costs.append(await _one_task(simulator, task, agent.ask))
        await model.aclose()
    _must_be_fine(simulator, f"{provider.name}, {way.name}")
    return costs


async def run_peer(provider: Provider, way: Way, work: Job) -> list[TaskCost]:
    """The same tasks with pydantic-ai's own agent, its tools deferred and its own choice of search."""
    from pydantic_ai import Agent as PeerAgent
    from pydantic_ai import FunctionToolset
    from pydantic_ai import Tool as PeerTool

    async def result(**_arguments: Any) -> str:
        return (await _result({})).content[0].text  # type: ignore[union-attr]

    bound = [
        PeerTool.from_schema(
            result,
            name=tool.name,
            description=tool.description,
            json_schema=tool.parameters,
        )
        for tool in work.tools
    ]
    for tool in bound:
        tool.defer_loading, tool.strict = True, False
    async with Simulator(PeerWorker(work)) as simulator:
        agent = PeerAgent(
            _peer_model(provider.name, simulator.url),
            instructions=INSTRUCTIONS,
            toolsets=[FunctionToolset(bound)],
        )
        costs: list[TaskCost] = []
        for task in work.tasks[: way.measured_tasks]:
            messages: list[Any] = []

            async def ask(question: str, messages: list[Any] = messages) -> str:
                answer = await agent.run(question, message_history=messages)
                messages[:] = answer.all_messages()
                return str(answer.output)

            costs.append(await _one_task(simulator, task, ask))
    _must_be_fine(simulator, f"{provider.name}, pydantic-ai")
    return costs


class PeerWorker:
    """As `Worker`, with whichever search the peer offers: its own function, or the provider's."""

    def __init__(self, work: Job) -> None:
        self._arguments = work.arguments
        self._wanted = work.wanted

    def __call__(self, view: View) -> Sequence[Said]:
        question, since = _asked(view, self._wanted)
        name = self._wanted[question]
        if any("the result of" in text for text in since):
            return ["Done."]
        if name in view.shown or since:
            return [(name, self._arguments[name])]
        if "search_tools" in view.shown:
            return [("search_tools", {"queries": [name]})]
        return [(PROVIDER_SEARCH, {"query": name}), (name, self._arguments[name])]


def _peer_model(provider: str, url: str) -> Any:
    if provider.startswith("Anthropic"):
        from pydantic_ai.models.anthropic import AnthropicModel as PeerAnthropic
        from pydantic_ai.models.anthropic import AnthropicModelSettings
        from pydantic_ai.providers.anthropic import AnthropicProvider

        settings = AnthropicModelSettings(
            anthropic_cache=True, anthropic_cache_instructions=True
        )
        return PeerAnthropic(
            "claude-sonnet-4-6",
            provider=AnthropicProvider(api_key="k", base_url=url),
            settings=settings,
        )
    from pydantic_ai.models.openai import OpenAIChatModel as PeerChat
    from pydantic_ai.models.openai import OpenAIResponsesModel as PeerResponses
    from pydantic_ai.providers.openai import OpenAIProvider

    at = OpenAIProvider(api_key="k", base_url=f"{url}/v1")
    return (
        PeerResponses("gpt-5.4", provider=at)
        if provider.startswith("OpenAI")
        else PeerChat("m", provider=at)
    )


async def _one_task(
    simulator: Simulator, task: Sequence[str], ask: Callable[[str], Any]
) -> TaskCost:
    before = len(simulator.log.counted)
    after_second = before
    for number, question in enumerate(task, 1):
        await ask(question)
        if number <= 2:
            after_second = len(simulator.log.counted)
    return TaskCost(
        simulator.log.counted[before:], simulator.log.counted[after_second:]
    )


def _must_be_fine(simulator: Simulator, what: str) -> None:
    if simulator.log.refused:
        raise SystemExit(f"{what}: refused: {simulator.log.refused[0].message}")


def extended(costs: Sequence[TaskCost], tasks: int) -> list[TaskCost]:
    """The costs of all tasks, where only the first ones were measured."""
    return [*costs, *(costs[-1] for _ in range(tasks - len(costs)))]


def report(
    provider: Provider, way: Way, costs: Sequence[TaskCost], questions: int
) -> str:
    tasks = len(costs)
    requests = [count for cost in costs for count in cost.requests]
    later = [count for cost in costs for count in cost.later]
    to_call = len(requests) / tasks / questions - 1
    share = sum(count.read for count in later) / max(
        sum(count.total for count in later), 1
    )
    return (
        f"| {way.name} | {to_call:.1f} | {sum(count.total for count in requests) / tasks:,.0f} "
        f"| {sum(count.definitions for count in requests) / tasks:,.0f} | {share:.1%} "
        f"| {sum(cost.price(provider.write_price) for cost in costs) / tasks:,.0f} |"
    )


async def compare_ways(work: Job, ways: Sequence[Way]) -> None:
    tasks, questions = len(work.tasks), len(work.tasks[0])
    print(f"{len(work.tools):,} tools, {tasks} tasks of {questions} questions\n")
    for provider in PROVIDERS:
        print(f"{provider.name}\n")
        print(
            "| way | requests to a call | input tokens | of definitions | read from cache | price |"
        )
        print("|---|---|---|---|---|---|")
        for way in ways:
            if PROVIDER_SEARCH in way.steps and not provider.searches:
                continue
            if (way.peer and find_spec("pydantic_ai") is None) or (
                way.grows_tools and not provider.may_grow
            ):
                continue
            costs = await (
                run_peer(provider, way, work) if way.peer else run(provider, way, work)
            )
            print(report(provider, way, extended(costs, tasks), questions), flush=True)
        print()


SIZES = (
    5,
    20,
    30,
    40,
    45,
    50,
    55,
    60,
    70,
    80,
    90,
    100,
    120,
    140,
    170,
    200,
    250,
    300,
    1_000,
    1_220,
    10_000,
)

PRICED = (
    # in order of what a cached token costs: as much as one that is not, 0.5, 0.1, 0.05 and 0.025 of it
    Provider("gpt-4-turbo", lambda url, _grows: _responses("gpt-4-turbo", url), 1.0),
    Provider("gpt-4o", lambda url, _grows: _responses("gpt-4o", url), 1.0),
    Provider("gpt-5.5", lambda url, _grows: _responses("gpt-5.5", url), 1.0),
    Provider(
        "claude-sonnet-4-6",
        lambda url, _grows: _messages("claude-sonnet-4-6", url),
        1.25,
    ),
    Provider(
        "claude-sonnet-5-5",
        lambda url, _grows: _messages("claude-sonnet-5-5", url),
        1.25,
    ),
    Provider(
        "claude-fable-5-2", lambda url, _grows: _messages("claude-fable-5-2", url), 1.25
    ),
    # where found tools are written at the end of `tools`, at 0.1, 0.02 and below 0.01
    Provider(
        "gemini-2.5-flash",
        lambda url, _grows: _completions("gemini", "gemini-2.5-flash", url),
        1.0,
    ),
    Provider(
        "deepseek-v4.1-flash",
        lambda url, _grows: _completions(
            "openrouter", "deepseek/deepseek-v4.1-flash", url
        ),
        1.0,
    ),
    Provider(
        "mimo-v2.5-pro",
        lambda url, _grows: _completions("openrouter", "xiaomi/mimo-v2.5-pro", url),
        1.0,
    ),
)
"""Models as `--sweep` compares them; each is priced as the table says."""


def _responses(name: str, url: str) -> HttpModel:
    can = Capabilities("additional_tools", allowed_tools=True)
    return OpenAIResponsesModel(
        name, api_key="k", base_url=f"{url}/v1", capabilities=can
    )


def _completions(provider: str, name: str, url: str) -> HttpModel:
    return OpenAIChatModel(name, api_key="k", base_url=f"{url}/v1", provider=provider)


def _messages(name: str, url: str) -> HttpModel:
    return AnthropicModel(name, api_key="k", base_url=url)


AUTO = Way("auto", ToolSearch(enabled="auto"), ADD)
AUTO_LOADING = Way(
    "auto, searches load", ToolSearch(enabled="auto", load="search"), ("search_tools",)
)


def searches(
    provider: Provider, tools: Sequence[ToolDefinition], way: Way = AUTO
) -> bool:
    """Whether `enabled="auto"` hides these tools from this model."""
    bound = [Tool(tool, _result) for tool in tools]
    model = provider.make("http://localhost", False)
    catalog = Catalog(Listing(tuple(bound)), way.search or ToolSearch(enabled=False))
    return SessionTools(
        catalog, Conversation(), search_cost=model.search_cost
    ).searching


async def share_of_all(
    provider: Provider,
    tools: Sequence[ToolDefinition],
    questions: int,
    way: Way = AUTO,
) -> float:
    """The price of "auto" as a share of offering all: of a second task, whose cache is warm, the best case for all."""
    work = job(tools, 2, questions)
    ours, theirs = await run(provider, way, work), await run(provider, WAYS[0], work)
    return dollars(provider, ours[1]) / dollars(provider, theirs[1])


def dollars(provider: Provider, cost: TaskCost) -> float:
    model = provider.make("http://localhost", False)
    used = [
        Usage(count.total, count.output, count.read, count.written, 1)
        for count in cost.requests
    ]
    prices = (
        dollars_for(usage, model.provider, model.model_name, "") for usage in used
    )
    return sum(price for price in prices if price is not None)


async def sweep(folder: Path | None) -> None:
    """Where "auto" offers all tools the price is the same; elsewhere the dearer of short and of long tasks counts."""
    print(
        "| tools | tokens of definitions | "
        + " | ".join(provider.name for provider in PRICED)
        + " |"
    )
    print("|---|---|" + "---|" * len(PRICED))
    dearest = 0.0
    for size in SIZES:
        tools = catalogue(folder, size)
        shares: list[str] = []
        for provider in PRICED:
            if not searches(provider, tools):
                shares.append("all offered")
                continue
            share = max(
                [
                    await share_of_all(provider, tools, number)
                    for number in ((1, 8) if size <= 300 else (1,))
                ]
            )
            dearest = max(dearest, share)
            shares.append(f"{share:.0%}" if share >= 0.01 else "below 1%")
        tokens = sum(definition_tokens(tool) for tool in tools)
        print(f"| {size:,} | {tokens:,} | {' | '.join(shares)} |", flush=True)
    print(f"\nthe dearest: {dearest:.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--catalogs", type=Path, help="folder of tools/list answers")
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--questions", type=int, default=8)
    parser.add_argument("--tools", type=int, default=1_220)
    parser.add_argument(
        "--everyday",
        action="store_true",
        help="requests in a user's words, with prefetch beside",
    )
    parser.add_argument(
        "--sweep",
        action="store_true",
        help="compare auto with offering all tools, by number of tools",
    )
    chosen = parser.parse_args()
    if chosen.sweep:
        asyncio.run(sweep(chosen.catalogs))
    elif chosen.everyday:
        asyncio.run(compare_ways(everyday_job(chosen.questions), EVERYDAY_WAYS))
    else:
        work = job(
            catalogue(chosen.catalogs, chosen.tools), chosen.tasks, chosen.questions
        )
        asyncio.run(compare_ways(work, WAYS))


if __name__ == "__main__":
    main()
