"""The chat's slash commands: `table` lists them and loads when the first one is typed."""

from __future__ import annotations


def is_command(line: str) -> bool:
    """`/word`; a path such as /etc/hosts is part of a question."""
    word = line.strip().partition(" ")[0]
    return word.startswith("/") and "/" not in word[1:] and "\n" not in word and len(word) > 1
