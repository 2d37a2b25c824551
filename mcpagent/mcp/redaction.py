"""Secrets of a server's configuration taken out of what is shown about it: errors, warnings, its last words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

from mcpagent.config import ServerConfig

_SECRET_NAME = re.compile(r"key|token|secret|pass|auth|cred|pwd|cookie|session", re.IGNORECASE)
_SHORTEST = 6
_MARK = "[redacted]"


class Redactor:
    """Replaces each secret value of one configuration wherever it appears.

    Secrets are all header values, and the environment and query values whose name or look says so; shorter ones than
    six characters are left, since replacing them would spoil the text and hide nothing.
    """

    def __init__(self, config: ServerConfig) -> None:
        values = sorted(
            {value for value in secrets_of(config) if len(value) >= _SHORTEST}, key=lambda value: -len(value)
        )
        self._pattern = re.compile("|".join(map(re.escape, values))) if values else None

    def __call__(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(_MARK, text)


def secrets_of(config: ServerConfig) -> Iterator[str]:
    """The values of a server's configuration that must not be shown."""
    for name, value in config.headers.items():
        if name.lower() not in ("accept", "content-type", "user-agent"):
            yield value
            yield from value.split()[1:]  # what follows "Bearer"
    for name, value in config.env.items():
        if _SECRET_NAME.search(name) or _looks_random(value):
            yield value
    for name, value in parse_qsl(urlsplit(config.url).query):
        if _SECRET_NAME.search(name) or _looks_random(value):
            yield value


def _looks_random(value: str) -> bool:
    """Long, with letters and digits and nothing that a path, address or sentence has."""
    return bool(re.fullmatch(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_\-+=.]{20,}", value))
