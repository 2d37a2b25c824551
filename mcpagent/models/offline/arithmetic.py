"""Sums to calculate, as people write and say them."""

from __future__ import annotations

import re

from mcpagent.models.offline.evidence import Found

_OPERATORS = (
    (r"\bto the power of\b|\braised to\b|\^", " ** "),
    (r"\bmultiplied by\b|\btimes\b|×|(?<=\d)\s*x\s*(?=\d)", " * "),
    (r"\bdivided by\b|\bover\b|÷", " / "),
    (r"\bplus\b", " + "),
    (r"\bminus\b|−", " - "),
    (r"\bmodulo\b|\bmod\b", " % "),
    (r"\bsquare root of\s+([\d.]+)", r" sqrt(\1) "),
    (r"([\d.]+)\s+squared\b", r" \1 ** 2 "),
    (r"([\d.]+)\s+cubed\b", r" \1 ** 3 "),
    (r"([\d.]+)\s*(?:%|percent) of\s+([\d.]+)", r" \1 / 100 * \2 "),
    (r"(?<=\d),(?=\d{3}\b)", ""),
    (r"\bfactorial of\s+(\d+)|\b(\d+) factorial\b|\b(\d+)!", r" factorial(\1\2\3) "),
)
_EXPRESSION = re.compile(
    r"(?:(?:sqrt|abs|round|floor|ceil|exp|log10|log2|log|sin|cos|tan|factorial|min|max|pi)\b|[\d.]+|[-+*/%(),\s])+"
)


_PATH_OR_URL = re.compile(r"(?:\w+:/)?[~.]?/[A-Za-z~.][^\s]*")
"""A division has no letter behind its stroke; what has is a place, and its digits and dashes calculate nothing."""


def arithmetic(text: str) -> Found | None:
    """The longest piece of a text that is a sum to calculate, with "times" and "plus" as operators."""
    rewritten = _PATH_OR_URL.sub(" ", text)
    for pattern, replacement in _OPERATORS:
        rewritten = re.sub(pattern, replacement, rewritten, flags=re.IGNORECASE)
    pieces = [match[0].strip().strip(",").strip() for match in _EXPRESSION.finditer(rewritten)]
    # A sign alone is not a sum: something must be done to a number.
    sums = [piece for piece in pieces if re.search(r"\d", piece) and re.search(r"\d\s*[-+*/%]|[a-z]\(", piece)]
    sums = [piece.rstrip("+-*/%.( ") for piece in sums if not re.fullmatch(r"\d{4}-\d\d?-\d\d?", piece)]
    best = max(sums, key=len, default="")
    return Found("number", 0, len(text), " ".join(best.split())) if re.search(r"[-+*/%(]", best) else None
