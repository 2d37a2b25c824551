"""The budget of the tools, prompts and resources of one source. An item over the budget is omitted; the others stay."""

from __future__ import annotations

from typing import Any

from mcpagent.history.intake.budget import (
    MAX_LEVELS,
    MAX_LISTED_BYTES,
    MAX_LISTED_NAME,
    MAX_LISTED_VALUES,
)
from mcpagent.utilities.python.worker_threads import parts_in
from mcpagent.values.messages import nests_deeper

OVER_BUDGET = (
    f"it has more than {MAX_LISTED_BYTES:,} bytes, {MAX_LISTED_VALUES:,} values, {MAX_LEVELS} levels or "
    f"{MAX_LISTED_NAME:,} characters in its name"
)
"""The reason that is reported for an omitted item."""


def values_within_budget(item: Any, name: Any) -> int | None:
    """Return the number of JSON values in an item with this name; None if the item is over the budget."""
    if isinstance(name, str) and len(name) > MAX_LISTED_NAME:
        return None
    values = parts_in(item, MAX_LISTED_VALUES, MAX_LISTED_BYTES)
    if values is None or nests_deeper(item, MAX_LEVELS):
        return None
    return values
