"""Convert a server's tool to its form for a model, and a model's arguments back to the server's form.

The listed definition is stored unchanged, for pins and comparison. A model receives its texts through `for_model`, cut
to `MAX_DESCRIPTION`, and those of parameters to `MAX_PARAMETER_TEXT`. In values that the model must return exactly
(names of parameters, values of `enum`, `const`, defaults, examples), invisible characters become escapes; the arguments
get the original characters back.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mcpagent.utilities.text.for_model import (
    MAX_DESCRIPTION,
    cut_for_model,
    for_model,
    line_for_model,
    spelled,
)
from mcpagent.utilities.text.json_texts import texts_in, with_texts
from mcpagent.values.messages import ToolDefinition

_PROSE = frozenset({"description", "title", "$comment", "markdownDescription"})
_DATA = frozenset({"enum", "const", "default", "examples", "example"})
_BY_NAME = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_LONG_TEXT = re.compile(rf'"[^"]{{{MAX_DESCRIPTION - 1}}}')
_AS_JSON = json.JSONEncoder(ensure_ascii=False)
_CONTROL_IN_JSON = re.compile(r"\\[ubfr]|\x7f")
_AT_ONCE = 100
MAX_PARAMETER_TEXT = 8_192
"""Maximum length of a parameter's texts, longer than for tools: the format of one real server's parameter takes 5,231
characters.
"""

_DEEPEST = 100
"""Maximum depth of a schema for a model; deeper parts accept any value."""


@dataclass(frozen=True, slots=True)
class ShownTool:
    """The definition for a model; `originals` maps each changed text to the server's original."""

    definition: ToolDefinition
    originals: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, listed: ToolDefinition) -> ShownTool:
        """Return the form of a listed tool for a model; the same definition if nothing has to change. Idempotent."""
        if _is_plain(listed):
            return cls(listed)
        writer = _SchemaWriter()
        parameters = writer.schema(listed.parameters)
        shown = replace(
            listed,
            description=cut_for_model(listed.description),
            title=line_for_model(listed.title, 100),
            parameters=parameters,
        )
        if shown == listed:
            return cls(listed)
        if writer.originals:
            own = set(texts_in(listed.parameters))
        else:
            own = set[str]()
        return cls(
            shown,
            {
                shown: text
                for shown, text in writer.originals.items()
                if shown not in own
            },
        )

    def arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return a model's arguments with the server's own spelling of names and values."""
        if not self.originals:
            return given
        restored: dict[str, Any] = with_texts(
            given, lambda text: self.originals.get(text, text)
        )
        return restored


def are_plain(listed: Sequence[ToolDefinition]) -> bool:
    """Return whether none of the tools needs a change, by a quick check: ten thousand take 50 ms, in short steps."""
    steps = range(0, len(listed), _AT_ONCE)
    return all(_are_plain(listed[start : start + _AT_ONCE]) for start in steps)


def _are_plain(listed: Sequence[ToolDefinition]) -> bool:
    try:
        text = _AS_JSON.encode(
            [[tool.description, tool.title, tool.parameters] for tool in listed]
        )
    except (RecursionError, TypeError, ValueError):
        return False
    is_plain = (
        text.isascii()
        and not _CONTROL_IN_JSON.search(text)
        and not _LONG_TEXT.search(text.replace('\\"', "  "))
    )
    return is_plain and all(
        not tool.title or line_for_model(tool.title, 100) == tool.title
        for tool in listed
    )


def _is_plain(listed: ToolDefinition) -> bool:
    """Return whether a tool needs no change, which is the case for nearly all, by a quick check."""
    if len(listed.description) > MAX_DESCRIPTION or (
        listed.title and line_for_model(listed.title, 100) != listed.title
    ):
        return False
    try:
        text = _AS_JSON.encode([listed.description, listed.parameters])
    except (RecursionError, TypeError, ValueError):
        return False
    is_short = (
        len(text) <= 2 * MAX_DESCRIPTION
        and len(text) - len(listed.description) <= MAX_DESCRIPTION
    )
    return is_short and text.isascii() and _CONTROL_IN_JSON.search(text) is None


class _SchemaWriter:
    """Writes schemas for a model; `originals` collects the texts whose spelling changes."""

    def __init__(self) -> None:
        self.originals: dict[str, str] = {}

    def schema(self, value: Any, depth: int = 0) -> Any:
        """Return a schema, or the value of a keyword, in its form for a model."""
        if isinstance(value, str):
            return self.exact(value)
        if depth > _DEEPEST:
            return {}
        if isinstance(value, list):
            return [self.schema(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        # A pattern without its invisible characters would be a different pattern.
        shown = {
            key: item
            for key, item in value.items()
            if not (key == "pattern" and _hides(item))
        }
        return {
            self.exact(key): self._keyword(key, item, depth)
            for key, item in shown.items()
        }

    def _keyword(self, key: str, value: Any, depth: int) -> Any:
        if key in _PROSE and isinstance(value, str):
            return cut_for_model(value, MAX_PARAMETER_TEXT)
        if key in _DATA:
            return self._data(value, depth + 1)
        if key in _BY_NAME and isinstance(value, dict):
            named = {
                name: item
                for name, item in value.items()
                if not (key == "patternProperties" and _hides(name))
            }
            return {
                self.exact(name): self.schema(item, depth + 1)
                for name, item in named.items()
            }
        return self.schema(value, depth + 1)

    def _data(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.exact(value)
        if depth > _DEEPEST:
            return None
        if isinstance(value, list):
            return [self._data(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {
                self.exact(key): self._data(item, depth + 1)
                for key, item in value.items()
            }
        return value

    def exact(self, text: str) -> str:
        """Return a text that the model may have to return exactly, in its form for a model."""
        # a longer text cannot fit, as escapes only make it longer
        shown = ""
        if len(text) <= MAX_DESCRIPTION:
            shown = spelled(text)
        if len(text) > MAX_DESCRIPTION or len(shown) > MAX_DESCRIPTION:
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[
                :8
            ]
            note = f" [cut here: text {digest}]"
            shown = spelled(text[: MAX_DESCRIPTION // 8]) + note
        if shown != text:
            self.originals[shown] = text
        return shown


def _hides(pattern: Any) -> bool:
    return isinstance(pattern, str) and for_model(pattern) != pattern
