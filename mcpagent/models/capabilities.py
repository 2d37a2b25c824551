"""The capabilities of model families: tools that appear in the middle of a conversation, and numbers of tools.

Each row has its source. A model without a row gets the safe default: newly found tools at the end of `tools`. Every
adapter accepts `capabilities=` to override its row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from mcpagent.messages import Origin
from mcpagent.models.base import ToolLimits
from mcpagent.models.origins import address_of
from mcpagent.models.prices import OWN_SERVERS, context_window
from mcpagent.models.profiles import UNKNOWN, profile_of, server_of

NO_LIMITS = ToolLimits()

Discovery: TypeAlias = Literal["append", "references", "additional_tools", "call_tool"]
"""How a found tool is written.

"append": at the end of `tools`; the cached prefix ends before the tools. "references": as a deferred definition, and a
`tool_reference` where it was found. "additional_tools": as an item where it was found. "call_tool": not as a tool at
all; its definition is text where it was found, and it is called through one proxy tool, for caches that matter more
than native calls.
"""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a model.

    `tool_changes`: whether tools can be withdrawn ("by_reference") and redefined ("by_value") inside the history.
    `allowed_tools`: whether a request can list the callable tools, so that one is withdrawn without a change of the
    prefix. `searches`: whether the provider can search deferred tools itself. `source` is the source of these facts.
    Each value set in `limits` overrides the known limit of the model's address.
    """

    discovery: Discovery = "append"
    tool_changes: Literal["none", "by_reference", "by_value"] = "none"
    allowed_tools: bool = False
    searches: bool = False
    limits: ToolLimits = NO_LIMITS
    source: str = "nothing is known of this model: the safe way"

    @property
    def joining(self) -> bool:
        """True if a tool that joins by itself keeps the prefix as a discovered one does.

        It does not if only the result of a call can refer to it.
        """
        return self.discovery != "references" or self.tool_changes != "none"


SAFE = Capabilities()

KEEPING = Capabilities("call_tool", source="benchmarks/cost.py: the dearest part of a conversation stays cached")
"""For a format, or a model, that has no other way to say that a tool was found than the beginning of the request."""

_REFERENCES = (
    "Anthropic docs, tool search, 'model support' (Nov 2026); recorded: sonnet-4-5, -4-6, -5, opus-4-8, haiku-4-5"
)
_CHANGES = "Anthropic docs, mid-conversation tool changes (Nov 2026); recorded: opus-4-8"
_ADDITIONAL = (
    "SDK type AdditionalTools; recorded: gpt-5, gpt-5.6; reported by pydantic-ai for 13 models, 4o-mini to 5.6"
)

_Version: TypeAlias = tuple[int, int]
_Row: TypeAlias = tuple[str, _Version, _Version, Capabilities]

_ANTHROPIC: tuple[_Row, ...] = (
    # family, from version, to version (both included), what it can; the first row that fits counts
    ("fable", (5, 0), (5, 9), Capabilities("references", "by_value", searches=True, source=_CHANGES)),
    ("mythos", (5, 0), (5, 9), Capabilities("references", "by_value", searches=True, source=_CHANGES)),
    ("opus", (4, 8), (5, 5), Capabilities("references", "by_value", searches=True, source=_CHANGES)),
    ("sonnet", (5, 5), (5, 5), Capabilities("references", "by_value", searches=True, source=_CHANGES)),
    ("haiku", (5, 5), (5, 5), Capabilities("references", "by_value", searches=True, source=_CHANGES)),
    ("opus", (4, 5), (4, 7), Capabilities("references", searches=True, source=_REFERENCES)),
    ("sonnet", (4, 5), (5, 4), Capabilities("references", searches=True, source=_REFERENCES)),
    ("haiku", (4, 5), (5, 4), Capabilities("references", searches=True, source=_REFERENCES)),
)

_HOSTED = "OpenAI docs, tool search (Nov 2026); recorded: gpt-5.4"
_INLINE = Capabilities("additional_tools", allowed_tools=True, source=_ADDITIONAL)
_INLINE_AND_HOSTED = replace(_INLINE, searches=True, source=f"{_ADDITIONAL}; {_HOSTED}")

