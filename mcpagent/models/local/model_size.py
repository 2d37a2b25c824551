"""Decide which models are small, and define their defaults.

A small model receives the tools that match its prompt, can call shown tools without loading them first, and reads a
short system prompt. With the defaults of large models, it would write calls as text, or search endlessly.
"""

from __future__ import annotations

import re

from mcpagent.models.model_settings import ModelSettings

SMALL_WINDOW = 8192
"""Maximum context window in tokens of a small model, regardless of its parameters."""

SMALL_PARAMETERS = 9e9
"""Maximum number of parameters of a small model. Models called 8B have up to 9 billion."""

SMALL = ModelSettings(temperature=0.1, max_output_tokens=1024)
"""Default settings of small models: a low temperature, for correct names and types, and a limit on output, since some
answers would not end.
"""

_SIZE = re.compile(r"(?<![a-z0-9.])(\d{1,4}(?:\.\d{1,2})?)(b|m)(?![a-z0-9])")
_UNITS = {"b": 1e9, "m": 1e6}


def is_of_small_size(
    name: str, window_tokens: int | None, parameters: float | None
) -> bool:
    """Return whether the model is small, by its window and parameters if known, else by its name: `qwen3:1.7b`."""
    if window_tokens is not None and window_tokens <= SMALL_WINDOW:
        return True
    known = parameters or max(
        (float(size) * _UNITS[unit] for size, unit in _SIZE.findall(name.lower())),
        default=None,
    )
    return known is not None and known <= SMALL_PARAMETERS
