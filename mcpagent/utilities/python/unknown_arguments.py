"""Name the argument that a caller meant, in place of Python's "got an unexpected keyword argument"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

_C = TypeVar("_C", bound=type[Any])
_NOWHERE: Mapping[str, str] = {}


def argument_hint(
    owner: str, name: str, known: Sequence[str], elsewhere: Mapping[str, str] = _NOWHERE
) -> str:
    """Return the message for an argument that does not exist, with the one that could be meant.

    `elsewhere` has arguments of other libraries, and what to write here.
    """
    text = f'{owner}: no argument "{name:.60}"'
    if name in elsewhere:
        return f"{text}; write {elsewhere[name]}"
    near = get_close_matches(name, known, n=1)
    if near:
        return f'{text}; did you mean "{near[0]}"?'
    return f"{text}; there are {', '.join(known)}"


def answers_unknown_arguments(cls: _C) -> _C:
    """Decorate a dataclass so that an unknown argument raises a `TypeError` with the one that could be meant."""
    create = cls.__init__  # the one that dataclass made for just this class
    known = create.__code__.co_varnames[1 : create.__code__.co_argcount]

    @wraps(create)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in kwargs:
            if name not in known:
                raise TypeError(argument_hint(cls.__name__, name, known))
        create(self, *args, **kwargs)

    cls.__init__ = checked
    return cls
