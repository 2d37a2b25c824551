"""What large results cost a conversation, and what reading them takes.

    python -m benchmarks.context [--small] [--json]

- `large`: an answer of 40 MB (JSON, its lines as NDJSON, a log): the tokens that the model gets of it, CPU seconds of
  setting it aside, and of each reader; the limit is 200 ms for each call.
- `task`: 60 questions, five of them answered by a tool that gives 60,000 tokens, with and without setting aside: the
  tokens that all requests hold together (characters / 4), and how much of each is the beginning of the one before it,
  with tools written before messages, where one that joins costs the cache once.

With `--beside` the task is done beside other frameworks, with and without compaction: `benchmarks/context_beside.py`.

Ends with 1 if one of the limits beside the figures is not held. `--small` is a small part of it, as a test runs it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.context_beside import main as beside
from mcpagent import Agent, RunOptions, ScriptedModel, Sessions, ToolCall, dump_messages
from mcpagent.journal.sessions.stored_outputs import StoredOutputs
from mcpagent.models.base import ModelRequest
from mcpagent.run.large_results.large_output import LargeOutput
from mcpagent.run.large_results.offloaded_results import (
    LARGE_RESULT_TOKENS,
    LargeResults,
)
from mcpagent.run.large_results.querying import query
from mcpagent.run.large_results.reading_ranges import read_range
from mcpagent.run.large_results.searching import search
from mcpagent.values.messages import Text, ToolResult

ROUNDS = 5
READER_MS = 200.0
TURNS, LARGE_TURNS = 60, (5, 15, 25, 35, 45)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of what is printed; `least` and `most` are what it has to hold, None where there is nothing to."""

    name: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None

    @property
    def is_held(self) -> bool:
        """Whether it is within its limits."""
        return (self.most is None or self.value <= self.most) and (
            self.least is None or self.value >= self.least
        )

    def __str__(self) -> str:
        limits = [
            f"{word} {it:g}"
            for word, it in (("at most", self.most), ("at least", self.least))
            if it is not None
        ]
        said = (
            f"  ({', '.join(limits)}{'' if self.is_held else ': NOT HELD'})"
            if limits
            else ""
        )
        return f"{self.name:<66} {self.value:>13,.1f} {self.unit}{said}"


def cpu_ms(work: Callable[[], object]) -> float:
    """CPU of this process, the middle of some rounds."""
    taken: list[float] = []
    for _ in range(ROUNDS):
        before = time.process_time()
        work()
        taken.append(1_000 * (time.process_time() - before))
    return median(taken)


# -- one large answer --------------------------------------------------------------------------------------------------


def texts(megabytes: float) -> Mapping[str, str]:
    """Three answers of this size."""
    note = "as it was ordered, with all that belongs to it " * 5
    count = int(megabytes * 1_000_000 / 320)
    rows = [
        {
            "id": number,
            "customer": f"customer {number % 9_973}",
            "total": number / 8,
            "note": note,
            "paid": number % 3 > 0,
        }
        for number in range(count)
    ]
    lines = [
        f"2026-01-01T00:00:00 worker {number % 17} did step {number} of the plan"
        for number in range(count * 5)
    ]
    return {
        "JSON": json.dumps(rows),
        "NDJSON": "\n".join(map(json.dumps, rows)),
        "log": "\n".join(lines),
    }


async def large(*, small: bool) -> list[Figure]:
    """Setting an answer aside, and each reader on it."""
    figures: list[Figure] = []
    for name, text in texts(1 if small else 40).items():
        with tempfile.TemporaryDirectory() as folder:
            store = Sessions(Path(folder) / "s.db")
            results = LargeResults(StoredOutputs(store, "a"))
            before = time.process_time()
            short = await results.set_aside(ToolResult("1", "get", (Text(text),)))
            taken = 1_000 * (time.process_time() - before)
            store.close()
        size = f"{name}, {len(text) / 1e6:.0f} MB"
        figures.append(
            Figure(f"{size}: the model gets", len(short.text) / 4, "tokens", 1_000)
        )
        figures.append(Figure(f"{size}: set aside, kept in SQLite, once", taken, "ms"))
        figures += readers(size, LargeOutput(text))
    return figures


