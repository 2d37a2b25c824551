"""Report arguments of wrong types in one line for the caller, without the wrong value itself.

`expect` checks a single rule, `checked` and `expect_fields` the annotations of a function or a dataclass.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from functools import cache, wraps
from inspect import signature
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
)

from mcpagent.errors import ConfigError, McpAgentError

_P = ParamSpec("_P")
_T = TypeVar("_T")


def expect(
    place: str,
    value: object,
    kinds: Any,
    said: str,
    *,
    holds: Callable[[Any], bool] | None = None,
    error: type[McpAgentError] = ConfigError,
    hint: str = "",
) -> None:
    """Raise `error` unless the value is an instance of `kinds`, and `holds` returns True for it.

    `kinds` is a type or a tuple of types. `said` describes the expected value in the message. True and False are
    numbers only if `kinds` has `bool`, and a class does not count as an instance.
    """
    if isinstance(kinds, tuple):
        named = kinds
    else:
        named = (kinds,)
    fits = (
        isinstance(value, named)
        and (bool in named or not isinstance(value, bool))
        and not isinstance(value, type)
    )
    fits = fits and not (float in named and _is_beyond_floats(value))
    if not fits or not (holds is None or holds(value)):
        raise error(
            f"{place}: expected {said}, got {_got(value, is_wrong_type=not fits)}{hint}"
        )


def expect_function(place: str, value: object, *parameters: str) -> None:
    """Raise `ConfigError` unless `value` is callable with these parameters, as far as its signature is known."""
    said = f"a function ({', '.join(parameters)})"
    expect(place, value, Callable, said)
    try:
        signature(cast("Callable[..., Any]", value)).bind(*parameters)
    except TypeError as error:
        raise ConfigError(
            f"{place}: expected {said}, got one that cannot be called so: {error}"
        ) from None
    except ValueError:  # some functions in C have no signature
        pass


def expect_names(place: str, value: object) -> None:
    """Raise `ConfigError` unless the value is a list of strings."""
    if isinstance(value, str):
        raise ConfigError(
            f"{place}: expected a list of names, got a string; write [{value[:60]!r}]"
        )
    expect(
        place,
        value,
        Sequence,
        "a list of names",
        holds=lambda names: all(isinstance(name, str) for name in names),
    )


def _is_beyond_floats(value: object) -> bool:
    return isinstance(value, int) and abs(value) > sys.float_info.max


def _got(value: object, *, is_wrong_type: bool = True) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, bool):
        return repr(value)
    if _is_beyond_floats(value):
        return (
            "a number of more than 300 digits"  # Python refuses to convert it to text
        )
    if isinstance(value, int | float | str):
        if is_wrong_type:
            return f"{type(value).__name__} {value!r:.60}"
        return f"{value!r:.60}"
    return type(value).__name__  # other texts may contain secrets


# -- Checks of arguments against type annotations ----------------------------------------------------------------------


def checked(
    error: type[McpAgentError] = ConfigError,
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Return a decorator. The decorated function raises `error` for an argument that does not match its annotation."""

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        code = function.__code__
        positional = code.co_varnames[: code.co_argcount]
        label = function.__qualname__.removesuffix(".__init__")

        @wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            expect_arguments(
                label,
                function,
                {**dict(zip(positional, args, strict=False)), **kwargs},
                error,
            )
            return function(*args, **kwargs)

        return call

    return decorate


def expect_arguments(
    label: str,
    function: Any,
    given: Mapping[str, Any],
    error: type[McpAgentError] = ConfigError,
) -> None:
    """Raise `error` for an argument in `given` that does not match the function's annotation; `label` precedes its
    name.

    Arguments that the function does not have are left to Python's own error.
    """
    kinds = _annotations(function)
    for name, value in given.items():
        expect_kind(f"{label}: {name}", value, kinds.get(name, Any), error)


