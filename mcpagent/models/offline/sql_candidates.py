"""SQL that a prompt holds, and the two requests for rows that need no more than a table's name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mcpagent.models.offline.pieces import Candidate, Context
from mcpagent.models.offline.roles import Property
from mcpagent.models.offline.words import concept

_TABLE_ROWS = re.compile(
    r"(?P<count>\bhow many\b|\bcount\b)?[^.]*\b(?:rows|records|entries|contents|data)\b[^.]*?"
    r"\b(?:in|of|from)\s+(?:the\s+)?(?:table\s+(?P<after>[A-Za-z_]\w*)|(?P<before>[A-Za-z_]\w*)\s+table)\b",
    re.IGNORECASE,
)


def _simple_query(text: str) -> Iterator[Candidate]:
    """The two requests for rows that need no more than a table's name."""
    found = _TABLE_ROWS.search(text)
    if found:
        what = "COUNT(*)" if found["count"] else "*"
        limit = "" if found["count"] else " LIMIT 50"
        yield Candidate(f"SELECT {what} FROM {found['after'] or found['before']}{limit}", (found.span(),), 1.0)  # noqa: S608 - the name is one identifier


def sql(wanted: Property, context: Context) -> Iterator[Candidate]:
    yield from _written_sql(context)
    if "select" in wanted.description.lower() or concept("select") in wanted.tool_concepts:
        yield from _simple_query(context.evidence.text)


def _written_sql(context: Context) -> Iterator[Candidate]:
    text = context.evidence.text
    sources = [*((quote.value, quote.start, quote.end) for quote in context.evidence.quoted), (text, 0, len(text))]
    for value, start, end in sources:
        match = re.search(
            r"\b(?:select|insert into|update|delete from|create table|with|pragma|show)\b\s.+",
            value,
            re.IGNORECASE | re.DOTALL,
        )
        if match and re.match(
            r"select\b.+|insert|delete|create|update\s.+\sset\b|with\s.+\sselect\b|pragma",
            match[0],
            re.IGNORECASE | re.DOTALL,
        ):
            yield Candidate(match[0].strip().rstrip("`\"'"), ((start, end),), 2.0)
            return
