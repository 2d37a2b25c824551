"""Search with regular expressions that a model writes: detect them, find their literal words, and match tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from mcpagent.search.fields import MAX_TEXT, local_name
from mcpagent.search.postings import Postings
from mcpagent.search.query import is_arithmetic
from mcpagent.utilities.text.foreign_patterns import CpuBudget, PatternError, compiled
from mcpagent.values.messages import ToolDefinition

MAX_PATTERN = 200
"""Maximum length of a pattern; a longer one is searched as words."""

_LONGEST = 1_000
"""Maximum length of a text with spaces that is tested for being a pattern."""

DEADLINE_SECONDS = 0.1
"""CPU time of one search over all texts."""

_SURE_SIGN = re.compile(
    r"""\\[a-zA-Z.|()\[\]{}+*?^$\\]        # an escape
    | \(\? | \)[+?{] | \[[^\]\s]+\]       # a group with an operator, a class
    | \| | [*] | \.[+?]                   # alternatives, repeats
    | ^\^ | [\w)\]]\$$                    # anchors at the positions of anchors
    | \w\{\d | \w\?\w | \w\+\w*$        # repeats of one letter""",
    re.VERBOSE,
)


_SURE_SIGN_IN_PROSE = re.compile(r"\\[bdswBDSW.]|\.[*+]|\|")
_PROSE_WORDS = 8
"""Minimum number of words of a text in which brackets, question marks and links count as punctuation, not as a
pattern.
"""


def looks_like_pattern(query: str) -> bool:
    """Return whether the query looks like a regular expression of a single line.

    Prose with a question mark or brackets is not a pattern. Neither is arithmetic: `2+2` would match any tool with two
    2s.
    """
    start = query.strip()[:_LONGEST]
    if (
        "\n" in start
        or (len(query) > _LONGEST and " " in start)
        or is_arithmetic(start)
    ):
        return False
    query = start
    words = len(query.split())
    if (_SURE_SIGN if words < _PROSE_WORDS else _SURE_SIGN_IN_PROSE).search(query):
        return True
    return words <= 3 and any(
        query.count(left) != query.count(right) for left, right in ("()", "[]")
    )


def literal_words(pattern: str) -> str:
    """Return the words in the pattern, without its operators."""
    without_classes = re.sub(
        r"\\[a-zA-Z]|\[[^\]]*\]|\(\?[a-zA-Z]*[:)=!]?|\{[\d,]*\}", " ", pattern
    )
    return re.sub(r"[^\w\s\-']+", " ", without_classes)


def required_literal(pattern: str) -> str:
    """Return letters and digits that every match must contain, in lower case; "" if that is not certain."""
    if re.search(r"[|()\[\]{}]|\\[^bBsSwWdD.]", pattern) or not pattern.isascii():
        return ""
    plain = re.sub(r"\\.|[A-Za-z0-9][?*]", " ", pattern)
    return max(re.findall(r"[a-z0-9]+", plain.lower()), key=len, default="")


def may_match(
    pattern: str, tools: Mapping[int, ToolDefinition], postings: Postings
) -> dict[int, ToolDefinition]:
    """Return the tools that contain the literal parts of the pattern, so that the pattern is tried on few tools."""
    literal = required_literal(pattern)
    holding = []
    if literal:
        holding = [
            ids for word, ids in postings.words.items() if literal in word.lower()
        ]
    if not literal or not all(holding):
        return dict(tools)  # the pattern may match a word that is not indexed
    # A tool that has a word also has each of the word's terms, so the rarest term is enough.
    rarest = {min(ids, key=postings.count) for ids in holding}
    named = {number for number, tool in tools.items() if literal in tool.name.lower()}
    return {
        number: tools[number]
        for number in sorted(named.union(*map(postings.holding, rarest)))
    }


def searched_text(tool: ToolDefinition) -> str:
    """Return the text that a pattern is matched against: the tool's names and its description, each on a line."""
    local = local_name(tool)
    if local == tool.name:
        names = tool.name
    else:
        names = f"{tool.name}\n{local}"
    return f"{names}\n{tool.description[:MAX_TEXT]}"


def matching(pattern: str, texts: Iterable[str]) -> list[int]:
    """Return the indices of the texts that the pattern matches anywhere, ignoring case.

    Raises `PatternError` if the pattern is too long or invalid, or needs more than 100 ms of CPU for all texts
    together.
    """
    if len(pattern) > MAX_PATTERN:
        raise PatternError(f"the pattern is longer than {MAX_PATTERN} characters")
    runnable = compiled(pattern, any_case=True)
    patience = CpuBudget(DEADLINE_SECONDS)
    return [
        place for place, text in enumerate(texts) if patience.search(runnable, text)
    ]