def expect_options(
    label: str, function: Callable[..., Any], options: Collection[str]
) -> None:
    """Raise `ConfigError` if an option is not a parameter of the function or class that it will be passed to."""
    parameters = signature(function).parameters
    known = list(parameters)
    takes_all = any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
    )
    for name in options:
        if name not in known and not takes_all:
            near = get_close_matches(name, known, n=1)
            if near:
                meant = f'did you mean "{near[0]}"?'
            else:
                meant = f"there are {', '.join(known)}"
            raise ConfigError(f'{label}: no option "{name:.60}"; {meant}')


def expect_fields(
    value: Any, label: str = "", error: type[McpAgentError] = ConfigError
) -> None:
    """Raise `error` if a field of this dataclass does not match its annotation. Call it in `__post_init__`."""
    made: Any = type(value)
    if label:
        before = f"{label}: "
    else:
        before = f"{made.__name__}."
    for name, default, kind in _fields(made):
        given = getattr(value, name)
        if given is not default and _misfit(given, kind) is not None:
            expect_kind(f"{before}{name}", given, kind, error)


def expect_kind(
    place: str, value: object, kind: Any, error: type[McpAgentError] = ConfigError
) -> None:
    """Raise `error` unless the value matches the annotation `kind`, as far as that can be checked without calling
    anything.

    Lists and tuples are interchangeable; a string is neither.
    """
    misfit = _misfit(value, kind)
    if misfit is None:
        return
    path, wrong, wanted = misfit
    origins = [get_origin(option) for option in _options(wanted)]
    got, hint = _got(wrong), ""
    if isinstance(wrong, str) and any(map(_is_sequence, origins)):
        got, hint = "a text", '; write ["..."]'
    elif isinstance(wrong, str) and any(map(_is_mapping, origins)):
        got = "a text"  # texts may contain secrets
    elif (
        isinstance(wrong, int | float)
        and str in _options(wanted)
        and not _is_beyond_floats(wrong)
    ):
        hint = f'; write "{str(wrong).lower()}"'
    raise error(f"{place}{path}: expected {_said(wanted)}, got {got}{hint}")


def _options(kind: Any) -> tuple[Any, ...]:
    if get_origin(kind) in (Union, UnionType):
        return get_args(kind)
    return (kind,)


def _misfit(value: Any, kind: Any) -> tuple[str, Any, Any] | None:
    """Return the path to the first part that does not match the annotation, that part, and its expected type; None if
    all match.
    """
    if type(value) is kind and kind is not float:
        return None
    shape, origin, options = _taken_apart(kind)
    if shape == "union":
        if (
            type(value) in options and type(value) is not float
        ):  # each option of the union would accept it
            return None
        misfits = [_misfit(value, option) for option in options]
        # Report the error inside the value, not that the value does not match the other options.
        deeper = [misfit for misfit in misfits if misfit is not None and misfit[0]]
        if None in misfits:
            return None
        return (*deeper, ("", value, kind))[0]
    if shape == "literal":
        fits = any(
            type(value) is type(option) and value == option for option in options
        )
    elif shape == "mapping":
        return _misfit_in_mapping(value, kind, *options)
    elif shape == "sequence":
        return _misfit_in_sequence(value, kind, origin, options)
    else:
        fits = _is_one(value, origin or kind)
    if fits:
        return None
    return "", value, kind


@cache
def _taken_apart(kind: Any) -> tuple[str, Any, tuple[Any, ...]]:
    """Return the annotation's kind (such as "union"), its origin and its type arguments."""
    origin, options = get_origin(kind), get_args(kind)
    if origin is Union or origin is UnionType:
        return "union", origin, options
    if origin is Literal:
        return "literal", origin, options
    if _is_mapping(origin):
        shape = "mapping"
    elif _is_sequence(origin):
        shape = "sequence"
    else:
        shape = "one"
    return shape, origin, options


@cache
def _fields(kind: Any) -> list[tuple[str, Any, Any]]:
    kinds = _annotations(kind)
    return [(field.name, field.default, kinds[field.name]) for field in fields(kind)]


def _is_one(value: Any, kind: Any) -> bool:
    """Return whether the value is an instance of a type without type arguments."""
    if kind is None or kind is NoneType:
        return value is None
    if kind is Any or not isinstance(kind, type) or _cannot_tell(kind):
        return True
    if kind is float:
        is_number = (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and value == value
        )  # NaN is not a number here
        return is_number and not _is_beyond_floats(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is type or not isinstance(value, type))


