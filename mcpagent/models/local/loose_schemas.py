r"""Simplify tool schemas for servers that compile them to a grammar and refuse a request with an unsupported schema.

llama.cpp accepts a `pattern` only from `^` to `$` and without classes such as `\d`, and refuses large repetitions.
Unsupported keywords are omitted: arguments are validated against the original schema anyway.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from mcpagent.utilities.json_schema.parts import rewritten

_REFUSED = (
    "grammar",
    "json schema",
    "json_schema",
    "schema conversion",
    "pattern must start",
)
_LEFT_OUT = frozenset(
    {
        *(
            "pattern",
            "patternProperties",
            "propertyNames",
            "format",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
        ),
        *(
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "uniqueItems",
            "contains",
        ),
        *(
            "minProperties",
            "maxProperties",
            "not",
            "if",
            "then",
            "else",
            "dependentRequired",
            "dependentSchemas",
        ),
    }
)
_TAKEN_PATTERN = re.compile(r"\^(?:[^\\$^]|\\[^A-Za-z0-9])*\$")

OmittedParts: TypeAlias = Callable[[str, Any], bool]
"""Callback that returns whether to omit a schema's keyword with this value."""


def beyond_grammars(keyword: str, value: Any) -> bool:  # noqa: ARG001
    """Return whether the grammar of some server does not support the keyword."""
    return keyword in _LEFT_OUT


def beyond_llamacpp(keyword: str, value: Any) -> bool:
    """Return whether llama.cpp does not support this `pattern`: not from `^` to `$`, or with unknown classes or
    groups.
    """
    is_pattern = keyword == "pattern" and isinstance(value, str)
    return is_pattern and (not _TAKEN_PATTERN.fullmatch(value) or "(?" in value)


def refuses_schemas(message: str) -> bool:
    """Return whether an error's text reports that a schema cannot be compiled to a grammar."""
    return any(words in message.lower() for words in _REFUSED)


def loose_schema(schema: Any, left_out: OmittedParts = beyond_grammars) -> Any:
    """Return the schema without keywords that a grammar may not support."""
    return rewritten(
        schema,
        lambda one: {key: rule for key, rule in one.items() if not left_out(key, rule)},
    )


def with_loose_schemas(
    body: Mapping[str, Any], left_out: OmittedParts = beyond_grammars
) -> dict[str, Any]:
    """Return a request body of any of the three protocols with simplified schemas of its tools and its output
    format.
    """
    made = dict(body)
    if isinstance(body.get("tools"), list):
        made["tools"] = [_loose_tool(tool, left_out) for tool in body["tools"]]
    match body.get("response_format"):
        case {"json_schema": {"schema": schema, **named}, **kind}:
            made["response_format"] = {
                **kind,
                "json_schema": {**named, "schema": loose_schema(schema, left_out)},
            }
        case _:
            pass
    return made


def _loose_tool(tool: Any, left_out: OmittedParts) -> Any:
    if not isinstance(tool, Mapping):
        return tool
    schemas = {
        key: loose_schema(tool[key], left_out)
        for key in ("parameters", "input_schema")
        if key in tool
    }
    inner = {}
    if "function" in tool:
        inner = {"function": _loose_tool(tool["function"], left_out)}
    return {**tool, **schemas, **inner}