_OPENAI: tuple[_Row, ...] = (
    ("gpt-4o", (4, 0), (4, 0), _INLINE),
    ("gpt-nano", (4, 1), (5, 6), _INLINE),
    ("gpt", (4, 1), (5, 3), _INLINE),
    ("gpt", (5, 4), (5, 6), _INLINE_AND_HOSTED),
    ("gpt", (6, 0), (6, 9), replace(_INLINE_AND_HOSTED, source=f"{_HOSTED}; additional_tools by the SDK's type alone")),
)

_MAX_TOOLS_OF_ONES_OWN = 32
"""Where small models end: llama3.2:3b picks none right beyond it (github.com/redhat-et/llama-stack-on-ocp)."""

_WINDOW_OF_ONES_OWN: Mapping[str, int] = {"ollama": 4096, "lmstudio": 4096, "llamacpp": 4096}
"""What these servers start a model with on a usual machine (docs.ollama.com/context-length: below 24 GiB of VRAM),
whatever the model could take. Ollama leaves out what is too long without a word. vLLM takes the model's own size."""

_CLAUDE = re.compile(r"claude-(?P<family>[a-z]+)-(?P<major>\d+)(?:-(?P<minor>\d{1,2}))?(?:[-@]\d{8})?")
_GPT = re.compile(r"(?P<family>gpt)-(?P<major>\d+)(?:\.(?P<minor>\d+))?(?:-[a-z0-9-]+)?")
_GPT_4O = re.compile(r"gpt-4o(?:-mini)?(?:-\d{4}-\d{2}-\d{2})?")


def known_limits(provider: str, model_name: str, base_url: str) -> ToolLimits:
    """Return the known limits: the number of tools by the address, the window from the price table."""
    if provider in OWN_SERVERS:
        return ToolLimits(_MAX_TOOLS_OF_ONES_OWN, _WINDOW_OF_ONES_OWN.get(provider))
    server = server_of(Origin(provider, address=address_of(base_url), model=model_name))
    return ToolLimits(server.most_tools(model_name), context_window(provider, model_name, base_url))


def anthropic_capabilities(model_name: str) -> Capabilities:
    """Return capabilities by family and version: `claude-opus-4-8`, with or without a date."""
    return _looked_up(_ANTHROPIC, _family_and_version(_CLAUDE, model_name))


def openai_capabilities(model_name: str) -> Capabilities:
    """Return capabilities at OpenAI's own Responses endpoint: `gpt-5.4-mini-2026-03-17`, `gpt-4o-mini`.

    A known model without any of them receives found tools through `call_tool`.
    """
    if _GPT_4O.fullmatch(model_name):
        return _looked_up(_OPENAI, ("gpt-4o", (4, 0)))
    asked = _family_and_version(_GPT, model_name)
    if asked is not None and "-nano" in model_name:
        asked = ("gpt-nano", asked[1])
    found = _looked_up(_OPENAI, asked)
    return KEEPING if found is SAFE and profile_of(Origin("openai", model=model_name)) is not UNKNOWN else found


def chat_capabilities(to: Origin) -> Capabilities:
    """Return capabilities for Chat Completions, and for Responses at other servers than OpenAI.

    They depend on whether the server caches sent prefixes; at OpenAI and Azure, the model must be known, too.
    """
    server = server_of(to)
    is_known = server.dialect != "openai" or profile_of(to) is not UNKNOWN
    return KEEPING if server.caches and is_known else SAFE


def _family_and_version(pattern: re.Pattern[str], model_name: str) -> tuple[str, _Version] | None:
    found = pattern.fullmatch(model_name)
    return (found["family"], (int(found["major"]), int(found["minor"] or 0))) if found else None


def _looked_up(rows: tuple[_Row, ...], asked: tuple[str, _Version] | None) -> Capabilities:
    if asked is None:
        return SAFE
    family, version = asked
    fitting = (can for row, first, last, can in rows if row == family and first <= version <= last)
    return next(fitting, SAFE)