def _cannot_tell(kind: Any) -> bool:
    return getattr(kind, "_is_protocol", False) and not getattr(
        kind, "_is_runtime_protocol", False
    )


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _is_sequence(origin: Any) -> bool:
    return (
        isinstance(origin, type)
        and issubclass(origin, Iterable)
        and not issubclass(origin, Mapping)
    )


def _misfit_in_mapping(
    value: Any, kind: Any, of_key: Any = Any, of_item: Any = Any
) -> tuple[str, Any, Any] | None:
    if not isinstance(value, Mapping):
        return "", value, kind
    if of_item is Any and (
        of_key is Any or (of_key is str and all(type(key) is str for key in value))
    ):
        return None
    for key, item in value.items():
        if _misfit(key, of_key) is not None:
            return " (a key)", key, of_key
        if (misfit := _misfit(item, of_item)) is not None:
            return f".{str(key)!r:.60}{misfit[0]}".replace("'", ""), *misfit[1:]
    return None


def _misfit_in_sequence(
    value: Any, kind: Any, origin: Any, options: Any
) -> tuple[str, Any, Any] | None:
    is_plain = type(value) is tuple or type(value) is list
    is_several = is_plain or isinstance(
        value, Sequence if issubclass(origin, Sequence) else Iterable
    )
    if not is_several or (
        not is_plain and isinstance(value, str | bytes | Mapping | type)
    ):
        return "", value, kind
    if not isinstance(
        value, Collection
    ):  # an iterator could be read only once, so its items stay unchecked
        return None
    is_row = origin is tuple and options[-1:] != (...,)
    if is_row and len(options) != len(value):
        return "", value, kind
    for place, item in enumerate(value):
        misfit = _misfit(item, options[place] if is_row else options[0])
        if misfit is not None:
            return f"[{place}]{misfit[0]}", *misfit[1:]
    return None


def _said(kind: Any) -> str:
    """Return an annotation in words for a message."""
    origin, options = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        words = dict.fromkeys(
            _said(option) for option in options if option is not NoneType
        )
        if str in options:
            words.pop("Path(...)", None)  # a string is accepted as a path
        return " or ".join([*words, *(["None"] if NoneType in options else [])])
    if origin is Literal:
        return " or ".join(repr(option).replace("'", '"') for option in options)
    if origin is Callable or kind is Callable:
        return "a function"
    if _is_mapping(origin):
        return "a dict"
    if _is_sequence(origin):
        return "a list"
    known = {
        str: "a text",
        int: "a whole number",
        float: "a number",
        bool: "True or False",
        NoneType: "None",
    }
    name = getattr(origin or kind, "__name__", str(kind))
    if getattr(
        origin or kind, "_is_protocol", False
    ):  # a protocol cannot be instantiated
        return f"an object with the methods of {name}"
    return known.get(kind) or f"{name}(...)"


@cache
def _annotations(target: Any) -> dict[str, Any]:
    """Return the annotations of a function or a dataclass by name, as types."""
    names = _Names(vars(sys.modules[target.__module__]))
    known = {
        name: _evaluated(text, names) for name, text in target.__annotations__.items()
    }
    for options in [kind for kind in known.values() if get_origin(kind) is Unpack]:
        known |= _annotations(get_args(options)[0])
    return known


def _evaluated(annotation: Any, names: _Names) -> Any:
    text = getattr(
        annotation, "__forward_arg__", annotation
    )  # a TypedDict has forward references
    return eval(text, {}, names) if isinstance(text, str) else text  # noqa: S307 - the package's own annotations


class _Names(dict[str, Any]):
    """A module's names, with placeholders for names that it imports only for type checkers."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, None) or _Named(name, (), {})


class _Named(type):
    """The metaclass of placeholders, known by the class name: a value of such a class can exist only if other code has
    imported it.
    """

    def __instancecheck__(cls, value: Any) -> bool:
        return any(base.__name__ == cls.__name__ for base in type(value).__mro__)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _Named(name, (), {})  # a name inside a module
