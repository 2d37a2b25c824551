"""Calls that lead nowhere, also when their results differ in times and ids alone, or their arguments in anything."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from mcpagent import Agent, ModelSettings, RunOptions, ScriptedModel, Tool, ToolCall, ToolOutput
from mcpagent.models.base import ModelRequest
from mcpagent.models.scripted import Reply
from mcpagent.values.limits.repeats import PATIENCE, REPEATS_TOLD, REPEATS_TOLD_SMALL, kind_of_failure, skeleton
from mcpagent.values.messages import BinaryBlock, Image, Text, ToolDefinition, ToolResult
from tests.tables import each_row

BEGIN = datetime(2026, 11, 25, 10, 0, tzinfo=UTC)
MOST = REPEATS_TOLD * PATIENCE


def at(number: int) -> datetime:
    return BEGIN + timedelta(seconds=97_813 * number)


CHANGING: dict[str, Callable[[int], str]] = {
    "times": lambda n: f"nothing new as of {at(n).isoformat()}",
    "words of times": lambda n: f"Checked on {at(n):%A, %d %B %Y at %I:%M %p}: nothing new",
    "dates of headers": lambda n: f"Date: {at(n):%a, %d %b %Y %H:%M:%S} GMT\nstatus: open",
    "uuids": lambda n: f'{{"request": "{UUID(int=n * 0x1234567890ABCDEF1234567)}", "state": "open"}}',
    "counters": lambda n: f"try {n}: the queue is empty",
    "seconds": lambda n: f"took {n * 1.37:.2f} s, nothing found",
    "ids": lambda n: f"job-{n * 7919:x}9 is queued",
    "digests": lambda n: f"etag {hash((n, 'x')) & 0xFFFFFFFFFFFF:012x}0 unchanged",
}


async def run_with(text: Callable[[int], str], row: list[str], most: int, *, at_once: bool = False) -> tuple[Any, int]:
    made: list[str] = []

    def look(what: str) -> str:
        """Looks."""
        made.append(what)
        return f"{what} {text(len(made))}"

    def again(request: ModelRequest) -> Any:
        if request.tool_choice == "none" or len(made) >= most:
            return "That is all."
        if at_once:
            return [ToolCall("", "look", {"what": what}) for what in row]
        return ToolCall("", "look", {"what": row[len(made) % len(row)]})

    async with Agent(ScriptedModel([again] * (most + 3)), tools=[look]) as agent:
        return await agent.run("look"), len(made)


@each_row(
    "kind, row, at_once",
    [
        *((kind, ["a"], False) for kind in CHANGING),
        *(("times", row, at_once) for row in (["a", "b"], ["a", "b", "c"]) for at_once in (False, True)),
    ],
)
async def test_results_that_differ_in_times_and_ids_alone_are_the_same_in_the_end(
    kind: str, row: list[str], at_once: bool
) -> None:
    result, made = await run_with(CHANGING[kind], row, 60, at_once=at_once)
    assert result.stop == "repeated_calls"
    assert made == MOST * len(row)
    assert sum("Do something else" in message.text for message in result.messages) == 1


@each_row("row", [["a"], ["a", "b"], ["a", "b", "c"], ["a", "a", "b"], [*"abcde"], [*"abcdefgh"]])
@each_row("at_once", [False, True])
async def test_t20_calls_in_turns_are_noticed_told_and_then_ended(row: list[str], at_once: bool) -> None:
    def look(what: str) -> str:
        """Looks."""
        return f"seen {what}"

    asked: list[ModelRequest] = []

    def again(request: ModelRequest) -> Any:
        if request.tool_choice == "none":
            return "I give up."
        asked.append(request)
        turn = len(asked)
        wanted = row if at_once else [row[(turn - 1) % len(row)]]
        return [ToolCall(f"{turn}_{place}", "look", {"what": what}) for place, what in enumerate(wanted)]

    async with Agent(ScriptedModel([again] * 60), tools=[look]) as agent:
        result = await agent.run("look")
    assert result.stop == "repeated_calls"
    assert result.answer == "I give up."
    assert len(asked) == (6 if at_once else 5 * len(row) + 1)
    assert "Do something else" in " ".join(message.text for message in result.messages)


async def test_calls_that_go_on_differently_are_not_ended() -> None:
    def look(what: str) -> str:
        """Looks."""
        return f"seen {what}"

    rows = ["a", "b"] * 5 + ["c"] + ["a", "b"] * 4
    script: list[Reply] = [ToolCall("", "look", {"what": what}) for what in rows]
    async with Agent(ScriptedModel([*script, "done"]), tools=[look]) as agent:
        assert (await agent.run("look")).stop == "answered"


STAYING: dict[str, Callable[[int], str]] = {
    "words": lambda n: " ".join(["rain", "sun", "snow", "fog", "wind"][n * step % 5] for step in (1, 2, 3)) + "!" * n,
    "names": lambda n: "file " + "abcdefghijklmnopqrstuvwxyz"[n],
}


@each_row("kind", STAYING)
async def test_results_that_say_something_new_are_not_the_same(kind: str) -> None:
    result, made = await run_with(STAYING[kind], ["a"], 2 * MOST)
    assert (result.stop, made) == ("answered", 2 * MOST)


async def test_a_tool_that_is_asked_for_news_has_some_patience() -> None:
    result, made = await run_with(lambda n: f"{n * 11} % done", ["a"], MOST - 1)
    assert (result.stop, made) == ("answered", MOST - 1)


FAILING: dict[str, Callable[[int], Exception]] = {
    "no file": lambda n: FileNotFoundError(2, "No such file or directory", f"/data/{'ab' * n}/x.txt"),
    "refused": lambda n: PermissionError(f'user "{"ann" * n}" may not do that'),
    "server": lambda n: RuntimeError(f"HTTP 500, request {n:08x}ab at {at(n)}"),
    "said again": lambda n: LookupError(f"nothing is known of {asked_for(n - 1)} here"),
}


def asked_for(made: int) -> str:
    return f"x{'y' * made} {'abcdefghijklmnopqrstuvwxyz'[made % 26]}and so on"


async def failing(error: Callable[[int], Exception], most: int, *, heals_at: int = 0) -> tuple[Any, int]:
    made: list[str] = []

    def fetch(path: str) -> str:
        """Fetches."""
        made.append(path)
        if len(made) == heals_at:
            return "there it is"
        raise error(len(made))

    def again(request: ModelRequest) -> Any:
        if request.tool_choice == "none" or len(made) >= most:
            return "That is all."
        return ToolCall("", "fetch", {"path": asked_for(len(made))})

    async with Agent(ScriptedModel([again] * (most + 3)), tools=[fetch]) as agent:
        return await agent.run("fetch"), len(made)


@each_row("kind", FAILING)
async def test_a_tool_that_keeps_failing_is_spoken_of_and_then_not_called(kind: str) -> None:
    result, made = await failing(FAILING[kind], 60)
    assert (result.stop, made) == ("repeated_calls", MOST)
    told = [message.text for message in result.messages if "failed 5 times in a row" in message.text]
    assert len(told) == 1
    assert any('calls to "fetch" keep failing' in message.text for message in result.messages)


def two_that_fail(made: list[str]) -> tuple[Callable[[str], str], Callable[[str], str]]:
    """Functions `one` and `other`, which note each call in `made`."""

    def one(path: str) -> str:
        """Gives one."""
        made.append(path)
        raise ValueError("not to be had")

    def other(path: str) -> str:
        """Gives the other."""
        made.append(path)
        raise OSError("broken")

    return one, other


@each_row("at_once", [False, True])
async def test_two_tools_that_keep_failing_in_turns_are_not_called(at_once: bool) -> None:
    made: list[str] = []
    one, other = two_that_fail(made)

    def again(request: ModelRequest) -> Any:
        if request.tool_choice == "none":
            return "That is all."
        path = {"path": "p" * len(made)}
        calls = [ToolCall("1", "one", path), ToolCall("2", "other", path)]
        return calls if at_once else calls[len(made) % 2]

    async with Agent(ScriptedModel([again] * 60), tools=[one, other]) as agent:
        result = await agent.run("fetch")
    assert (result.stop, len(made)) == ("repeated_calls", 2 * MOST)


async def test_a_success_between_failures_begins_anew() -> None:
    result, made = await failing(FAILING["no file"], MOST + 3, heals_at=MOST - 1)
    assert (result.stop, made) == ("answered", MOST + 3)


async def test_failures_of_different_kinds_are_a_search_for_the_right_way() -> None:
    kinds = [ValueError("no such column"), KeyError("price"), TypeError("not a number"), OSError("disk is full")]
    result, made = await failing(lambda n: kinds[n % 4], 2 * MOST)
    assert (result.stop, made) == ("answered", 2 * MOST)


@each_row("length", [0, 9_999, 10_001, 1_000_000])
def test_of_a_long_result_little_is_looked_at(length: int) -> None:
    assert len(skeleton("word " * (length // 5))) <= 10_010
    assert kind_of_failure(ToolResult("1", "a", (Text("x" * length),), "failed"))[0] == "failed"
    assert set(skeleton("7" * length)) <= set("# …")


# -- many calls in one message ----------------------------------------------------------------------------------------


async def many_at_once(sizes: list[int], *, first_good: int, small: bool = False) -> tuple[Any, list[int]]:
    """A model that makes so many calls in each of its messages, which fail until its message number `first_good`."""
    asked: list[int] = []

    def fetch(path: str) -> str:
        """Fetches."""
        number = int(path.partition("-")[0])
        asked.append(number)
        if number < first_good:
            raise FileNotFoundError(2, "No such file or directory", path)
        return f"all of {'abcdefghijkl'[number]}"

    def again(number: int, size: int) -> Any:
        def said(request: ModelRequest) -> Any:
            if request.tool_choice == "none":
                return "That is all."
            return [ToolCall("", "fetch", {"path": f"{number}-{place}"}) for place in range(size)]

        return said

    script = [again(number, size) for number, size in enumerate(sizes)]
    settings = ModelSettings(profile="small" if small else None)
    model = ScriptedModel([*script, "Done.", "Done."])
    async with Agent(model, tools=[fetch], options=RunOptions(settings=settings)) as agent:
        return await agent.run("fetch"), asked


@each_row("small", [False, True])
@each_row("before", [[], [4], [1, 1]])
@each_row("size", [2, 5, 12])
async def test_calls_that_all_failed_at_once_can_be_made_better(size: int, before: list[int], small: bool) -> None:
    sizes = [*before, size, 3]
    result, asked = await many_at_once(sizes, first_good=len(sizes) - 1, small=small)
    told_after = REPEATS_TOLD_SMALL if small else REPEATS_TOLD
    is_refused = sum(before) >= told_after and sum(before) + size >= PATIENCE * told_after
    assert (result.stop, len(asked)) == ("repeated_calls" if is_refused else "answered", sum(sizes) - 3 * is_refused)


@each_row("small", [False, True])
async def test_what_goes_on_to_fail_after_it_was_told_is_not_called(small: bool) -> None:
    result, asked = await many_at_once([12] * 9, first_good=99, small=small)
    assert (result.stop, max(asked)) == ("repeated_calls", 1)
    told = [message.text for message in result.messages if "failed 12 times in a row" in message.text]
    assert len(told) == 1


async def test_each_tool_that_fails_is_told_before_it_is_not_called() -> None:
    made: list[str] = []
    one, other = two_that_fail(made)

    def again(request: ModelRequest) -> Any:
        if request.tool_choice == "none":
            return "That is all."
        return [
            ToolCall("", name, {"path": f"{len(made)}{place}"}) for name in ("one", "other") for place in "abcdefghijkl"
        ]

    async with Agent(ScriptedModel([again] * 9), tools=[one, other]) as agent:
        result = await agent.run("fetch")
    assert (result.stop, len(made)) == ("repeated_calls", 2 * 24)
    [told] = [message.text for message in result.messages if "failed 12 times" in message.text]
    assert 'The calls to "one"' in told
    assert 'The calls to "other"' in told


async def test_another_tool_in_between_is_no_second_try() -> None:
    made: list[str] = []

    def fetch(path: str) -> str:
        """Fetches."""
        made.append(path)
        if path == "right":
            return "there it is"
        raise ValueError("no such path")

    def look() -> str:
        """Tells what paths there are."""
        return "right"

    wrong = [ToolCall("", "fetch", {"path": f"wrong {'x' * n}"}) for n in range(12)]
    script: list[Any] = [wrong, ToolCall("", "look", {}), ToolCall("", "fetch", {"path": "right"}), "Done."]
    async with Agent(ScriptedModel(script), tools=[fetch, look]) as agent:
        result = await agent.run("fetch")
    assert (result.stop, made[-1]) == ("answered", "right")


# -- what is no text --------------------------------------------------------------------------------------------------


def picture(number: int) -> str:
    """Bytes of a picture's type, which nothing has to decode."""
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + f"picture {number}".encode()).decode()


