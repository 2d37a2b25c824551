"""A database that an earlier version of mcpagent wrote: all that is in it is there afterwards."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Message, Text, ToolCall
from mcpagent.history.conversation import CallProgress
from mcpagent.journal.sessions import sqlite
from mcpagent.journal.sessions.run_ended import RunEnded, ended_to_json
from mcpagent.journal.sessions.standing import progress_to_json
from mcpagent.values.messages import Step, ToolResult, Usage, dump_messages
from tests.journal.sessions.conftest import Place

MESSAGES = (
    Message("user", (Text("Where is the 'quince' jam?"),)),
    Message("assistant", (ToolCall("1", "look", {"for": "jam"}),)),
    Message("tool", (ToolResult("1", "look", (Text("in the cellar"),), None, 0.5),)),
    Message("assistant", (Text("In the cellar."),)),
)
STEP = {"model": "m", "offered": ["look"], "usage": {"input_tokens": 5}, "dollars": 0.5, "seconds": 1.0}


def quoted(value: object) -> str:
    """A value as SQL; the texts here have no backslash."""
    if isinstance(value, int | float):
        return str(value)
    text = value if isinstance(value, str) else json.dumps(value)
    return "'" + text.replace("'", "''") + "'"


def row(table: str, **values: Any) -> str:
    return f"INSERT INTO {table}({', '.join(values)}) VALUES({', '.join(map(quoted, values.values()))})"


def rows(is_postgres: bool, now: float) -> list[str]:
    """What the third version of the tables has of one session, named by a person, and of a cancelled run."""
    schema = "mcpagent." if is_postgres else ""
    number = {} if is_postgres else {"number": 1}  # PostgreSQL gives that number itself
    session = {**number, "id": "jam", "title": "The jam", "is_named": 1, "created": now - 9, "updated": now}
    found = [row(f"{schema}sessions", **session, folder="/home", model="m", tokens=7, dollars=0.5)]
    for place, message in enumerate(dump_messages(MESSAGES)):
        words = MESSAGES[place].text if message["role"] != "tool" else ""
        searched = {"searched": words} if is_postgres else {}
        values = {"session": 1, "place": place, "is_answer": int(place == 3), "words": words, "message": message}
        found.append(row(f"{schema}messages", **values, **searched))
    found += [
        row(f"{schema}steps", session=1, place=1, step=STEP),
        row(f"{schema}calls", session=1, id="9", progress=progress_to_json(CallProgress(True))),
        row(f"{schema}kept_values", session=1, name="state", value={"notes": {"a": 1}}),
        row(f"{schema}outputs", session=1, handle="out_1", kept=now, tool="get", output="whole 'text'", images="[]"),
        row(f"{schema}runs", session="jam", id="r/1", is_cancelled=1),
        row(f"{schema}runs", session="jam", id="r/2", ended=ended_to_json(RunEnded.failed("r/2", ValueError("no")))),
    ]
    return found


def as_version_three(place: Place, now: float) -> None:
    """Make the tables of the third version, with a session in them."""
    statements = [statement for step in place.backend().migrations[:3] for statement in step]
    if place.server is None:
        Path(place.where).parent.mkdir()
        statements += [f"PRAGMA application_id = {sqlite.APPLICATION_ID}", "PRAGMA user_version = 3"]
    else:
        first = ["CREATE SCHEMA mcpagent", "SET search_path = mcpagent, pg_catalog"]
        statements = ["; ".join([*first, *statements])]
        statements += ["CREATE TABLE mcpagent.store_version(version INTEGER NOT NULL)"]
        statements += ["INSERT INTO mcpagent.store_version(version) VALUES(3)"]
    for statement in [*statements, *rows(place.server is not None, now)]:
        place.run(statement)


def test_all_of_it_is_there(place: Place) -> None:
    now = time.time()
    as_version_three(place, now)
    store = place.open()
    [info] = store.sessions()
    assert (info.id, info.title, info.is_named, info.folder, info.model) == ("jam", "The jam", True, "/home", "m")
    assert (info.turns, info.messages, info.tokens, info.dollars, info.cost_known) == (1, 4, 7, 0.5, True)
    assert info.created == pytest.approx(now - 9)
    assert info.updated == pytest.approx(now)
    kept = store.open("jam")
    assert kept is not None
    assert kept.messages == MESSAGES
    assert kept.steps == (Step(1, "m", ("look",), Usage(5), 0.5, 1.0),)
    assert kept.values == {"state": {"notes": {"a": 1}}}
    assert [*kept.calls] == ["9"]
    assert [found.place for found in store.search("quince jam")] == [0]
    assert store.output("jam", "out_1").result(30) == {"tool": "get", "output": "whole 'text'", "images": "[]"}
    assert store.run_record("jam", "r/1").result(30).is_cancelled
    ended = store.run_record("jam", "r/2").result(30).ended
    assert ended is not None
    assert str(ended.error) == "ValueError: no"
    assert store.check() == []
    store.delete("jam")
    assert store.sessions() == []
    assert place.run(f"SELECT * FROM {'mcpagent.' if place.server else ''}entries") == []


def test_deleted_data_is_gone_and_its_space_returned(place: Place) -> None:
    if place.server is not None:
        return
    as_version_three(place, time.time())
    store = place.open()
    store.open("jam")
    for number in range(20):
        data = {"tool": "get", "output": "x" * 100_000, "images": "[]"}
        store.put_output("jam", f"out_{number}", data).result(30)
    [[before]] = place.run("PRAGMA page_count")
    store.delete("jam")
    [[after]] = place.run("PRAGMA page_count")
    assert after < before / 4
    store.close()
    for file in Path(place.where).parent.rglob("*"):
        assert not file.is_file() or b"xxxx" not in file.read_bytes()
