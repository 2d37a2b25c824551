"""Find out whether the user wrote a changed tool: then its new texts are in the project's files.

The start command of a program does not show whose code it runs. Texts in the project's files do: neither an updated
package nor a tool list from the network puts them there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from mcpagent.permissions.trust.commits import files_of_project
from mcpagent.utilities.filesystem.bounded_files import read_bounded

MOST_FILES, MOST_BYTES = 5_000, 20_000_000
"""Maximum number of files that are searched, and of bytes that are read; the newest files come first."""

_MOST_OF_FILE = 1_000_000
_WORD = re.compile(r"[^\W_]+")


def are_written_in(folder: Path, texts: Iterable[str], tool: str) -> bool:
    """Return whether each line of two or more words in the texts appears in a file of the project.

    Punctuation, case, quotation marks and line breaks are ignored, since code may split a text. The code may have a
    variable instead of the tool's name. Lines of a single word, such as names and types, are ignored.
    """
    name = _words_of(tool)
    lines = {_words_of(line) for text in texts for line in text.splitlines()}
    missing = {_pattern_of(line, name) for line in lines if " " in line}
    for content in _contents(folder) if missing else ():
        missing = {pattern for pattern in missing if pattern.search(content) is None}
        if not missing:
            break
    return not missing


def _pattern_of(line: str, name: str) -> re.Pattern[str]:
    parts = [line]
    if name:
        parts = re.split(rf"\b{re.escape(name)}\b", line)
    return re.compile(r"\w+(?: \w+){0,3}".join(map(re.escape, parts)))


def _contents(folder: Path) -> Iterator[str]:
    paths = [
        path
        for path in islice(files_of_project(folder), MOST_FILES)
        if os.path.isfile(path)
    ]
    paths = [path for path in paths if not os.path.islink(path)]
    room = MOST_BYTES
    for path in sorted(paths, key=_changed_at, reverse=True):
        try:
            data = read_bounded(path, min(_MOST_OF_FILE, room))
        except OSError:
            continue
        room -= len(data)
        yield _words_of(data.decode("utf-8", "replace"))


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _words_of(text: str) -> str:
    return " ".join(_WORD.findall(text.lower()))
