"""Text: counting, changing, comparing, encoding, JSON."""

from __future__ import annotations

import base64
import binascii
import codecs
import difflib
import hashlib
import json
import re
import unicodedata
from collections import Counter
from typing import Annotated, Any, Literal
from urllib.parse import quote, unquote

from pydantic import Field

from mcpagent.demo import DemoToolError

SomeText = Annotated[str, Field(description="The text", max_length=200_000)]
JsonText = Annotated[str, Field(description="JSON as text", max_length=200_000)]


def count_words(text: SomeText) -> dict[str, int]:
    """Count the words, characters and lines of a text."""
    return {
        "words": len(text.split()),
        "characters": len(text),
        "lines": len(text.splitlines()),
    }


def most_common_words(
    text: SomeText,
    limit: Annotated[int, Field(description="How many words", ge=1, le=100)] = 10,
) -> dict[str, int]:
    """Find the most frequent words of a text and how often they occur."""
    return dict(Counter(re.findall(r"\w+", text.lower())).most_common(limit))


def slugify(text: SomeText) -> str:
    """Turn a text into a slug for a URL or file name: lower case, hyphens, no accents."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")


def change_case(
    text: SomeText,
    style: Annotated[
        Literal["upper", "lower", "title", "snake", "camel", "kebab"],
        Field(description="The case to change to"),
    ],
) -> str:
    """Change a text to upper case, lower case, title case, snake_case, camelCase or kebab-case."""
    if style in ("upper", "lower", "title"):
        return {"upper": text.upper(), "lower": text.lower(), "title": text.title()}[
            style
        ]
    words = [
        word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", text)
    ]
    if style == "camel":
        return "".join(
            word if not index else word.capitalize() for index, word in enumerate(words)
        )
    return ("_" if style == "snake" else "-").join(words)


def reverse_text(text: SomeText) -> str:
    """Reverse a text, last character first."""
    return text[::-1]


def is_palindrome(text: SomeText) -> str:
    """Tell whether a text is a palindrome: the same read backwards."""
    letters = [char for char in text.lower() if char.isalnum()]
    return f"{text!r} is {'a palindrome' if letters and letters == letters[::-1] else 'not a palindrome'}."


def sort_lines(
    text: SomeText,
    order: Annotated[
        Literal["ascending", "descending"], Field(description="Which way to sort")
    ] = "ascending",
) -> str:
    """Sort the lines of a text alphabetically."""
    return "\n".join(
        sorted(text.splitlines(), key=str.casefold, reverse=order == "descending")
    )


def compare_texts(
    before: Annotated[str, Field(description="The old text", max_length=50_000)],
    after: Annotated[str, Field(description="The new text", max_length=50_000)],
) -> str:
    """Show the differences between two texts as a unified diff."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "before", "after", lineterm=""
    )
    return "\n".join(lines) or "The texts are the same."


def extract_links(text: SomeText) -> dict[str, list[str]]:
    """Find the URLs and email addresses in a text."""
    return {
        "urls": re.findall(r"https?://[^\s<>\"')]+", text),
        "emails": re.findall(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}", text),
    }


def hash_text(
    text: SomeText,
    algorithm: Annotated[
        Literal["sha256", "sha512", "sha1", "md5", "blake2b"],
        Field(description="The hash function"),
    ] = "sha256",
) -> str:
    """Hash a text (checksum, digest) with SHA-256, SHA-512, SHA-1, MD5 or BLAKE2b."""
    return hashlib.new(algorithm, text.encode(), usedforsecurity=False).hexdigest()


def encode_base64(text: SomeText) -> str:
    """Encode a text as Base64."""
    return base64.b64encode(text.encode()).decode()


def decode_base64(
    encoded: Annotated[str, Field(description="Base64 text", max_length=200_000)],
) -> str:
    """Decode Base64 to text."""
    try:
        return base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise DemoToolError(f"{encoded[:40]!r} is not Base64 of UTF-8 text") from None


def encode_url(text: SomeText) -> str:
    """Percent-encode a text for use in a URL."""
    return quote(text, safe="")


def decode_url(
    encoded: Annotated[
        str, Field(description="Percent-encoded text", max_length=200_000)
    ],
) -> str:
    """Decode a percent-encoded URL text."""
    return unquote(encoded)


def rot13(text: SomeText) -> str:
    """Encode or decode a text with ROT13."""
    return codecs.encode(text, "rot13")


_MORSE_CODES = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.. "
    "----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----. "
    ".-.-.- --..-- ..--.. -.-.-- -..-. .--.-. -....-"
)
_MORSE = dict(
    zip(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,?!/@-", _MORSE_CODES.split(), strict=True
    )
)
_FROM_MORSE = {code: letter for letter, code in _MORSE.items()}


def to_morse_code(text: SomeText) -> str:
    """Write a text in Morse code (ITU-R M.1677); characters without a code are left out."""
    words = (
        [_MORSE[char] for char in word if char in _MORSE]
        for word in text.upper().split()
    )
    return " / ".join(" ".join(word) for word in words if word)


def from_morse_code(
    morse: Annotated[
        str,
        Field(
            description="Dots and dashes, letters apart by spaces, words by /",
            max_length=50_000,
        ),
    ],
) -> str:
    """Read Morse code as text."""
    plain = morse.replace("−", "-").replace("·", ".")
    if not re.fullmatch(r"[\s./-]*", plain):
        raise DemoToolError(
            f"{morse[:40]!r} is not Morse code, which is dots and dashes"
        )
    words = (word.split() for word in plain.split("/"))
    return " ".join(
        "".join(_FROM_MORSE.get(code, "?") for code in word) for word in words
    )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DemoToolError(f"not JSON: {error}") from None


def format_json(
    json_text: JsonText,
    indent: Annotated[int, Field(ge=0, le=8, description="Spaces")] = 2,
) -> str:
    """Check and pretty-print JSON."""
    return json.dumps(_parsed(json_text), indent=indent, ensure_ascii=False)


def query_json(
    json_text: JsonText,
    path: Annotated[
        str, Field(description="Keys and list positions, for example users.0.name")
    ],
) -> Any:
    """Get one value out of JSON by its path."""
    value = _parsed(json_text)
    for step in filter(
        None, path.removeprefix("$").replace("[", ".").replace("]", "").split(".")
    ):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            if isinstance(value, dict):
                here = f"keys {', '.join(value)}"
            else:
                here = f"a {type(value).__name__}"
            raise DemoToolError(f"no {step!r} in {path!r}; there is {here}"[:300])
    return value
