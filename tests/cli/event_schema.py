"""What the documents of `--output json` and `stream-json` hold, as JSON Schema: the one place for their fields.

`python -m tests.cli.event_schema > docs/events.schema.json` writes the page's copy.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from mcpagent.cli.common.exit_codes import ERROR_KINDS, ExitCode
from mcpagent.cli.oneshot.json_report import SCHEMA
from mcpagent.mcp.server_status import ServerState
from mcpagent.values.events import StopReason
from mcpagent.values.limits.run_limits import KINDS, LimitScope
from mcpagent.values.messages import ToolErrorKind

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Shape = dict[str, Any]

TEXT: Shape = {"type": "string"}
COUNT: Shape = {"type": "integer", "minimum": 0}
FLAG: Shape = {"type": "boolean"}
NUMBER: Shape = {"type": "number"}
OBJECT: Shape = {"type": "object"}


def _array(items: Shape) -> Shape:
    return {"type": "array", "items": items}


def _either(*shapes: Shape) -> Shape:
    return {"anyOf": list(shapes)}


def _or_null(shape: Shape) -> Shape:
    return _either(shape, {"type": "null"})


def _about(shape: Shape, description: str) -> Shape:
    return {**shape, "description": description}


def _object(optional: Mapping[str, Shape] | None = None, /, **fields: Shape) -> Shape:
    return {"type": "object", "properties": {**fields, **(optional or {})}, "required": list(fields)}


NAMES = _array(TEXT)
DOLLARS = _about(_or_null({"type": "number", "minimum": 0}), "US dollars; null if a price is not known")
MILLISECONDS = _about(COUNT, "milliseconds")
ESTIMATED = _about(COUNT, "tokens, estimated as characters / 4")
USAGE = _about(
    _object(
        {"web_searches": _about(COUNT, "those that the provider ran, and charges for")},
        input_tokens=COUNT,
        output_tokens=COUNT,
        cache_read_tokens=COUNT,
        cache_write_tokens=COUNT,
        requests=COUNT,
    ),
    "as the provider counted; input_tokens is the whole input, what was cached included",
)
SERVER = _object(
    {"reason": _about(TEXT, "why it failed; one line")},
    state={"enum": list(get_args(ServerState))},
    tools=COUNT,
    seconds=_about(NUMBER, "what connecting took"),
)
CITATIONS = _array(
    _object(
        url=_about(TEXT, 'of the page; "" of a file'),
        title=TEXT,
        cited_text=_about(TEXT, "what it says there; empty if the provider does not tell"),
    )
)
SERVERS: Shape = {"type": "object", "additionalProperties": SERVER, "description": "by configured name"}
SERVER_NAME = _about(_or_null(TEXT), "the server it goes to; null for local functions and search")
CONTENT = _array(
    _either(
        _object(type={"const": "text"}, text=TEXT),
        _object(type={"const": "image"}, media_type=TEXT, data=_about(TEXT, "base64")),
    )
)
DENIAL = _object(
    tool_use_id=TEXT,
    name=TEXT,
    server=SERVER_NAME,
    input=OBJECT,
    reason=TEXT,
    allow=_about(_or_null(TEXT), "the flag that would have let it run; null if none would"),
)
TOOLS = _object(
    total=_about(COUNT, "tools known"),
    sent_max=_about(COUNT, "the most that one request offered"),
    schema_tokens_full=_about(_or_null(COUNT), "of every tool known, in the last request; characters / 4"),
    schema_tokens_sent=_about(_or_null(COUNT), "of the tools that the last request offered; characters / 4"),
)
ERROR = _object(kind={"enum": list(ERROR_KINDS)}, message=TEXT, exit_code={"enum": [int(code) for code in ExitCode]})


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """One type of document: when it is written, the fields it always has besides `type`, and those it may have."""

    when: str
    fields: Mapping[str, Shape]
    optional: Mapping[str, Shape]

    @property
    def names(self) -> tuple[str, ...]:
        """All fields, as they are listed in the documentation."""
        return (*self.fields, *self.optional)


def _kind(when: str, optional: Mapping[str, Shape] | None = None, /, **fields: Shape) -> DocumentKind:
    return DocumentKind(when, fields, optional or {})


INSIDE: Mapping[str, Shape] = {
    "parent_tool_use_id": _about(TEXT, "of a call that a program makes: the call that runs the program")
}

DOCUMENTS: Mapping[str, DocumentKind] = {
    "init": _kind(
        "the servers are connected",
        model=_about(TEXT, "provider:model"),
        tool_search=_about(FLAG, "whether tools are searched for instead of all being offered"),
        tools=_object(known=COUNT, offered=NAMES),
        servers=SERVERS,
    ),
    "message": _kind(
        "the question; each answer of the model",
        {"usage": USAGE, "citations": _about(CITATIONS, "sources that the answer names, if it names any")},
        role={"enum": ["user", "assistant"]},
        content=TEXT,
    ),
    "context": _kind(
        "a request goes to the model",
        turn={"type": "integer", "minimum": 1},
        tools_offered=NAMES,
        tools_known=COUNT,
        schema_tokens_sent=ESTIMATED,
        schema_tokens_full=_about(COUNT, "what offering every tool would take, estimated alike"),
    ),
    "answer_restarted": _kind(
        "the answer that was arriving broke off and starts again",
        reason=_about(TEXT, "one line"),
        dropped=_about(TEXT, "what had arrived of it, which counts no more"),
    ),
    "tool_use": _kind("a call starts", INSIDE, id=TEXT, name=TEXT, input=OBJECT, server=SERVER_NAME),
    "tool_progress": _kind(
        "a server says how far a call is",
        server=TEXT,
        tool=_about(TEXT, "the server's own name for it"),
        progress=NUMBER,
        total=_or_null(NUMBER),
        message=TEXT,
    ),
    "tool_result": _kind(
        "a call ended",
        {
            "set_aside": _about(
                _object(handle=TEXT, tokens=_about(COUNT, "of the whole, characters / 4"), kind=TEXT),
                "where the whole is kept, of which `content` is a short form",
            )
        }
        | dict(INSIDE),
        tool_use_id=TEXT,
        name=TEXT,
        server=SERVER_NAME,
        is_error=FLAG,
        error={"enum": [*get_args(ToolErrorKind), None]},
        content=CONTENT,
        duration_ms=MILLISECONDS,
    ),
    "provider_tool_use": _kind(
        "the model's provider runs a call",
        id=TEXT,
        name=TEXT,
        input=_about(OBJECT, "as far as it is known"),
        server=_about(_or_null(TEXT), "the MCP server that the provider calls"),
    ),
    "provider_tool_result": _kind(
        "a call of the provider's ended",
        tool_use_id=TEXT,
        name=TEXT,
        input=OBJECT,
        server=_or_null(TEXT),
        is_error=FLAG,
        outcome=_about(TEXT, "one line"),
    ),
    "tool_search": _kind(
        "the model searched for tools",
        query=TEXT,
        matches=_about(NAMES, "those shown to the model, best first"),
        found=_about(COUNT, "all matches"),
        known=COUNT,
        tokens=_about(COUNT, "what offering the matches takes; characters / 4"),
        duration_ms=MILLISECONDS,
        connecting=_about(NAMES, "servers that were still connecting, whose tools could not be found"),
    ),
    "tools_loaded": _kind("tools that the next request offers", names=NAMES, tokens=ESTIMATED),
    "tools_removed": _kind("tools that are offered no more", names=NAMES),
    "compacted": _kind(
        "the model is sent less of the conversation from now on, which itself stays whole",
        tokens_before=_about(COUNT, "of the next request as it would have been, as expected"),
        tokens_after=_about(COUNT, "of it as it is, as expected"),
        summarised=_about(COUNT, "messages that a summary stands for, in all"),
        shortened=_about(COUNT, "results of which the beginning is left, in all"),
        without_summary=_about(TEXT, "why there is no summary of them; one line, empty if there is"),
        usage=_about(USAGE, "what the summary took"),
        window_tokens=_about(_or_null(COUNT), "what the model takes; null if that is not known"),
    ),
    "limit_reached": _kind(
        "a limit is used up, so the run ends",
        limit={"enum": list(KINDS)},
        most=_about(NUMBER, "the limit: turns, calls, tokens, US dollars or seconds"),
        used=_about(_or_null(NUMBER), "what was taken of it; null if a price is not known"),
        scope=_about({"enum": list(get_args(LimitScope))}, "whose it is"),
        message=_about(TEXT, "one line"),
    ),
    "notice": _kind("a warning or a hint", level={"enum": ["info", "warning"]}, message=TEXT),
    "error": _kind("a server failed; the others work", kind={"const": "server"}, server=TEXT, message=TEXT, fatal=FLAG),
    "estimate": _kind(
        "the only document of `--dry-run`: the first request, which is not made",
        model=TEXT,
        input_tokens=ESTIMATED,
        input_tokens_with_every_tool=ESTIMATED,
        tools_offered=NAMES,
        tools_known=COUNT,
        cost_usd=DOLLARS,
    ),
    "result": _kind(
        "the end; with `--output json` the only document",
        {
            "stop_reason": {"enum": list(get_args(StopReason))},
            "num_turns": _about(COUNT, "answers of the model"),
            "duration_ms": MILLISECONDS,
            "citations": _about(CITATIONS, "sources that the answer names, if it names any"),
            "model": TEXT,
            "session_id": _or_null(TEXT),
            "usage": USAGE,
            "estimated_tokens": _about(COUNT, "those that no provider counted, which `usage` does not hold"),
            "cost_usd": DOLLARS,
            "cost_known": _about(FLAG, "false: the price of some request is not known"),
            "tools": TOOLS,
            "denials": _array(DENIAL),
            "servers": SERVERS,
            "structured": {"description": "with --json-schema: the document that fits it"},
            "error": ERROR,
        },
        subtype=_about(
            TEXT, '"success", "denied" (answered without a call), "error", or "stopped_" and the stop reason'
        ),
        is_error=FLAG,
        result=_about(_or_null(TEXT), "the answer; null if there is none"),
    ),
}
"""Every type of document. Fields may be added under the same schema name; what is here stays."""


def schema(*, strict: bool = False) -> Shape:
    """The JSON Schema of one document. `strict` refuses fields that are not declared, which readers should not."""
    closed = {"additionalProperties": False} if strict else {}
    name_of_schema = _about({"const": SCHEMA}, "in the first document of a run")
    shapes = {
        name: _object({"schema": name_of_schema, **kind.optional}, type={"const": name}, **kind.fields)
        for name, kind in DOCUMENTS.items()
    }
    return {
        "$schema": DIALECT,
        "$id": SCHEMA,
        "title": "One line of mcpagent --output stream-json, or the document of --output json",
        "type": "object",
        "required": ["type"],
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in DOCUMENTS],
        "$defs": {name: {"description": DOCUMENTS[name].when, **shape, **closed} for name, shape in shapes.items()},
    }


def page() -> str:
    """`docs/events.schema.json`."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
