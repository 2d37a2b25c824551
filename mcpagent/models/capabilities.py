"""Capabilities of each model family for tools that are added in the middle of a conversation.

Each row has its source. A model without a row gets the safe default: found tools are added at the end of `tools`. Every
adapter accepts `capabilities=` to override its row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from mcpagent.models.base import ToolLimits
from mcpagent.models.endpoints.model_identity import ModelIdentity, Version, identity_of
from mcpagent.models.profiles import (
    UNKNOWN,
    caching_of,
    is_at_openai,
    profile_of,
    server_of,
)
from mcpagent.values.messages import Origin

NO_LIMITS = ToolLimits()

Discovery: TypeAlias = Literal[
    "append", "batches", "references", "additional_tools", "call_tool"
]
"""The way in which a request contains tools that were found later:

- "append": at the end of `tools`; the cached prefix ends before the tools.
- "batches": the tools of the first two searches like "append", later ones like "call_tool". So a conversation loses its
  cached prefix at most twice.
- "references": as a deferred definition, and a `tool_reference` at the position of the discovery.
- "additional_tools": as an item at the position of the discovery.
- "call_tool": not as a tool. The definition is text at the position of the discovery, and the tool is called through
  one proxy tool, for models whose cache matters more than native calls.
"""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a model.

    `tool_changes`: tools can be removed ("by_reference"), and also redefined ("by_value"), inside the history.
    `allowed_tools`: a request can list the callable tools, so that a tool is removed without changing the prefix.
    `searches`: the provider can search deferred tools itself. `source` is the source of these facts. Values that are
    set in `limits` override the known limits of the model's address.
    """

    discovery: Discovery = "append"
    tool_changes: Literal["none", "by_reference", "by_value"] = "none"
    allowed_tools: bool = False
    searches: bool = False
    limits: ToolLimits = NO_LIMITS
    source: str = "nothing is known of this model: the safe way"

    @property
    def rewrites(self) -> float:
        """The share of searches that change the beginning of a request: two of eight with "batches"."""
        if self.discovery == "append":
            return 1.0
        if self.discovery == "batches":
            return 0.25
        return 0.0

    @property
    def joining(self) -> bool:
        """Return whether a tool that is added without a search preserves the prefix as well as a discovered one.

        It does not if only the result of a call can refer to it.
        """
        return self.discovery != "references" or self.tool_changes != "none"


APPENDING = Capabilities(
    "append", source="nothing is cached here, so a rewritten beginning costs nothing"
)

SAFE = Capabilities(
    "batches",
    source="nothing is known of this model: the way that every one can follow",
)

KEEPING = Capabilities(
    "call_tool",
    source="benchmarks/cost.py: the dearest part of a conversation stays cached",
)
"""For a protocol or model that accepts found tools only at the beginning of the request."""

_REFERENCES = (
    "Anthropic docs, tool search, 'model support' (Nov 2026); "
    "recorded: sonnet-4-5, -4-6, -5, opus-4-8, haiku-4-5"
)
_CHANGES = (
    "Anthropic docs, mid-conversation tool changes (Nov 2026); recorded: opus-4-8"
)
_ADDITIONAL = (
    "SDK type AdditionalTools; recorded: gpt-5, gpt-5.6; "
    "reported by pydantic-ai for 13 models, 4o-mini to 5.6"
)

_Row: TypeAlias = tuple[str, Version, Version, Capabilities]

_CHANGING = Capabilities("references", "by_value", searches=True, source=_CHANGES)
_REFERRING = Capabilities("references", searches=True, source=_REFERENCES)
_ANTHROPIC: tuple[_Row, ...] = (
    # families, first and last version, capabilities; the first matching row counts
    ("fable mythos", (5, 0), (5, 9), _CHANGING),
    ("opus", (4, 8), (5, 5), _CHANGING),
    ("sonnet haiku", (5, 5), (5, 5), _CHANGING),
    ("opus", (4, 5), (4, 7), _REFERRING),
    ("sonnet haiku", (4, 5), (5, 4), _REFERRING),
)

_HOSTED = "OpenAI docs, tool search (Nov 2026); recorded: gpt-5.4"
_INLINE = Capabilities("additional_tools", allowed_tools=True, source=_ADDITIONAL)
_INLINE_AND_HOSTED = replace(_INLINE, searches=True, source=f"{_ADDITIONAL}; {_HOSTED}")

_OPENAI: tuple[_Row, ...] = (
    ("gpt-4o", (4, 0), (4, 0), _INLINE),
    ("gpt-nano", (4, 1), (5, 6), _INLINE),
    ("gpt", (4, 1), (5, 3), _INLINE),
    ("gpt", (5, 4), (5, 6), _INLINE_AND_HOSTED),
    (
        "gpt",
        (6, 0),
        (6, 9),
        replace(
            _INLINE_AND_HOSTED,
            source=f"{_HOSTED}; additional_tools by the SDK's type alone",
        ),
    ),
)


def anthropic_capabilities(model_name: str) -> Capabilities:
    """Return the capabilities of a Claude model by family and version, for any spelling of the name."""
    model = identity_of(model_name)
    if model.maker == "anthropic":
        return _looked_up(_ANTHROPIC, model)
    return SAFE


def openai_capabilities(model_name: str) -> Capabilities:
    """Return the capabilities at OpenAI's own Responses endpoint: `gpt-5.4-mini-2026-03-17`, `gpt-4o-mini`.

    A known model without these features gets found tools through the proxy tool `call_tool`.
    """
    found = _looked_up(_OPENAI, identity_of(model_name))
    if found is SAFE and profile_of(Origin("openai", model=model_name)) is not UNKNOWN:
        return KEEPING
    return found


def capabilities_of(to: Origin) -> Capabilities:
    """Return the capabilities of the model at its address, in the protocol of that address."""
    if to.protocol == "messages":
        return _in_cloud(anthropic_capabilities(to.model), to)
    if to.protocol == "responses" and is_at_openai(to):
        return openai_capabilities(to.model)
    server = server_of(to)
    is_known = server.dialect != "openai" or profile_of(to) is not UNKNOWN
    keeps = (server.proxies and is_known) or caching_of(to) == "markers"
    if keeps:
        return KEEPING
    if caching_of(to) == "none":
        return APPENDING
    return SAFE


def _in_cloud(known: Capabilities, to: Origin) -> Capabilities:
    """Return the capabilities in a cloud: Bedrock and Vertex accept tool changes only by reference (Anthropic docs,
    mid-conversation tool changes).
    """
    if caching_of(to) == "markers" and known.tool_changes == "by_value":
        return replace(known, tool_changes="by_reference")
    return known


def _looked_up(rows: tuple[_Row, ...], model: ModelIdentity) -> Capabilities:
    for families, first, last, can in rows:
        if model.family in families.split() and first <= model.version <= last:
            return can
    return SAFE
