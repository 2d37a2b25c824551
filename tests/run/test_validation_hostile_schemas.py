"""Hostile schemas and values: each check ends within its bounds, holds no loop and takes no memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from typing import Any

import pytest

from mcpagent import Agent, ScriptedModel
from mcpagent.run.validation import Verdict, verdict, verdict_beside
from mcpagent.values.events import Notice
from mcpagent.values.messages import ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput
from tests.scenes import call
from tests.speed import within
from tests.tables import each_row
from tests.toolsets.hostile_schemas import ATTACKS, LONG, NESTED, bomb

LARGE = [name for name in ATTACKS if name.startswith("50 MB of")] + ["an enum of a million"]
MORE_PATTERNS = [f"pattern {pattern}" for pattern in NESTED[1:]]
"""Each ends at the limit of time for patterns, as the first does."""


@pytest.mark.slow
@each_row("name", [name for name in ATTACKS if name not in (*LARGE, *MORE_PATTERNS)])
async def test_a_hostile_schema_is_answered_in_time_and_never_holds_the_loop(name: str) -> None:
    await check_time(name)


@pytest.mark.slow
@each_row("name", [*LARGE, *MORE_PATTERNS])
async def test_nor_does_a_large_one_or_another_pattern(name: str) -> None:
    await check_time(name)


TRIES = 3
"""Of each measurement, before it counts as too long: something else may disturb one of them."""


async def check_time(name: str) -> None:
    schema, value = ATTACKS[name]()
    verdict({"properties": {"x": {"pattern": "warm.*up"}}}, {"x": ""})
    for _ in range(TRIES):
        found, took, longest_hold = await measured(schema, value)
        if is_short := within(took, 1.2) and within(longest_hold, 0.05):
            break
    assert is_short, (took, longest_hold)
    assert len(found.problem) < 3_000
    assert len(found.unchecked) < 200


async def measured(schema: dict[str, Any], value: dict[str, Any]) -> tuple[Verdict, float, float]:
    """The verdict, the CPU seconds that it took, and the longest that it held the loop."""
    longest_hold = 0.0
    answered = False

    async def watch() -> None:
        nonlocal longest_hold
        while not answered:
            before = time.thread_time()
            await asyncio.sleep(0.002)
            longest_hold = max(longest_hold, time.thread_time() - before)

    watcher = asyncio.create_task(watch())
    await asyncio.sleep(0)
    started = time.process_time()
    found = await verdict_beside(schema, value)
    took = time.process_time() - started
    answered = True
    await watcher
    return found, took, longest_hold


@pytest.mark.slow
@each_row(
    "name, found",
    [
        ("a map called $defs", Verdict()),
        ("unique objects", Verdict()),
        ("unique numbers of one hash", Verdict()),
        ("2**26 references", Verdict()),
        ("one of 2**60", Verdict("x: 1 is not valid under any of the given schemas")),
        ("a tree of 2**60", Verdict()),
        ("a circle", Verdict(unchecked="it refers to itself without an end")),
        ("a circle of 20,000", Verdict(unchecked="it has more than 10,000 parts")),
        ("left over, 60 levels", Verdict()),
        ("10,000 levels of value", Verdict("arguments nest deeper than 64 levels")),
        ("50 MB of notes", Verdict("x: 'y' is too short")),
        ("a wide anyOf for each item", Verdict(unchecked="checking takes more than 500,000 steps")),
    ],
)
def test_what_becomes_of_it(name: str, found: Verdict) -> None:
    assert verdict(*ATTACKS[name]()) == found


@pytest.mark.slow
def test_what_becomes_of_50_megabytes_of_names() -> None:
    assert verdict(*ATTACKS["50 MB of names"]()) == Verdict(unchecked="it has more than 10,000 parts")


@pytest.mark.slow
def test_a_duplicate_among_40_000_objects_is_found() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}}
    value = [{"a": number} for number in range(39_999)]
    assert not verdict(schema, {"x": value}).problem
    assert "has non-unique elements" in verdict(schema, {"x": [*value, {"a": 39_998}]}).problem


def test_a_bomb_is_checked_as_well_as_a_plain_schema() -> None:
    schema, _ = bomb("allOf", 26)
    assert verdict(schema, {"x": "one"}) == Verdict("x: 'one' is not of type 'integer'")


@pytest.mark.slow
def test_hostile_schemas_take_no_memory() -> None:
    """In a process of its own, above what the schemas and values themselves take."""
    script = (
        "from tests.memory import peak_megabytes\nfrom tests.toolsets.hostile_schemas import ATTACKS\n"
        "from mcpagent.run.validation import verdict\n"
        "verdict({'properties': {'x': {'pattern': 'a'}}}, {'x': 'a'})\n"
        "made = [make() for make in ATTACKS.values()]\n"
        "before = peak_megabytes()\n"
        "[verdict(schema, value) for schema, value in made]\n"
        "print(peak_megabytes() - before)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 200


async def test_that_arguments_are_not_checked_is_said_once_and_the_call_runs() -> None:
    ran: list[object] = []

    async def run(arguments: dict[str, object]) -> ToolOutput:
        ran.append(arguments)
        return ToolOutput.of_text("done")

    schema = {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:9/schema.json"}}}
    tools = [Tool(ToolDefinition(name, "Does it.", schema), run) for name in ("one", "two")]
    model = ScriptedModel([[call("one", x=1), call("two", x=2)], call("one", x=LONG), "ok"])
    async with Agent(model, tools=tools) as agent:
        events = [event async for event in agent.stream("go")]
    reason = "a reference leads out of it: http://127.0.0.1:9/schema.json"
    assert [event.text for event in events if isinstance(event, Notice)] == [
        f"the arguments of {name} are not checked; its schema: {reason}" for name in ("one", "two")
    ]
    assert len(ran) == 3
