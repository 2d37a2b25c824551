"""The request inside a prompt: what is pasted around it is not searched, and where it is unclear nothing is sure."""

from __future__ import annotations

import json
from functools import cache

import pytest
from benchmarks.search_everyday import load_tools
from benchmarks.search_pasted import _TEXTS, places
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent.models.scripted import ScriptedModel
from mcpagent.search import ToolIndex
from mcpagent.search.request_detection import MAX_WORDS, candidates_in, word_count
from tests.scenes import CountedTools, offered, searching_agent
from tests.tables import each_row

TEXTS: dict[str, str] = json.loads(_TEXTS.read_text("utf-8"))["texts"]
NAMES = ("delete_email", "list_dashboards", "create_event", "convert_currency")


@cache
def index() -> ToolIndex:
    """Only searched by tests."""
    made = ToolIndex("bm25")
    made.replace("all", load_tools())
    return made


REQUESTS = ["create an issue for the crash in my repository", "merge the pull request", "send an email to my boss"]


@pytest.mark.slow
@each_row("request_", REQUESTS)
def test_a_request_beside_pasted_text_finds_what_it_finds_alone(request_: str) -> None:
    alone = index().search(request_).names[0]
    missed = [
        (name, way)
        for name, text in TEXTS.items()
        for way, placed in places([text]).items()
        if way != "texts around" and alone not in index().search(placed(request_, 0)).names
    ]
    assert len(missed) <= len(TEXTS) * 6 * 0.1, missed


def test_a_request_at_both_ends_is_two_queries() -> None:
    prompt = (
        f"Send an email to my boss with this log.\n\n{TEXTS['log']}\n\nCreate an issue for the crash in my repository."
    )
    names = index().search(prompt, 6).names
    assert any("issue" in name for name in names)
    assert any("gmail" in name or "mail" in name for name in names)


def test_what_was_searched_is_told() -> None:
    result = index().search(f"Merge the pull request\n\n{TEXTS['log']}")
    assert result.searched == "Merge the pull request"
    assert any('"Merge the pull request" alone' in note for note in result.notes)


@each_row("prompt", ["merge the pull request", "one\ntwo\nthree", "a sentence that goes on " * 30])
def test_a_short_prompt_and_one_line_are_searched_as_a_whole(prompt: str) -> None:
    [whole] = candidates_in(prompt)
    assert whole.text == prompt.strip()


SIGNS = ("z" + "\u0301" * 20_000, "! " * 9_000, "_ " * 9_000, "-" * 9_000, "a," * 9_000)
"""An embedding reads signs, too: they must not pass the budget of words."""


@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.lists(
        st.sampled_from([*TEXTS.values(), "word " * 400, "\n\n", "```\n", "x" * 9_000, "你好" * 900, *SIGNS]),
        max_size=9,
    )
)
def test_candidates_are_parts_of_the_prompt_within_the_budget(parts: list[str]) -> None:
    prompt = "\n".join(parts)
    for candidate in candidates_in(prompt):
        assert word_count(candidate.text) <= MAX_WORDS
        assert len("".join(candidate.text.split())) <= 18 * MAX_WORDS
        assert candidates_in(prompt) == candidates_in(prompt)


@each_row("way", ["text before", "text behind", "fenced, behind"])
async def test_the_tool_for_the_request_is_loaded_and_none_for_the_mail(way: str) -> None:
    prompt = places([TEXTS["mail"]])[way]("Delete this email", 0)
    model = ScriptedModel(["ok"])
    async with searching_agent(model, CountedTools(*NAMES), prefetch=3) as agent:
        await agent.ask(prompt)
    assert set(offered(model.requests[0])[2:]) <= {"delete_email"}


@each_row("signs", ["*delete* the email (now)?", "delete the email | please", "delete the email.*"])
async def test_signs_in_a_prompt_are_no_pattern(signs: str) -> None:
    model = ScriptedModel(["ok"])
    async with searching_agent(model, CountedTools(*NAMES), prefetch=3) as agent:
        await agent.ask(signs)
    assert offered(model.requests[0])[2:] == ["delete_email"]
