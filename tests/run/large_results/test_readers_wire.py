"""Readers as each provider is sent them: no rule is broken, no earlier byte changes, and the cache is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from mcpagent import Agent, ToolSearch
from tests.models.test_tool_changes_in_history_agents import MODELS
from tests.run.large_results.test_offloaded_results import get_log, get_small
from tests.simulator.server import Simulator
from tests.simulator.values import Said, View

QUESTIONS = [f"What failed, {number}?" for number in range(6)]


def reads(view: View) -> Sequence[Said]:
    """Takes the log, searches it, and answers; later on it searches what it has."""
    question = next(text for text in reversed(view.texts) if text in QUESTIONS)
    since = view.texts[len(view.texts) - view.texts[::-1].index(question) :]
    if any("the pump of hall 7 failed" in text for text in since):
        return ["Hall 7."]
    handles = [found[0] for text in view.texts if (found := re.search(r"out_[0-9a-f]{12}", text))]
    if not handles:
        return [("get_log", {})]
    arguments = {"handle": handles[-1], "words": "pump failed"}
    if "call_tool" in view.shown:
        return [("call_tool", {"tool_name": "search_large_output", "arguments": arguments})]
    return [("search_large_output", arguments)]


@pytest.mark.slow
@pytest.mark.parametrize("is_searching", [False, True])
@pytest.mark.parametrize("model", list(MODELS))
async def test_six_questions_about_one_log(model: str, is_searching: bool) -> None:
    search: dict[str, Any] = {"tool_search": ToolSearch(), "pre_discovered_tools": ["get_log"]} if is_searching else {}
    async with Simulator(reads) as simulator:
        made = MODELS[model](simulator.url)
        async with Agent(made, tools=[get_log, get_small], instructions="You help. " * 800, **search) as agent:
            for question in QUESTIONS:
                assert await agent.ask(question) == "Hall 7."
        await made.aclose()
    log = simulator.log
    assert log.refused == []
    assert log.blind_calls == []
    assert len(log.bodies) == 3 + 2 * 5
    late = log.counted[2:]
    share = sum(count.read for count in late) / sum(count.total for count in late)
    assert share > 0.85, share
    for before, after in pairwise(log.bodies):
        history = "input" if model == "openai" else "messages"
        assert after[history][: len(before[history])] == before[history]
        assert after["tools"][: len(before["tools"])] == before["tools"]
