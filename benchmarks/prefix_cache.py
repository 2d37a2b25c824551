"""How much of each request a provider's prompt cache has, with the defaults of every endpoint.

    python -m benchmarks.prefix_cache [--tools 300 1220] [--questions 6] [--search always auto] [--peer] [--json]

One conversation of six questions, each about another tool, with every endpoint as its prefix alone makes it: no option
is set. `always` hides every tool, `auto` is the terminal's default, which loads likely tools with a question.
The providers are simulated (`tests/simulator`), so nothing leaves the machine. Prints for each endpoint how found tools
are written, requests, input tokens, the share of input read from the cache after the second question, and how many
requests rewrote the beginning of the one before. Ends with 1 if a share is below 90 % or more than three beginnings
were rewritten.

With `--peer` the questions are asked with pydantic-ai too, if it is installed (pydantic-ai-slim[anthropic,openai]), and
the input tokens are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.cost import (
    ADD,
    INSTRUCTIONS,
    PROVIDERS,
    WAYS,
    Job,
    TaskCost,
    Worker,
    catalogue,
    job,
    run_peer,
)
from mcpagent import Agent, ToolSearch
from mcpagent.models import resolve_model
from mcpagent.models.endpoints.model_identity import OWN_SERVERS
from mcpagent.models.http_model import HttpModel
from mcpagent.values.tools import Tool, ToolOutput
from tests.simulator.clouds import ANYWHERE, CloudTransport
from tests.simulator.server import PROTOCOLS
from tests.simulator.values import Counted

LEAST_SHARE, MOST_BREAKS = 0.9, 3

OWN_WINDOW = 32_768
"""The window that a server on this machine reports: with its usual 4,096 tokens nothing of this fits."""

SEARCHES = {"always": ToolSearch(), "auto": ToolSearch(enabled="auto")}

ENDPOINTS = (
    "anthropic:claude-opus-5-5",
    "anthropic:claude-sonnet-5-5",
    "anthropic:claude-sonnet-4-6",
    "anthropic:claude-haiku-4-5",
    "anthropic:claude-opus-4-1",
    "anthropic:claude-3-5-haiku-20241022",
    "openai:gpt-5.5",
    "openai:gpt-5",
    "openai:gpt-4o",
    "openai:o3",
    "openai-chat:gpt-5.5",
    "azure:gpt-5.5",
    "gemini:gemini-3-flash-preview",
    "google:gemini-2.5-flash",
    "deepseek:deepseek-chat",
    "groq:openai/gpt-oss-120b",
    "groq:llama-3.3-70b-versatile",
    "mistral:mistral-large-latest",
    "xai:grok-4",
    "openrouter:openrouter/auto",
    "openrouter:anthropic/claude-sonnet-4.5",
    "openrouter:deepseek/deepseek-v4.1-flash",
    "together:meta-llama/Llama-4-Maverick",
    "fireworks:accounts/fireworks/models/kimi-k2",
    "cerebras:qwen-3-235b",
    "moonshot:kimi-k2",
    "zai:glm-4.7",
    "huggingface:Qwen/Qwen3-32B",
    "cohere:command-a",
    "openai-chat:unheard-of?base_url=https://gateway.example/v1",
    "openai-chat:claude-opus-4-5?base_url=https://gateway.example/v1",
    "openai:gpt-5.5?base_url=https://gateway.example/v1",
    "ollama:qwen3:32b",
    "ollama:qwen3:1.7b",
    "llamacpp:qwen3-32b",
    "lmstudio:qwen3-32b",
    "vllm:qwen3-32b",
)

KEYS = {
    "ANTHROPIC_API_KEY": "k",
    "AZURE_OPENAI_API_KEY": "k",
    "CEREBRAS_API_KEY": "k",
    "COHERE_API_KEY": "k",
    "DEEPSEEK_API_KEY": "k",
    "FIREWORKS_API_KEY": "k",
    "GEMINI_API_KEY": "k",
    "GOOGLE_API_KEY": "k",
    "GROQ_API_KEY": "k",
    "MISTRAL_API_KEY": "k",
    "MOONSHOT_API_KEY": "k",
    "OPENAI_API_KEY": "k",
    "OPENROUTER_API_KEY": "k",
    "TOGETHER_API_KEY": "k",
    "XAI_API_KEY": "k",
    "ZAI_API_KEY": "k",
    "HF_TOKEN": "k",
    "AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One endpoint's conversation."""

    endpoint: str
    discovery: str
    tools: int
    requests: int
    input_tokens: int
    cached_share: float
    breaks: int

    @property
    def is_held(self) -> bool:
        """Whether the share and the number of rewritten beginnings are within their limits."""
        return self.cached_share >= LEAST_SHARE and self.breaks <= MOST_BREAKS

    def __str__(self) -> str:
        wrong = "" if self.is_held else "  NOT HELD"
        return (
            f"| {self.endpoint} | {self.discovery} | {self.requests} | {self.input_tokens:,} "
            f"| {self.cached_share:.1%} | {self.breaks} |{wrong}"
        )


