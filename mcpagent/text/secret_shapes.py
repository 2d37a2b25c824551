"""Secrets taken out of text: by their value if it is known, and by the shapes that issuers give their keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote

from mcpagent.text.known_secrets import REDACTED, SHORTEST

_PLACE = re.compile(r"^(OLD)?PWD$|(AUTHORITY|_SOCK|_FILE|_PATH|_DIR|_HOME|_CREDENTIALS|_CONFIG)$")
_PATH = re.compile(r"[A-Za-z]:[\\/]|~?/")
_NAME = re.compile(r"key|token|secret|pass|auth|cred|pwd|cookie|bearer|jwt|(?<![a-z])pat(?![a-z])", re.IGNORECASE)

_PREFIXES = ("hf", "npm", "dop_v1", "gsk", "pypi", "r8", "nvapi", "tvly", "lin_api", "ntn", "secret")
_KEY_BEGINS, _KEY_ENDS = r"-----BEGIN\ [A-Z ]{0,20}PRIVATE\ KEY-----", r"-----END\ [A-Z ]{0,20}PRIVATE\ KEY-----"

_SHAPES: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (marks, re.compile(shape))
    for marks, shape in (
        (("sk-",), r"\bsk-[A-Za-z0-9_-]{16,}"),  # OpenAI, Anthropic, OpenRouter
        (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_[A-Za-z0-9]{20,}"),  # GitHub
        (("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
        (("glpat-",), r"\bglpat-[A-Za-z0-9_-]{16,}"),  # GitLab
        (("xox",), r"\bxox[abeprs]-[A-Za-z0-9-]{10,}"),  # Slack
        (("xapp-",), r"\bxapp-[A-Za-z0-9-]{20,}"),
        (("AKIA", "ASIA"), r"\bA[KS]IA[A-Z0-9]{16}\b"),  # AWS
        (("AIza",), r"\bAIza[A-Za-z0-9_-]{30,}"),  # Google
        (("ya29.",), r"\bya29\.[A-Za-z0-9_-]{20,}"),
        (
            tuple(f"{prefix}{end}" for prefix in _PREFIXES for end in "-_"),
            rf"\b(?:{'|'.join(_PREFIXES)})_?[-_][A-Za-z0-9_-]{{20,}}",
        ),
        (("k_live", "k_test"), r"\b[srp]k_(?:live|test)_[A-Za-z0-9]{16,}"),  # Stripe
        (("SG.",), r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),  # SendGrid
        (("eyJ",), r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),  # JSON Web Tokens
        (("Bearer ",), r"(?<=Bearer )[A-Za-z0-9._~+/=-]{16,}"),
        (("://",), r"""(?<=://)[^\s/:@"']{1,100}:[^\s/@"']{1,200}(?=@)"""),  # user:password in an address
        (("-----BEGIN ",), rf"{_KEY_BEGINS}[A-Za-z0-9+/=\s\\:,.-]{{0,20000}}?{_KEY_ENDS}"),
    )
)
"""What each shape has in it, and the shape: a text without the one is not searched for the other, which takes long."""

Redact: TypeAlias = Callable[[str], str]


_STEP = 200_000

_MARKS = tuple(dict.fromkeys(mark for marks, _ in _SHAPES for mark in marks))


def may_have_shapes(text: str) -> bool:
    """Whether it is worth looking for what looks like a key; quick, also for JSON as a text."""
    for mark in _MARKS:  # noqa: SIM110 - a pattern of them all takes ten times as long, `any` twice
        if mark in text:
            return True
    return False


def without_shapes(text: str) -> str:
    """The text without what looks like a key, whoever's it is."""
    if not may_have_shapes(text):
        return text
    for marks, shape in _SHAPES:
        if any(mark in text for mark in marks):
            text = shape.sub(REDACTED, text)
    return text


def without_shapes_in_steps(text: str) -> str:
    """As `without_shapes`; a long text in pieces, so that a thread that does it lets others run.

    It is cut where no key goes on: before a quotation mark, or a line if no private key can be in it.
    """
    pieces, start, has_blocks = list[str](), 0, "-----BEGIN " in text
    while len(text) - start > 2 * _STEP:
        end = text.rfind('"', start + _STEP, start + 2 * _STEP)
        end = end if end > 0 or has_blocks else text.rfind("\n", start + _STEP, start + 2 * _STEP)
        if end <= 0:
            break
        pieces.append(without_shapes(text[start:end]))
        start = end
    return "".join([*pieces, without_shapes(text[start:])]) if pieces else without_shapes(text)


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
    # The longest first: one secret may begin with another.
    known = sorted((item for item in spellings if item not in REDACTED), key=lambda item: (-len(item), item))

    def redact(text: str) -> str:
        for spelling in known:
            text = text.replace(spelling, REDACTED)
        return text

    return redact


def secrets_in(environ: Mapping[str, str]) -> list[str]:
    """The values of an environment whose names say that they are secret.

    But for paths in variables that hold one by their name: PWD is a folder, SSH_AUTH_SOCK a socket, and these would be
    taken out of all that is said of files.
    """
    return [
        value
        for name, value in environ.items()
        if names_a_secret(name) and len(value) >= SHORTEST and not (_PLACE.search(name) and _PATH.match(value))
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
