"""Match names of tools and servers against patterns such as `get_*`, in time that no pattern can increase."""

from __future__ import annotations

from fnmatch import fnmatchcase

MOST_CHARACTERS = 1_000
"""Maximum length of a pattern, since its cost grows with the square of the length. A longer one matches only its own
text."""


def fits(name: str, glob: str) -> bool:
    """Return whether the name matches, as `fnmatch.fnmatchcase` does, in linear time.

    That function scans the whole rest for each unclosed bracket. Such brackets are literal, and are escaped here. A
    longer glob than `MOST_CHARACTERS` only matches itself.
    """
    if len(glob) > MOST_CHARACTERS:
        return name == glob
    last = glob.rfind("]") + 1
    return fnmatchcase(name, glob[:last] + glob[last:].replace("[", "[[]"))