async def measured(spec: str, work: Job, search: ToolSearch, folder: Path) -> Figure:
    """Return the figure of one endpoint; raises SystemExit if a request is refused."""
    transport = CloudTransport(ANYWHERE, Worker(ADD, work))
    environ = {**KEYS, "XDG_CACHE_HOME": str(folder)}
    model = resolve_model(spec, environ=environ, http_client=transport.http_client)
    assert isinstance(model, HttpModel)
    if model.provider in OWN_SERVERS:
        model.learn(window_tokens=OWN_WINDOW)
    log = transport.behind.log
    second = 0
    tools = [Tool(tool, _result) for tool in work.tools]
    options: dict[str, Any] = {"tools": tools, "tool_search": search}
    async with Agent(model, instructions=INSTRUCTIONS, **options) as agent:
        for number, question in enumerate(work.tasks[0], 1):
            await agent.ask(question)
            if number == 2:
                second = len(log.counted)
    if transport.refused:
        raise SystemExit(f"{spec}: refused: {transport.refused[0].message}")
    later = log.counted[second:]
    share = _share(later)
    return Figure(
        spec,
        model.able.discovery,
        len(work.tools),
        len(log.counted),
        sum(count.total for count in log.counted),
        share,
        breaks(transport),
    )


def _share(counted: Sequence[Counted]) -> float:
    return sum(count.read for count in counted) / sum(count.total for count in counted)


def breaks(transport: CloudTransport) -> int:
    """Return how many requests did not begin with the whole one before."""
    rendered = [
        [unit.text for unit in PROTOCOLS[path].units(body)]
        for path, body in zip(transport.paths, transport.behind.log.bodies, strict=True)
    ]
    broken = 0
    for before, after in pairwise(rendered):
        if after[: len(before)] != before:
            broken += 1
    return broken


async def _result(_arguments: dict[str, Any]) -> ToolOutput:
    return ToolOutput.of_text("the result of the call: " + "some data. " * 40)


async def peers(work: Job) -> dict[str, int]:
    """Return the input tokens of the same questions with pydantic-ai, by simulated API."""
    way = replace(next(way for way in WAYS if way.peer), measured_tasks=1)
    found: dict[str, int] = {}
    for provider in PROVIDERS:
        costs: list[TaskCost] = await run_peer(provider, way, work)
        found[provider.name] = sum(count.total for count in costs[0].requests)
    return found


async def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tools", type=int, nargs="+", default=[300, 1_220])
    parser.add_argument("--questions", type=int, default=6)
    parser.add_argument("--search", nargs="+", default=list(SEARCHES))
    parser.add_argument("--only", nargs="+", default=list(ENDPOINTS))
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with TemporaryDirectory() as folder:
        return await compared(chosen, Path(folder))


async def compared(chosen: argparse.Namespace, folder: Path) -> int:
    """Print the figures; returns the exit code."""
    figures: list[Figure] = []
    beside: dict[str, Mapping[str, int]] = {}
    for count, way in product(chosen.tools, chosen.search):
        work = job(catalogue(None, count), 1, chosen.questions)
        if not chosen.json:
            print(f"\n{count:,} tools, {chosen.questions} questions, {way}\n")
            print(
                "| endpoint | found tools | requests | input tokens | cached | rewritten |"
            )
            print("|---|---|---|---|---|---|")
        for spec in chosen.only:
            figures.append(await measured(spec, work, SEARCHES[way], folder))
            if not chosen.json:
                print(figures[-1], flush=True)
        if chosen.peer and str(count) not in beside and find_spec("pydantic_ai"):
            beside[str(count)] = await peers(work)
            for name, tokens in beside[str(count)].items():
                print(f"pydantic-ai, {name}: {tokens:,} input tokens")
    if chosen.json:
        print(
            json.dumps({"figures": [asdict(one) for one in figures], "peers": beside})
        )
    return int(not all(figure.is_held for figure in figures))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
