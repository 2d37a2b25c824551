"""Secrets taken out of text: by their value if it is known, and by the shapes that issuers give their keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote

from mcpagent.text.known_secrets import REDACTED, SHORTEST

_NAME = re.compile(r"key|token|secret|pass|auth|cred|pwd|cookie", re.IGNORECASE)

_PATH = re.compile(r"(?:[A-Za-z]:[\\/]|~?/)[^+=]*", re.DOTALL)
"""Base64, which has the slash too, may begin with one: with 24 bytes or more it hardly ever has no + or = in it."""

_SHAPES = re.compile(
    r"""
      \b sk-[A-Za-z0-9_-]{16,}                                # OpenAI, Anthropic, OpenRouter
    | \b (?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}             # GitHub
    | \b github_pat_[A-Za-z0-9_]{20,}
    | \b glpat-[A-Za-z0-9_-]{16,}                             # GitLab
    | \b xox[abeprs]-[A-Za-z0-9-]{10,}                        # Slack
    | \b xapp-[A-Za-z0-9-]{20,}
    | \b (?:AKIA|ASIA)[A-Z0-9]{16} \b                         # AWS
    | \b AIza[A-Za-z0-9_-]{30,}                               # Google
    | \b ya29\.[A-Za-z0-9_-]{20,}
    | \b (?:hf|npm|dop_v1|gsk|pypi|r8|nvapi|tvly|lin_api|ntn|secret)_?[-_][A-Za-z0-9_-]{20,}
    | \b (?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}          # Stripe
    | \b SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}           # SendGrid
    | \b eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*   # JSON Web Tokens
    | (?<=Bearer\ ) [A-Za-z0-9._~+/=-]{16,}
    | (?<=://) [^\s/:@"']{1,100} : [^\s/@"']{1,200} (?=@)     # user:password in an address
    | -----BEGIN\ [A-Z ]{0,20}PRIVATE\ KEY----- [A-Za-z0-9+/=\s\\:,.-]{0,20000}? -----END\ [A-Z ]{0,20}PRIVATE\ KEY-----
    """,
    re.VERBOSE,
)

Redact: TypeAlias = Callable[[str], str]


def without_shapes(text: str) -> str:
    """The text without what looks like a key, whoever's it is."""
    return _SHAPES.sub(REDACTED, text)


def without_credentials(url: str) -> str:
    """The address without the user and password that may stand in it."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}" if separator else url


def names_a_secret(name: str) -> bool:
    """Whether a variable, header or option of this name usually holds a secret."""
    return bool(_NAME.search(name))


def redactor(values: Iterable[str]) -> Redact:
    """Replaces these values, also as they stand in JSON and in addresses, and everything that looks like a key."""
    without_values = value_redactor(values)
    return lambda text: without_shapes(without_values(text))


def value_redactor(values: Iterable[str]) -> Redact:
    """Replaces these values alone, also as they stand in JSON and in addresses."""
    spellings = {
        spelling
        for value in values
        if len(value) >= SHORTEST
        for spelling in (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], quote(value, ""))
    }
    if not spellings:
        return str
    # The longest first: one secret may begin with another.
    known = re.compile("|".join(map(re.escape, sorted(spellings, key=lambda item: (-len(item), item)))))
    return lambda text: known.sub(REDACTED, text)


def secrets_in(environ: Mapping[str, str]) -> list[str]:
    """The values of an environment whose names say that they are secret, but for paths.

    PWD is a folder, SSH_AUTH_SOCK a socket: these would be taken out of all that is said of files.
    """
    return [
        value
        for name, value in environ.items()
        if names_a_secret(name) and len(value) >= SHORTEST and not _PATH.fullmatch(value)
    ]


def redacted(data: Any, redact: Redact) -> Any:
    """JSON data with every text in it redacted, keys too."""
    if isinstance(data, str):
        return redact(data)
    if isinstance(data, Mapping):
        return {redacted(key, redact): redacted(value, redact) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [redacted(value, redact) for value in data]
    return data
