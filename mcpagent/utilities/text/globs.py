"""Match names of tools and servers against patterns such as `get_*`, in bounded time for any pattern."""

from __future__ import annotations

from fnmatch import fnmatchcase

MOST_CHARACTERS = 1_000
"""Maximum length of a pattern, since its cost grows with the square of the length. A longer pattern matches only a name
equal to it.
"""


def fits(name: str, glob: str) -> bool:
    """Return whether the name matches the glob as in `fnmatch.fnmatchcase`, but in linear time.

    `fnmatchcase` scans the rest of the glob for each unclosed bracket, so such brackets, which are literal, are escaped
    here. A glob longer than `MOST_CHARACTERS` matches only itself.
    """
    if len(glob) > MOST_CHARACTERS:
        return name == glob
    last = glob.rfind("]") + 1
    return fnmatchcase(name, glob[:last] + glob[last:].replace("[", "[[]"))
