"""Convert tables of pandas, Polars, Arrow and NumPy to plain rows, without importing these packages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_ROWS = 100
"""Maximum number of rows of a table that are read; the others are only counted."""


@dataclass(frozen=True, slots=True)
class Table:
    """The first rows of a table, with values of the package's own types, and the number of all rows."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    row_count: int


def table_of(value: object) -> Table | None:
    """Convert a table to a `Table`; return None for any other value.

    Tables are a DataFrame, a Series, a LazyFrame (computed), an Arrow table or array, and a NumPy array of records.
    """
    reader = next(
        (
            _READERS[name]
            for base in type(value).__mro__
            if (name := _qualified(base)) in _READERS
        ),
        None,
    )
    if reader is not None:
        return reader(value)
    return None


def is_missing(value: object) -> bool:
    """Return whether a value of a table is missing: None, NaN, NaT, NA."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NaTType", "NAType")


def _qualified(kind: type) -> tuple[str, str]:
    return kind.__module__.partition(".")[0], kind.__name__


def _pandas_frame(frame: Any) -> Table:
    index = frame.index
    # A plain row number says nothing; names, dates and the groups of a groupby are data.
    shows_index = (
        index.nlevels > 1 or index.name is not None or index.dtype.kind not in "iu"
    )
    names = [_label(name) for name in frame.columns]
    rows: Iterable[Sequence[Any]] = frame.head(MAX_ROWS).itertuples(
        index=shows_index, name=None
    )
    if index.nlevels > 1:
        rows = [(*row[0], *row[1:]) for row in rows]
    levels: list[str] = []
    if shows_index:
        levels = ["index" if name is None else _label(name) for name in index.names]
    return Table((*levels, *names), list(rows), len(frame))


def _pandas_series(series: Any) -> Table:
    return _pandas_frame(
        series.to_frame("value" if series.name is None else series.name)
    )


def _polars_frame(frame: Any) -> Table:
    return Table(tuple(frame.columns), frame.head(MAX_ROWS).rows(), frame.height)


def _polars_series(series: Any) -> Table:
    return Table(
        (series.name or "value",),
        [(item,) for item in series.head(MAX_ROWS).to_list()],
        len(series),
    )


def _arrow_table(table: Any) -> Table:
    columns = [column.to_pylist() for column in table.slice(0, MAX_ROWS).columns]
    rows = list(zip(*columns, strict=True))
    return Table(tuple(table.schema.names), rows, table.num_rows)


def _arrow_array(array: Any) -> Table:
    return Table(
        ("value",),
        [(item,) for item in array.slice(0, MAX_ROWS).to_pylist()],
        len(array),
    )


def _numpy_array(array: Any) -> Table | None:
    if array.dtype.names is None or array.ndim != 1:
        return None
    return Table(array.dtype.names, array[:MAX_ROWS].tolist(), len(array))


def _label(name: object) -> str:
    """Return the name of a column; a name with several levels is a tuple."""
    if isinstance(name, tuple):
        return " ".join(str(part) for part in name)
    return str(name)


_READERS: Mapping[tuple[str, str], Callable[[Any], Table | None]] = {
    ("pandas", "DataFrame"): _pandas_frame,
    ("pandas", "Series"): _pandas_series,
    ("polars", "DataFrame"): _polars_frame,
    ("polars", "LazyFrame"): lambda frame: _polars_frame(frame.collect()),
    ("polars", "Series"): _polars_series,
    ("pyarrow", "Table"): _arrow_table,
    ("pyarrow", "RecordBatch"): _arrow_table,
    ("pyarrow", "Array"): _arrow_array,
    ("pyarrow", "ChunkedArray"): _arrow_array,
    ("numpy", "ndarray"): _numpy_array,
}
