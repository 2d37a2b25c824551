"""Hints for the model during a run: small models need more of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mcpagent.values.limits.repeats import REPEATS_TOLD, REPEATS_TOLD_SMALL

_NAMES = re.compile(r"([A-Za-z0-9_.-]{1,128})(\(|`)?")
_A_TOOL = re.compile(
    r"`[A-Za-z0-9_.-]{1,128}` (function|tool)\b|\b(use|call|using|calling) (a|the|this) (function|tool)\b"
)


@dataclass(frozen=True, slots=True)
class ModelHints:
    """The hints that one model receives.

    `repeats_allowed`: how often it may repeat a call before a warning. `loads_weak_matches`: a prompt also loads tools
    that match it weakly. `reminds_to_call`: a model that only writes about a tool is reminded once to call it.
    `restates_progress`: notes repeat the question, list the results so far and name missing parts. An apology after a
    successful call is then answered once with such a note.
    """

    repeats_allowed: int = REPEATS_TOLD
    loads_weak_matches: bool = False
    reminds_to_call: bool = False
    restates_progress: bool = False


NO_HINTS = ModelHints()
SMALL_MODEL_HINTS = ModelHints(
    REPEATS_TOLD_SMALL,
    loads_weak_matches=True,
    reminds_to_call=True,
    restates_progress=True,
)


def tool_written_about(text: str, offered: Sequence[str]) -> str:
    """Return the offered tool that an answer without a call writes about.

    Returns "a tool" if the answer is about a tool but names none, "" if it is not about tools.
    """
    if not offered:
        return ""
    names = {
        word.rstrip(".-") for word, call in _NAMES.findall(text) if "_" in word or call
    }
    for name in offered:
        if name in names:
            return f'"{name}"'
    # In an answer with a code block, names of functions usually belong to that code.
    if "```" not in text and _A_TOOL.search(text):
        return "a tool"
    return ""
