"""Patterns for names of tools, as `add_tool` and `pre_discovered_tools` accept them."""

from __future__ import annotations

from collections.abc import Mapping

from mcpagent.search.name_index import written_names
from mcpagent.search.pattern import looks_like_pattern, matching
from mcpagent.utilities.text.foreign_patterns import PatternError
from mcpagent.utilities.text.globs import fits
from mcpagent.values.tools import Tool


def is_glob(name: str) -> bool:
    """Return whether the name contains the wildcards `*` or `?`."""
    return "*" in name or "?" in name


def names_that_fit(known: Mapping[str, Tool], glob: str) -> list[str]:
    """Return the sorted names of tools that match the glob with or without their server's name, ignoring case."""
    folded = glob.casefold()
    return sorted(
        name
        for name, tool in known.items()
        if any(fits(one.casefold(), folded) for one in written_names(tool.definition))
    )


def names_by_pattern(known: Mapping[str, Tool], pattern: str) -> list[str]:
    """Return the names of tools that match the pattern as a glob, else as a regular expression.

    Returns [] if the text is not a pattern, or a regular expression that cannot run.
    """
    if is_glob(pattern) and (fitting := names_that_fit(known, pattern)):
        return fitting
    if not looks_like_pattern(pattern):
        return []
    names = sorted(known)
    texts = ["\n".join(written_names(known[name].definition)) for name in names]
    try:
        return [names[place] for place in matching(pattern, texts)]
    except PatternError:
        return []
