"""The three tools that read offloaded outputs, offered in every mode once an output exists."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from typing import Any, TypeAlias

from mcpagent.errors import InputError
from mcpagent.models.tool_changes_in_history import READER_NAMES
from mcpagent.run.large_results.large_output import LargeOutput
from mcpagent.run.large_results.querying import query
from mcpagent.run.large_results.reading_ranges import MAX_ANSWER, read_range
from mcpagent.run.large_results.searching import search
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import Image, Text, ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput

Open: TypeAlias = Callable[[str], Awaitable[LargeOutput | None]]
"""Callback that returns this session's output with an ID; None if it is missing."""

Answer: TypeAlias = "str | Image"
Read: TypeAlias = Callable[[LargeOutput, Mapping[str, Any]], Answer]
"""A function that reads from an output. Raises `InputError` with a text for the model."""

NOTHING_KEPT = (
    "There is no output {handle} in this conversation, or it is not kept any more (outputs are kept for seven days). "
    'Give the handle as it stands after "Set aside as"; if it is gone, make the call again that gave it.'
)

_LARGE = 200_000
_TIMEOUT_SECONDS = 60.0


def _definition(name: str, description: str, **properties: Any) -> ToolDefinition:
    handle = {"type": "string", "description": "The handle, out_ and 12 characters"}
    schema = {
        "type": "object",
        "properties": {"handle": handle, **properties},
        "required": ["handle"],
    }
    return ToolDefinition(name, description, schema, read_only=True)


def _number(description: str) -> dict[str, Any]:
    return {"type": "integer", "description": description}


def _words(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


READ = _definition(
    READER_NAMES[0],
    "Read a part of an output that was set aside, by lines or by characters (both count from 1, ends included).",
    start_line=_number("First line"),
    end_line=_number("Last line"),
    start_char=_number("First character, where lines are long"),
    end_char=_number("Last character"),
    image=_number("Number of an image, to see it"),
    block=_number(
        "Number of another binary block, to see its bytes: those from start_char on"
    ),
)
SEARCH = _definition(
    READER_NAMES[1],
    "Search an output that was set aside; gives places with what stands around them.",
    words=_words("Words that must all stand near each other, in any order and case"),
    pattern=_words("Or a regular expression, any case, within lines"),
    context=_number("Lines to show before and after each place, default 1"),
    limit=_number("Most places, default 10"),
    start_line=_number("Search from this line on"),
    start_char=_number("Or from this character on"),
)
QUERY = _definition(
    READER_NAMES[2],
    "Query an output that was set aside and is JSON, NDJSON (an array of its lines), CSV or TSV (an array of rows as "
    "objects of texts) with JSONPath (RFC 9535), or with SQL.",
    sql=_words(
        "Or a SELECT in SQLite, for sums, groups and sorts, such as SELECT city, sum(price) FROM data GROUP BY city. "
        "The table data has a row for each item; a list of objects in an object is a table of its name. Nested values "
        "are JSON text."
    ),
    path=_words("Such as $.items[?@.price > 10].name, $[100:110], $..id"),
    limit=_number("Most values, default 20"),
    offset=_number("Values to skip"),
    count_only={"type": "boolean", "description": "Give only how many there are"},
)


def reader_tools(open_output: Open) -> tuple[Tool, ...]:
    """Return the reader tools of one session, in order; without the query tool if its library is not installed."""
    tools = (
        (READ, read_range),
        (SEARCH, search),
        *(((QUERY, query),) if can_query() else ()),
    )
    return tuple(
        Tool(
            definition,
            partial(_run, open_output, reader),
            _TIMEOUT_SECONDS,
            deferred=False,
            checks_arguments=True,
            safe_to_repeat=True,
        )
        for definition, reader in tools
    )


@cache
def can_query() -> bool:
    """Return whether the extra `mcpagent[query]` is installed."""
    from importlib.util import find_spec

    return find_spec("jsonpath") is not None


async def _run(
    open_output: Open, reader: Read, arguments: dict[str, Any]
) -> ToolOutput:
    handle = str(arguments.get("handle") or "").strip().strip("\"'`[].,:;")
    output = await open_output(handle)
    if output is None:
        return ToolOutput.of_text(
            NOTHING_KEPT.format(handle=f'"{safe_line(handle, 40)}"'),
            error="invalid_arguments",
        )
    work = partial(reader, output, arguments)
    try:
        # A query with SQL waits for a process.
        if output.size > _LARGE or arguments.get("sql"):
            answer = await asyncio.to_thread(work)
        else:
            answer = work()
    except InputError as error:
        return ToolOutput.of_text(str(error), error="invalid_arguments")
    if isinstance(answer, Image):
        return ToolOutput((answer,))
    assert len(answer) <= 2 * MAX_ANSWER
    return ToolOutput((Text(answer),))
