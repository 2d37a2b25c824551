"""What each line of a recording holds, as JSON Schema: a file may have been edited, or come from another program.

Lines may hold more than is declared here, which a later version adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

from mcpagent.messages import ToolErrorKind

Shape = dict[str, Any]

TEXT: Shape = {"type": "string"}
COUNT: Shape = {"type": "integer", "minimum": 0, "maximum": 10**15}
NUMBER: Shape = {"type": "number"}
FLAG: Shape = {"type": "boolean"}
OBJECT: Shape = {"type": "object"}
NAMES: Shape = {"type": "array", "items": TEXT}
TEXTS: Shape = {"type": "object", "additionalProperties": TEXT}


def _or_null(shape: Shape) -> Shape:
    return {"anyOf": [shape, {"type": "null"}]}


def _list(shape: Shape) -> Shape:
    return {"type": "array", "items": shape}


def _row(*shapes: Shape) -> Shape:
    return {"type": "array", "prefixItems": list(shapes), "minItems": len(shapes), "maxItems": len(shapes)}


def _object(fields: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    return {"type": "object", "properties": {**fields, **(optional or {})}, "required": list(fields)}


DEFINITION = _object(
    {"name": TEXT, "description": TEXT, "parameters": OBJECT},
    {
        **dict.fromkeys(("original_name", "title", "category"), TEXT),
        "server": _or_null(TEXT),
        "read_only": _or_null(FLAG),
        "tags": NAMES,
        "deferred": _or_null(FLAG),
        "checks_arguments": FLAG,
        "external": FLAG,
    },
)
TOOLS = _list(DEFINITION)
SERVER = _object(
    {"name": TEXT, "state": TEXT},
    {
        **dict.fromkeys(("reason", "protocol_version", "title", "instructions"), TEXT),
        **dict.fromkeys(("seconds", "age_seconds"), NUMBER),
        "tool_count": COUNT,
        "warnings": NAMES,
    },
)
MESSAGE = _object({"role": TEXT, "parts": _list(_object({"type": TEXT}))})
USAGE = _object(
    {},
    dict.fromkeys(("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "requests"), COUNT),
)
CONTENT: Shape = {
    "anyOf": [
        _object({"type": {"const": "text"}, "text": TEXT}),
        _object({"type": {"const": "image"}, "media_type": TEXT, "data": TEXT}),
    ]
}
HAPPENED: Shape = {
    "anyOf": [
        _object({"kind": {"const": "custom"}, "name": TEXT, "value": {}}),
        _object(
            {"kind": {"const": "search"}, "query": TEXT, "found": COUNT, "matches": NAMES, "known": COUNT},
            {"seconds": NUMBER},
        ),
    ]
}
CHANGED: Shape = {"anyOf": [_object({"shown": NAMES}), _object({"added": TOOLS, "removed": NAMES})]}
ERROR = _object(
    {"kind": TEXT, "message": TEXT},
    {"overflow": FLAG, "provider": TEXT, "status": _or_null({"type": "integer"}), "retryable": FLAG},
)
SEARCH = _object(
    {},
    {
        "enabled": {"type": ["boolean", "string"]},
        "auto_tokens": _or_null(COUNT),
        **dict.fromkeys(("strategy", "execution", "load", "scope", "on_direct_call"), TEXT),
        "max_results": COUNT,
        "extra_tools": NAMES,
        "eager_tools": {"type": "object", "additionalProperties": NAMES},
    },
)
SERVED: Mapping[str, Shape] = {"descriptions": TEXTS, "unavailable": TEXTS}

LINES: Mapping[str, Shape] = {
    "start": _object(
        {"model": TEXT, "instructions": TEXT, "pinned": NAMES, "max_turns": COUNT, "search": _or_null(SEARCH)}
    ),
    "model": _object({"name": TEXT}),
    "conversation": _object(
        {
            "tools": TOOLS,
            "servers": {"type": "object", "additionalProperties": SERVER},
            **SERVED,
            "expects_deferred": FLAG,
        }
    ),
    "tools": _object({"tools": _or_null(TOOLS), "said": TEXT, **SERVED}),
    "question": _object({"text": TEXT}),
    "provider_search": _object({"problem": TEXT}),
    "request": _object(
        {
            "number": COUNT,
            "kept": COUNT,
            "messages": _list(MESSAGE),
            "system": TEXT,
            "tools": NAMES,
            "deferred_tools": NAMES,
            "definitions": TEXT,
            "tool_choice": {},
        }
    ),
    "response": {
        "anyOf": [
            _object({"number": COUNT, "error": ERROR}),
            _object(
                {
                    "number": COUNT,
                    "message": MESSAGE,
                    "deltas": _list(_row({"enum": ["text", "thinking"]}, TEXT)),
                    "usage": USAGE,
                    "stop": TEXT,
                    "dollars": _or_null(NUMBER),
                }
            ),
        ]
    },
    "call": {
        "anyOf": [
            _object({"id": TEXT, "name": TEXT, "pending": {"enum": ["approval", "external"]}}),
            _object(
                {
                    "id": TEXT,
                    "name": TEXT,
                    "content": _list(CONTENT),
                    "error": {"enum": [*get_args(ToolErrorKind), None]},
                    "progress": _list(_row(NUMBER, _or_null(NUMBER), TEXT)),
                    "events": _list(HAPPENED),
                    "changes": _list(CHANGED),
                }
            ),
        ]
    },
}


def misfit(kind: str, line: Mapping[str, Any]) -> str:
    """Where and how the line is not what a line of this type is; "" where it is, or where the type is not known."""
    from jsonschema.exceptions import best_match

    shape = LINES.get(kind)
    error = best_match(_validator(kind).iter_errors(line)) if shape is not None else None
    if error is None:
        return ""
    place = ".".join(str(step) for step in error.absolute_path)
    return f"{place or kind}: {error.message}"


@cache
def _validator(kind: str) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(LINES[kind])
