"""Convert dataclasses to plain JSON data and back, by their annotations."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_T = TypeVar("_T")

MALFORMED = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""Exceptions of code that reads third-party or damaged data of an unexpected shape."""


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    """Return pydantic's `TypeAdapter` of this type."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def dump_value(value: Any) -> dict[str, Any]:
    """Return a dataclass as plain JSON data; values that JSON lacks are written as text."""
    kind: Any = type(value)
    data: dict[str, Any] = adapter(kind).dump_python(
        value, mode="json", fallback=str, warnings=False
    )
    return data


def load_value(kind: type[_T], data: object) -> _T:
    """Create a value of this type from the result of `dump_value`. Raises `ValueError`, in one line, with the location
    of the first mistake.
    """
    from pydantic import ValidationError

    of_this_kind: Any = kind
    try:
        value: _T = adapter(of_this_kind).validate_python(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(
            f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        ) from None
    return value
