"""The generated table of models: windows, maximum outputs, inputs and efforts, with the source and date of each row.

`.ci/model_table` writes `model_table.json`, which is read when a model is first looked up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mcpagent.models.endpoints.model_identity import ModelIdentity

TABLE = Path(__file__).with_name("model_table.json")


@dataclass(frozen=True, slots=True)
class ListedSizes:
    """A row of the table. `input_tokens` is the maximum size of a request; `window_tokens` includes the answer."""

    input_tokens: int | None = None
    window_tokens: int | None = None
    output_tokens: int | None = None
    accepts: frozenset[str] = frozenset()
    efforts: tuple[str, ...] = ()
    source: str = ""
    date: str = ""


@cache
def _table() -> Mapping[str, Any]:
    read: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return read


def generated_on() -> str:
    """Return the date of the table as YYYY-MM-DD."""
    return str(_table()["generated"])


def listed_sizes(
    host: str, model_name: str, model: ModelIdentity
) -> ListedSizes | None:
    """Return the row of a model: from its host, else from its maker; None if neither lists it."""
    tables = _table()["models"]
    at_host = tables.get(host, {})
    of_maker = tables.get(model.maker, {})
    asked = model_name.lower()
    for rows, name in (
        (at_host, asked),
        (at_host, model.name),
        (at_host, model.undated),
        (of_maker, model.name),
        (of_maker, model.undated),
        (of_maker, f"{model.undated}-latest"),
    ):
        if name in rows:
            return _row(rows[name])
    return None


def _row(row: Mapping[str, Any]) -> ListedSizes:
    return ListedSizes(
        input_tokens=row.get("input"),
        window_tokens=row.get("window"),
        output_tokens=row.get("output"),
        accepts=frozenset(row.get("accepts", ())),
        efforts=tuple(row.get("efforts", ())),
        source=row["source"],
        date=row["date"],
    )
