"""Suggest the argument that a caller meant, instead of Python's "got an unexpected keyword argument"."""

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
    """Return the error message for an unknown argument, with a suggestion of the argument that was probably meant.

    `elsewhere` maps arguments of other libraries to the text to write here.
    """
    text = f'{owner}: no argument "{name:.60}"'
    if name in elsewhere:
        return f"{text}; write {elsewhere[name]}"
    near = get_close_matches(name, known, n=1)
    if near:
        return f'{text}; did you mean "{near[0]}"?'
    return f"{text}; there are {', '.join(known)}"


def answers_unknown_arguments(cls: _C) -> _C:
    """Decorate a dataclass so that an unknown argument raises a `TypeError` that suggests the right one."""
    create = cls.__init__  # the one that `dataclass` generated for this class
    known = create.__code__.co_varnames[1 : create.__code__.co_argcount]

    @wraps(create)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in kwargs:
            if name not in known:
                raise TypeError(argument_hint(cls.__name__, name, known))
        create(self, *args, **kwargs)

    cls.__init__ = checked
    return cls
