"""Find JSON in the text of an answer: the whole text, a code block, or an incomplete value."""

from __future__ import annotations

import json
import re
from typing import Any

_FENCED = re.compile(r"```[a-zA-Z]*[ \t]*\n(.*?)```", re.DOTALL)


def document_in(text: str) -> Any:
    """Return the JSON value of the whole text, or of its only code block.

    Raises `ValueError` if it is invalid, also for numbers that JSON does not allow, such as NaN.
    """
    try:
        return _loaded(text)
    except ValueError:
        blocks = _FENCED.findall(text)
        if len(blocks) != 1:
            raise
        return _loaded(blocks[0])


def _loaded(text: str) -> Any:
    document = json.loads(text)
    json.dumps(document, allow_nan=False)
    return document


def partial_document(text: str) -> Any:
    """Return the JSON value of an incomplete text, including an incomplete last string; None if there is no value
    yet.
    """
    from pydantic_core import from_json

    begun = text.lstrip()
    if begun.startswith("```"):
        if begun.count("```") > 1:
            begun = begun.partition("\n")[2].rpartition("```")[0]
        else:
            begun = begun.partition("\n")[2]
    try:
        return from_json(begun, allow_partial="trailing-strings", allow_inf_nan=False)
    except ValueError:
        return None