LOOKS: dict[str, Callable[[int], list[Text | Image | BinaryBlock]]] = {
    "image": lambda n: [Image("image/png", picture(n))],
    "image with words": lambda n: [Text("the screen"), Image("image/png", picture(n))],
    "image with a time": lambda n: [Text(f"at {at(n)}"), Image("image/png", picture(n))],
    "second image": lambda n: [Image("image/png", picture(0)), Image("image/png", picture(n))],
    "sound": lambda n: [Text("recorded"), BinaryBlock("audio/wav", base64.b64encode(f"sound {n}".encode()).decode())],
}


async def looked(kind: str, most: int, *, changes: bool) -> tuple[Any, int]:
    made: list[int] = []

    def again(request: ModelRequest) -> Any:
        if request.tool_choice == "none" or len(made) >= most:
            return "That is all."
        return ToolCall("", "look", {})

    async def run(_: Any) -> ToolOutput:
        made.append(0)
        parts = LOOKS[kind](len(made) if changes else 1)
        blocks = tuple(part for part in parts if isinstance(part, BinaryBlock))
        return ToolOutput(tuple(part for part in parts if not isinstance(part, BinaryBlock)), blocks=blocks)

    tool = Tool(ToolDefinition("look", "Looks.", {"type": "object", "properties": {}}), run)
    async with Agent(ScriptedModel([again] * (most + 3)), tools=[tool]) as agent:
        return await agent.run("look"), len(made)


@each_row("kind", LOOKS)
async def test_pictures_and_sounds_that_differ_are_not_the_same(kind: str) -> None:
    result, made = await looked(kind, MOST + 2, changes=True)
    assert (result.stop, made) == ("answered", MOST + 2)
    result, made = await looked(kind, MOST + 2, changes=False)
    assert (result.stop, made) == ("repeated_calls", REPEATS_TOLD)


async def test_a_row_that_ends_within_its_message_hides_no_failures() -> None:
    def look() -> str:
        """Looks."""
        return "nothing new"

    def fetch(path: str) -> str:
        """Fetches."""
        raise ValueError("no such path")

    calls = [ToolCall("", "look", {})] * 5 + [ToolCall("", "fetch", {"path": f"wrong {'x' * n}"}) for n in range(12)]
    async with Agent(ScriptedModel([calls, "Done."]), tools=[look, fetch]) as agent:
        result = await agent.run("fetch")
    [told] = [message.text for message in result.messages if "Do something else" in message.text]
    assert 'The call to "look" was made 5 times' in told
    assert 'The calls to "fetch" failed 12 times' in told
