"""Large results, answers as data, calls that wait, tool search and compaction in one conversation, at each provider."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, Compaction, Recorder, Replay, RunOptions, Sessions, ToolSearch, function_tool
from mcpagent.models import FallbackModel
from mcpagent.values.events import ConversationCompacted, Event
from tests.models.output_modes.test_structured_output import MODELS
from tests.run.compaction.windowed import SUMMARISE
from tests.run.output.held import filled
from tests.run.output.used_types import City
from tests.simulator.server import Fault, Simulator
from tests.simulator.values import Said, View

WINDOW = 7_000
ROME: dict[str, Any] = {"name": "Rome", "people": 5}
DOWN: Fault = (529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, {})


def read_page(page: str) -> str:
    """Reads a page of a book."""
    return f"Page {page}. " + "\n".join(f"line {number} goes on" for number in range(2_000))


def called(view: View, name: str, arguments: dict[str, Any]) -> Said:
    """By its name, or by that of the one tool that calls others."""
    return (name, arguments) if name in view.shown else ("call_tool", {"tool_name": name, "arguments": arguments})


def brain(view: View) -> Sequence[Said]:
    """Finds the tool, reads a page for each question, searches in it, and answers in the form that is wanted."""
    if any(SUMMARISE in text for text in view.texts[-2:]):
        return ["The user has pages of a book read. " * 4]
    asked = max(place for place, text in enumerate(view.texts) if text.startswith("Read page"))
    number, after = view.texts[asked].split()[2], view.texts[asked + 1 :]
    handle = next((text.split()[3].rstrip(",") for text in after if text.startswith("[Set aside as")), "")
    if not view.must_answer and not any("line 1234" in text for text in after):
        if handle:
            return [called(view, "search_large_output", {"handle": handle, "words": "line 1234"})]
        if "read_page" in view.shown or ("call_tool" in view.shown and "read_page" in str(view.texts)):
            return [called(view, "read_page", {"page": number})]
        return [("add_tool", {"tool_names": ["read_page"]})]
    is_bad = int(number) % 3 == 0 and not any("is not valid" in text for text in after)
    document = {"name": "", "people": 5} if is_bad else ROME
    if "submit_answer" in view.shown:
        return [("submit_answer", filled(document, view.shown["submit_answer"], view.shown["submit_answer"]))]
    return [json.dumps(filled(document, view.output, view.output) if view.output is not None else document)]


def is_fifth(_run: object, _tool: object, arguments: dict[str, Any]) -> bool:
    return str(arguments.get("page", "")).endswith("5")


async def read(agent: Agent[Any], session: Any, page: int) -> None:
    """A question whose answer is data; some of its calls wait for a yes, and the answer is streamed then."""
    async with session.stream(f"Read page {page} to me.", output_type=City) as stream:
        async for _ in stream:
            pass
    if session.pending:
        answers = [call.approve() for call in session.pending]
        assert await session.resume(answers, output_type=City) == City(**ROME)
    else:
        assert stream.output == City(**ROME)
    assert not session.pending


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claude", "old claude that thinks", "responses", "old chat", "deepseek", "gemini"])
async def test_it_goes_on_at_each_provider_in_another_process_and_in_a_replay(name: str, tmp_path: Path) -> None:
    events: list[Event] = []
    store, path = Sessions(tmp_path / "s.db"), tmp_path / "run.jsonl"
    tools = [function_tool(read_page, approval=is_fifth)]
    options: dict[str, Any] = {
        "tool_search": ToolSearch(enabled=True, scope="all"),
        "on_event": events.append,
    }
    limited = RunOptions(large_result_tokens=1_000, compaction=Compaction(window_tokens=WINDOW))
    async with Simulator(brain, window_tokens=WINDOW, faults=[DOWN]) as simulator:
        for begin in (0, 8):
            chain = FallbackModel([MODELS["old chat"][0](simulator.url), MODELS[name][0](simulator.url)])
            model = chain if begin == 0 else MODELS[name][0](simulator.url)
            wrappers = [Recorder(path)] if begin == 0 else []
            async with Agent(
                model, tools=tools, sessions=store, options=replace(limited, wrappers=wrappers), **options
            ) as agent:
                session = agent.session("one")
                for page in range(begin, begin + 8):
                    await read(agent, session, page)
                sent, spent = session.sent_messages, session.spent
        assert [refusal.message for refusal in simulator.log.refused] == []
        assert max(count.total for count in simulator.log.counted) <= WINDOW
    assert any(event.summarised for event in events if isinstance(event, ConversationCompacted))
    assert len(sent) < len(session.messages) * 0.8
    assert spent.usage.requests > 40
    async with Agent(
        options=replace(limited, wrappers=[Replay(path)]), tools=tools, **{**options, "on_event": None}
    ) as agent:
        session = agent.session()
        for page in range(8):
            await read(agent, session, page)
