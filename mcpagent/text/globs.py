"""Match names of tools and servers against patterns such as `get_*`, in time that no pattern can increase."""

from __future__ import annotations

from fnmatch import fnmatchcase

MOST_CHARACTERS = 1_000
"""Of a pattern: what a longer one costs grows with its square. It still is the name that it spells."""


def fits(name: str, glob: str) -> bool:
    """`fnmatch.fnmatchcase`, which goes through all of the rest for each bracket that is not closed: those are letters,
    and are written so here."""
    if len(glob) > MOST_CHARACTERS:
        return name == glob
    last = glob.rfind("]") + 1
    return fnmatchcase(name, glob[:last] + glob[last:].replace("[", "[[]"))