def readers(size: str, output: LargeOutput) -> list[Figure]:
    """Each reader, as a model calls it."""
    middle = output.lines // 2
    calls: list[tuple[str, Callable[..., object], dict[str, Any]]] = [
        ("read, lines in the middle", read_range, {"start_line": max(middle, 1)}),
        (
            "read, characters in the middle",
            read_range,
            {"start_char": len(output.text) // 2},
        ),
        ("search, a word that is not there", search, {"words": "nowhere"}),
        ("search, two words", search, {"words": "plan 5594"}),
        ("search, a pattern that is not there", search, {"pattern": r"nowhere \d+"}),
        ("search, a hostile pattern", search, {"pattern": r"(\w+\s?)*x$"}),
    ]
    if output.data.value is not None:
        count = len(output.data.value)
        calls += [
            ("query, one row", query, {"path": f"$[{count // 2}]"}),
            (
                "query, a filter over all rows",
                query,
                {"path": f"$[?@.id == {count - 1} && @.paid == true]"},
            ),
            ("query, a name at any depth", query, {"path": "$..customer"}),
        ]
        query(output, {"path": "$[0]"})  # loads the library, 0.1 s once in a process
    return [
        Figure(
            f"{size}: {name}",
            cpu_ms(lambda r=reader, a=arguments: r(output, a)),  # type: ignore[misc]
            "ms",
            READER_MS,
        )
        for name, reader, arguments in calls
    ]


# -- a task of many turns ----------------------------------------------------------------------------------------------


def get_log(number: int) -> str:
    """Gives the log of one machine."""
    return "\n".join(
        f"machine {number} step {step}: nothing to tell of" for step in range(6_000)
    )


def look_up(word: str) -> str:
    """Looks a word up."""
    return f"{word}: " + "what there is to know of it, " * 8


def rendered(request: ModelRequest) -> str:
    """As a provider reads it: tools, system prompt, messages."""
    tools = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    return json.dumps([tools, request.system, dump_messages(tuple(request.messages))])


def common_beginning(one: str, other: str) -> int:
    """How many characters both begin with."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (
            (middle, most) if one[:middle] == other[:middle] else (least, middle - 1)
        )
    return least


async def task(*, small: bool) -> list[Figure]:
    """The same questions with and without setting aside."""
    figures: list[Figure] = []
    turns = 20 if small else TURNS
    for name, limit in (
        ("without setting aside", 0),
        ("with setting aside", LARGE_RESULT_TOKENS),
    ):
        sent, same, last = 0, 0, ""

        def note(request: ModelRequest) -> None:
            nonlocal sent, same, last
            text = rendered(request)
            sent += len(text)
            same += common_beginning(last, text)
            last = text

        def reply(answer: Any) -> Callable[[ModelRequest], Any]:
            def said(request: ModelRequest) -> Any:
                note(request)
                return answer(request) if callable(answer) else answer

            return said

        def found(request: ModelRequest) -> ToolCall | str:
            results = [
                result
                for message in request.messages
                for result in message.tool_results
            ]
            if results[-1].set_aside is None:
                return "nothing is wrong"
            handle = results[-1].set_aside.handle
            return ToolCall(
                "", "search_large_output", {"handle": handle, "words": "step 3210:"}
            )

        replies: list[Any] = []
        for turn in range(turns):
            is_large = turn in LARGE_TURNS
            replies.append(
                reply(
                    ToolCall(
                        "",
                        *(
                            ("get_log", {"number": turn})
                            if is_large
                            else ("look_up", {"word": str(turn)})
                        ),
                    )
                )
            )
            if is_large and limit:
                replies.append(reply(found))
            replies.append(reply("That is all there is to say about it."))
        async with Agent(
            ScriptedModel(replies),
            tools=[get_log, look_up],
            options=RunOptions(large_result_tokens=limit),
        ) as agent:
            for turn in range(turns):
                await agent.ask(f"Question {turn}: what is there to know?")
        figures.append(
            Figure(f"{turns} turns {name}: all requests", sent / 4, "tokens")
        )
        figures.append(
            Figure(
                f"{turns} turns {name}: as the request before",
                100 * same / sent,
                "%",
                least=85 if limit else None,
            )
        )
    return figures


PARTS: Mapping[str, Callable[..., Any]] = {"large": large, "task": task}


def main() -> int:
    """Prints a line for each figure; gives 1 if a limit is not held."""
    if "--beside" in sys.argv:
        return beside()
    parser = argparse.ArgumentParser(
        description="What large results cost a conversation."
    )
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"of {', '.join(PARTS)}; all if none is named",
    )
    parser.add_argument("--small", action="store_true", help="a small part of it")
    parser.add_argument("--json", action="store_true", help="as one line of JSON")
    options = parser.parse_args()
    figures: list[Figure] = []
    for name in options.parts or PARTS:
        figures += asyncio.run(PARTS[name](small=options.small))
    if options.json:
        print(json.dumps([asdict(figure) for figure in figures]))
    else:
        print(*figures, sep="\n")
    return 0 if all(figure.is_held for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
