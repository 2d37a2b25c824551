"""What could keep a conversation too long for good: pinned messages, old questions, and all of it together."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mcpagent import Agent, ModelSettings, RunOptions, Session
from mcpagent.errors import ContextOverflowError, InputError, LimitError, ModelError, OutputError
from mcpagent.history.token_estimates import text_tokens
from mcpagent.models import ModelRequest
from mcpagent.models.scripted import Answer
from mcpagent.run.compaction.summarising import cleaned
from mcpagent.values.limits.run_limits import Limits
from mcpagent.values.messages import Compacted, Message, Pinned, ToolCall
from tests.run.compaction.windowed import WindowedModel, asks_then_tells, is_paired
from tests.tables import each_row


def read_all(name: str) -> str:
    """Reads all."""
    return f"About {name}: {'word after word and number 7 ' * 60}"


async def test_pinning_an_old_message_leaves_the_conversation_as_short_as_it_was() -> None:
    model = WindowedModel(asks_then_tells, 4_000)
    async with Agent(model, tools=[read_all]) as agent:
        session = agent.session()
        for number in range(30):
            await session.ask(f"Question {number}")
        before = session.sent_messages
        assert len(before) < len(session.messages) / 2
        session.pin(0)
        assert session.sent_messages == before
        await session.ask("Next")
        while "Question 0" not in [message.text for message in session.sent_messages]:
            await session.ask("Next")  # it is back with the next summary
    assert model.refused == 0


async def test_what_is_pinned_alone_where_it_said_nothing_to_the_model_is_not_sent() -> None:
    model = WindowedModel(asks_then_tells, 4_000)
    async with Agent(model, tools=[read_all]) as agent:
        session = agent.session()
        for number in range(40):
            await session.ask(f"Question {number}")
            for place, message in enumerate(session.messages):
                if all(isinstance(part, Compacted) for part in message.parts):
                    session.pin(place)
    said = [message for request in model.requests for message in request.messages]
    assert not any(all(isinstance(part, Pinned) for part in message.parts) for message in said)


async def test_a_pinned_result_that_alone_is_too_long_is_shortened_when_nothing_else_helps() -> None:
    def get_much() -> str:
        """Gets much."""
        return "much, " * 3_000

    def brain(request: ModelRequest) -> Answer:
        asked = request.messages[-1]
        return ToolCall("", "get_much", {}) if asked.text == "Much" else "So it is."

    model = WindowedModel(brain, 6_000)
    async with Agent(model, tools=[get_much], options=RunOptions(large_result_tokens=0)) as agent:
        session = agent.session()
        for _ in range(3):
            await session.ask("Much")
            place = next(at for at in range(len(session.messages) - 1, -1, -1) if session.messages[at].tool_results)
            session.pin(place)
        assert await session.ask("And now?") == "So it is."
        whole = [result.text for message in session.messages for result in message.tool_results]
        assert whole == ["much, " * 3_000] * 3
        assert all(is_paired(tuple(request.messages)) for request in model.requests)


@each_row("known", [True, False])
async def test_a_question_that_nobody_asks_any_more_is_not_in_the_way_of_the_next_one(known: bool) -> None:
    """It stayed at the last cut since it was being answered, and takes most of the window."""

    def brain(request: ModelRequest) -> Answer:
        if request.messages[-1].text.startswith("Long"):
            return [ToolCall("", "read_all", {"name": str(number)}) for number in range(8)]
        return "Good."

    model = WindowedModel(brain, 4_000, known=known)
    async with Agent(model, tools=[read_all]) as agent:
        session = agent.session()
        with pytest.raises(ContextOverflowError):  # with the results of its calls, however short, it does not fit
            await session.ask("Long: " + "blah " * 3_050)
        assert await session.ask(f"Then: {'what ' * 300}") == "Good."
        assert len(session.messages) > 4


@each_row("thinking, more", [(None, 0), ("off", 0), ("high", 4_000), (2_000, 2_000)])
async def test_a_model_that_thinks_has_room_for_it_before_its_summary(thinking: Any, more: int) -> None:
    def summary(request: ModelRequest) -> Answer:
        limits.append(request.settings.max_output_tokens or 0)
        return "They talked."

    limits: list[int] = []

    model = WindowedModel(asks_then_tells, 24_000, summary=summary)
    options = RunOptions(settings=ModelSettings(thinking=thinking))
    async with Agent(model, tools=[read_all], options=options) as agent:
        session = agent.session()
        for number in range(3):
            await session.ask(f"Question {number}")
        assert await session.compact()
        assert session.left_out.summary == "They talked."
    [limit] = limits
    assert 1_000 + more <= limit <= 6_000 + more


@each_row("words", ["They talked of this and that. ", "他们谈了很多事情。", "Они говорили обо всём. ", "🚀🌕"])
def test_a_summary_is_cut_to_its_tokens_in_every_script(words: str) -> None:
    for tokens in (60, 600):
        cut = cleaned(words * 2_000, tokens)
        assert tokens * 0.9 <= text_tokens(cut) <= tokens * 1.3


def anything(chance: random.Random) -> WindowedModel:
    """A model that says, calls and summarises by chance."""
    made = 0

    def brain(request: ModelRequest) -> Answer:
        nonlocal made
        made += 1
        if request.tool_choice == "none":
            return "It is enough."
        if chance.random() < 0.5:
            sizes = chance.choices([10, 500, 5_000, 60_000], k=chance.randint(1, 3))
            calls = (ToolCall(f"{made}_{at}", "get", {"size": size}) for at, size in enumerate(sizes))
            return Message("assistant", tuple(calls))
        return "answer " * chance.choice([1, 50, 300]) if request.output is None else chance.choice(["[1]", "nothing"])

    def summary(_request: ModelRequest) -> Answer:
        failure = ModelError("test: no", provider="test", status=400)
        answers: list[Answer] = ["They talked. " * 20, "", "sum " * 9_000, ToolCall("", "get", {"size": 5}), failure]
        return chance.choice(answers)

    window, known, per_token = chance.choice([4_000, 8_000]), chance.random() < 0.6, chance.choice([3.3, 5])
    return WindowedModel(brain, window, known=known, summary=summary, per_token=per_token)


async def happens(session: Session[Any], chance: random.Random) -> None:
    """Something that people do between questions."""
    if chance.random() < 0.2 and session.messages:
        session.pin(chance.randrange(len(session.messages)))
    if chance.random() < 0.1:
        session.rewind(chance.randrange(len(session.messages) + 1))
    try:
        again = await session.compact() and await session.compact()
    except (InputError, ModelError):
        again = None
    assert not again


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
async def test_whatever_happens_it_goes_on(seed: int) -> None:
    """It never ends for its length, but where a question alone takes most of the window."""
    chance = random.Random(seed)
    model = anything(chance)

    def get(size: int, number: int = 0) -> str:
        """Gets."""
        return f"data, {number}; " * (size // 8)

    options = RunOptions(large_result_tokens=chance.choice([0, 200, 10_000]), limits=Limits(turns=6))
    async with Agent(model, tools=[get], options=options, with_tool_search_mode=chance.random() < 0.5) as agent:
        session = agent.session()
        for number in range(8):
            size = chance.choice([1, 100, 400, 400, 2_500])
            wanted: Any = list[int] if chance.random() < 0.3 else None
            try:
                await session.ask(f"{number} {'blah ' * size}", output_type=wanted)
            except ContextOverflowError:
                assert size == 2_500
            except (OutputError, LimitError):
                pass
            await happens(session, chance)
            assert is_paired(session.messages)
    assert all(is_paired(tuple(request.messages)) for request in model.requests)
