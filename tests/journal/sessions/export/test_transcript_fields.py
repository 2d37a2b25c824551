"""Exports escape every field: hostile words in each field alone, in each form, as one matrix."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mcpagent import Text, ToolCall, load_messages
from mcpagent.journal.sessions import LoadedSession, exported
from mcpagent.journal.sessions.export import FORMS
from mcpagent.journal.sessions.saved_state import InitialValues, LastAnnounced, SavedState
from mcpagent.values.approval import PendingCall
from mcpagent.values.messages import (
    Origin,
    Step,
    Thinking,
    ToolDefinition,
    ToolKey,
    ToolResult,
    ToolsChanged,
    ToolsShown,
    Usage,
)
from tests.journal.sessions.export.test_transcript import HOSTILE, headings, is_inert
from tests.journal.sessions.sample_session import NOW, kept, result, said

CALM = "calm"
FIELDS = (
    *("tool name", "server name", "tool title", "tool description", "offered name", "found name", "removed name"),
    *("argument name", "argument value", "malformed arguments", "result", "error", "call ID", "step model"),
    *("session title", "folder", "model", "origin", "system prompt", "question", "answer", "thinking"),
    *("waiting tool", "waiting argument", "told category"),
)
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


def session_with(field: str, words: str) -> LoadedSession:
    """A session of one question, with these words in one field and calm ones in all others."""

    def at(name: str) -> str:
        return words if name == field else CALM

    definition = ToolDefinition(
        at("tool name")[:64],
        at("tool description"),
        {"type": "object"},
        at("server name"),
        at("tool name"),
        title=at("tool title"),
    )
    arguments: dict[str, Any] = {at("argument name"): at("argument value")}
    call = ToolCall(at("call ID"), at("tool name"), arguments)
    failed = ToolCall("2", CALM, {}, malformed=at("malformed arguments"))
    waiting = ToolCall("3", at("waiting tool"), {"to": at("waiting argument")})
    messages = (
        said("user", at("question")),
        said("assistant", Thinking(at("thinking")), call, failed),
        said(
            "tool",
            ToolResult(at("call ID"), at("tool name"), (Text(at("result")),)),
            result("2", CALM, at("error"), "failed"),
            ToolsShown((at("found name"),), (ToolKey(at("server name"), at("found name")),)),
            ToolsChanged((definition,), (at("removed name"),), joined=(at("found name"),)),
        ),
        replace(said("assistant", at("answer"), waiting), origin=Origin(at("origin"), "chat", CALM, at("origin"))),
    )
    steps = (Step(1, at("step model"), (at("offered name"),), Usage(1, 1, 0, 0, 1), 0.1, 1.0),)
    pending = (PendingCall.of("approval", waiting, replace(definition, name=at("waiting tool"))),)
    standing = SavedState(
        InitialValues(system=at("system prompt")), LastAnnounced({at("told category"): CALM}), pending
    )
    info: dict[str, Any] = {"title": at("session title"), "folder": at("folder"), "model": at("model")}
    return kept(messages, steps, standing=standing, **info)


def problems_of(payloads: Sequence[str]) -> list[str]:
    """What is not as with calm words, for each field and payload."""
    calm = session_with("", "")
    tags, heads = elements(exported(calm, "html", now=NOW)), headings(exported(calm, "md", now=NOW))
    problems: list[str] = []
    for field in FIELDS:
        for words in payloads:
            session = session_with(field, words)
            try:
                page, text = exported(session, "html", now=NOW), exported(session, "md", now=NOW)
                document = json.loads(exported(session, "json", now=NOW))
                seen = elements(page)
                if field != "answer":  # an answer is shown as the Markdown that it is
                    assert seen == tags, "other elements"
                assert headings(text) == heads, "other headings"
                assert tuple(load_messages(document["messages"])) == session.messages, "JSON is not read again"
                assert not UNSEEN.search(page + text), "invisible characters"
            except AssertionError as error:
                problems.append(f"{field} {words!r}: {str(error).splitlines()[0]}")
    return problems


def elements(page: str) -> list[str]:
    """The elements of an inert page, without the mark at characters that nobody sees."""
    return [tag for tag in is_inert(page).tags if tag != "mark"]


def test_every_field_is_escaped_in_every_form() -> None:
    assert problems_of(["".join(HOSTILE), "\n".join(reversed(HOSTILE))]) == []


@pytest.mark.slow
def test_every_field_is_escaped_in_every_form_whatever_the_words_are() -> None:
    assert problems_of(HOSTILE) == []


def test_each_field_of_the_matrix_is_in_one_of_the_forms() -> None:
    """A field that no form shows would prove nothing."""
    for field in FIELDS:
        session = session_with(field, "hostileword")
        assert any("hostileword" in exported(session, form, now=NOW) for form in FORMS), field
