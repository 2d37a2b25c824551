"""What stdout holds: the answer or one document after the other, and nothing else."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any


def write_out(text: str) -> None:
    """To stdout, at once."""
    if sys.stdout is not None:
        sys.stdout.write(text)
        sys.stdout.flush()


def write_json(document: Any, indent: int | None = 2) -> None:
    """The document and the end of its line."""
    write_out(json_text(document, indent) + "\n")


def json_text(document: Any, indent: int | None = None) -> str:
    """JSON that any parser reads in any locale: ASCII, and null for what is no number.

    Python's own "NaN" and "Infinity" come in easily: `1e999` in what a server or a model said is enough.
    """
    try:
        return json.dumps(document, indent=indent, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(document), indent=indent, default=str, allow_nan=False)


def readable_json(document: Any) -> str:
    """The same with its characters as they are, where stdout can carry all of them."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return json_text(document)
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
