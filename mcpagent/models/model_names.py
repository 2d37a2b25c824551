"""Parse and show model names, `provider:model?option=value`, several separated by commas."""

from __future__ import annotations

import json
from urllib.parse import unquote_plus

from mcpagent.models.model_settings import INSIDE
from mcpagent.utilities.text.secrets import (
    REDACTED,
    names_a_credential,
    secrets_under,
    without_credentials,
)

_DECODER = json.JSONDecoder()


def names_in(spec: str) -> list[str]:
    """Return the models in a text, separated by commas; commas in the JSON of an option do not separate."""
    starts, place = [0], 0
    while place < len(spec):
        if spec[place - 1 : place + 1] in ("=[", "={"):
            place = _json_end(spec, place)
            continue
        if spec[place] == ",":
            starts.append(place + 1)
        place += 1
    ends = [start - 1 for start in starts[1:]]
    return [
        spec[start:end].strip()
        for start, end in zip(starts, [*ends, len(spec)], strict=True)
    ]


def _json_end(spec: str, place: int) -> int:
    try:
        return _DECODER.raw_decode(spec, place)[1]
    except (ValueError, RecursionError):
        return place + 1


def shown_spec(spec: str) -> str:
    """Return the model name for display, without header values, values with secret-like names, and credentials in
    addresses.
    """
    return ",".join(map(_shown_name, names_in(spec)))


def _shown_name(spec: str) -> str:
    name, mark, query = spec.partition("?")
    return name + mark + "&".join(map(_shown_option, query.split("&")))


def _shown_option(option: str) -> str:
    name, equals, value = option.partition("=")
    name, value = unquote_plus(name), unquote_plus(value)
    inside = next(
        (name.removeprefix(start) for start in INSIDE if name.startswith(start)), ""
    )
    is_private = inside and (
        names_a_credential(inside) or any(secrets_under(inside, value))
    )
    if name.startswith("header.") or is_private:
        return f"{name}{equals}{REDACTED}"
    if name == "base_url":
        return f"{name}{equals}{without_credentials(value)}"
    return option
