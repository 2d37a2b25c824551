"""Tables as pandas, Polars and Arrow give them, of the real packages or of stand-ins with the same few methods.

The stand-ins say which package they are of, as the real classes do; the slow lane runs the same tests with those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

Columns = dict[Any, list[Any]]


def of_package(module: str, name: str) -> Callable[[type], type]:
    """Names a class as that of another package."""

    def named(kind: type) -> type:
        kind.__module__, kind.__name__ = module, name
        return kind

    return named


class NAType:
    """What pandas has for a missing whole number."""


@of_package("pandas", "DataFrame")
class PandasFrame:
    def __init__(self, data: Columns, index: Sequence[Any], names: Sequence[str | None]) -> None:
        self.columns = list(data)
        self._rows = list(zip(index, *data.values(), strict=True))
        whole = all(isinstance(item, int) for item in index)
        self.index = SimpleNamespace(
            nlevels=len(names), names=names, name=names[0], dtype=SimpleNamespace(kind="i" if whole else "O")
        )

    def __len__(self) -> int:
        return len(self._rows)

    def head(self, count: int) -> Any:
        return SimpleNamespace(itertuples=lambda index, name: self._tuples(count, index=index))

    def _tuples(self, count: int, *, index: bool) -> Iterator[tuple[Any, ...]]:
        return (row if index else row[1:] for row in self._rows[:count])


@of_package("pandas", "Series")
class PandasSeries:
    def __init__(self, values: list[Any], index: Sequence[Any], name: str | None) -> None:
        self.name, self._values, self._index = name, values, index

    def to_frame(self, name: str) -> Any:
        return PandasFrame({name: self._values}, self._index, [None])


class _Polars:
    def __init__(self, data: Columns) -> None:
        self.data = data
        self.columns = list(data)
        self.height = len(next(iter(data.values())))

    def head(self, count: int) -> Any:
        rows = list(zip(*self.data.values(), strict=True))[:count]
        return SimpleNamespace(rows=lambda: rows)


PolarsFrame = of_package("polars.dataframe.frame", "DataFrame")(type("DataFrame", (_Polars,), {}))


@of_package("polars.lazyframe.frame", "LazyFrame")
class PolarsLazy:
    def __init__(self, data: Columns) -> None:
        self._data = data

    def collect(self) -> Any:
        return PolarsFrame(self._data)


@of_package("polars.series.series", "Series")
class PolarsSeries:
    def __init__(self, name: str, values: list[Any]) -> None:
        self.name, self._values = name, values

    def __len__(self) -> int:
        return len(self._values)

    def head(self, count: int) -> Any:
        return SimpleNamespace(to_list=lambda: self._values[:count])


class ArrowArray:
    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def slice(self, start: int, count: int) -> Any:
        return SimpleNamespace(to_pylist=lambda: self._values[start : start + count])


Array = of_package("pyarrow.lib", "Array")(type("Array", (ArrowArray,), {}))
Int64Array = type("Int64Array", (Array,), {"__module__": "pyarrow.lib"})


@of_package("pyarrow.lib", "Table")
class ArrowTable:
    def __init__(self, data: Columns) -> None:
        self._data = data
        self.schema = SimpleNamespace(names=list(data))
        self.num_rows = len(next(iter(data.values())))

    def slice(self, start: int, count: int) -> Any:
        return SimpleNamespace(columns=[Int64Array(values).slice(start, count) for values in self._data.values()])


class StandIns:
    """Makes stand-ins."""

    missing_int = NAType()

    def pandas_frame(
        self, data: Columns, index: Sequence[Any] | None = None, names: Sequence[str | None] = (None,)
    ) -> Any:
        return PandasFrame(data, range(len(next(iter(data.values())))) if index is None else index, names)

    def pandas_series(self, values: list[Any], index: Sequence[Any] | None = None, name: str | None = None) -> Any:
        return PandasSeries(values, range(len(values)) if index is None else index, name)

    def polars_frame(self, data: Columns) -> Any:
        return PolarsFrame(data)

    def polars_lazy(self, data: Columns) -> Any:
        return PolarsLazy(data)

    def polars_series(self, name: str, values: list[Any]) -> Any:
        return PolarsSeries(name, values)

    def arrow_table(self, data: Columns) -> Any:
        return ArrowTable(data)

    def arrow_array(self, values: list[Any]) -> Any:
        return Int64Array(values)


class RealPackages:
    """Makes the same of pandas, Polars and Arrow."""

    @property
    def missing_int(self) -> Any:
        import pandas as pd

        return pd.NA

    def pandas_frame(
        self, data: Columns, index: Sequence[Any] | None = None, names: Sequence[str | None] = (None,)
    ) -> Any:
        import pandas as pd

        if index is None:
            return pd.DataFrame(data)
        levels = pd.MultiIndex.from_tuples(index, names=names) if len(names) > 1 else pd.Index(index, name=names[0])
        return pd.DataFrame(data, index=levels)

    def pandas_series(self, values: list[Any], index: Sequence[Any] | None = None, name: str | None = None) -> Any:
        import pandas as pd

        return pd.Series(values, index=index, name=name)

    def polars_frame(self, data: Columns) -> Any:
        import polars as pl

        return pl.DataFrame(data)

    def polars_lazy(self, data: Columns) -> Any:
        import polars as pl

        return pl.LazyFrame(data)

    def polars_series(self, name: str, values: list[Any]) -> Any:
        import polars as pl

        return pl.Series(name, values)

    def arrow_table(self, data: Columns) -> Any:
        import pyarrow as pa

        return pa.table(data)

    def arrow_array(self, values: list[Any]) -> Any:
        import pyarrow as pa

        return pa.array(values)
