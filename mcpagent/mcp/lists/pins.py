"""Pin tools at first use, so that a server's later change is detected before the next call.

A server may replace a description or schema after it was reviewed and trusted (a "rug pull"). A pin contains everything
that a model or a user sees of a tool.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from mcpagent.config import ServerConfig
from mcpagent.errors import ConfigError, ServerError
from mcpagent.mcp.lists.server_lists import ServerLists
from mcpagent.utilities.filesystem.bounded_files import read_own
from mcpagent.utilities.filesystem.file_changes import alone_with, write_whole
from mcpagent.utilities.python.argument_checks import checked
from mcpagent.utilities.text.json_texts import texts_in, with_texts
from mcpagent.utilities.text.safe_text import safe_line, with_codes
from mcpagent.utilities.text.secrets import (
    as_written,
    may_hold_secrets,
    without_secrets,
)
from mcpagent.values.events import Emit, Notice
from mcpagent.values.messages import ToolDefinition

_MISSING = object()
_DESTRUCTIVE = "destructive"
_LOCK_SECONDS = 2.0
_MOST_LINES = 20
_SHOWN, _BEFORE = 80, 20
"""Number of characters of a changed text that are shown, and how many of these precede the first difference."""

_WHOLE = 10_000_000
"""A limit that no text in a list of tools reaches."""


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool that changed since its first use; `lines` describe the changes, one printable line each.

    `lines` are short enough for a result. `whole` are the same without a limit, for whoever accepts the tool. `texts`
    are the new texts in its definition. `is_declared_safe`: it declares itself read-only now, or not destructive, and
    did not before.
    """

    server: str
    tool: str
    lines: tuple[str, ...]
    texts: frozenset[str] = field(default=frozenset(), compare=False)
    is_declared_safe: bool = field(default=False, compare=False)
    whole: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return f'tool "{safe_line(self.tool, 60)}" of server "{self.server}" changed: {"; ".join(self.lines)}'

    @property
    def refusal(self) -> str:
        """The result that a model gets if the change is not allowed."""
        what = f'tool "{safe_line(self.tool, 60)}" was changed by its server since it was first used'
        return f"{what}; it was not called, since nobody has allowed the change"


class ChangedToolError(ServerError):
    """Raised if a tool has changed since its first use and the change is not allowed; the call was not sent."""

    def __init__(self, change: ToolChange) -> None:
        super().__init__(str(change), server=change.server, phase="tools/call")
        self.change = change


Schema: TypeAlias = Mapping[str, Any] | None

AllowChange: TypeAlias = Callable[[ToolChange], Awaitable[bool]]
"""Callback that decides whether a changed tool may be used."""


@dataclass(frozen=True, slots=True)
class _Unchanged:
    """A tool that equalled its pin, by identity: comparing it again takes as long as the rest of a call."""

    tool: ToolDefinition
    output: Schema
    is_destructive: bool


class PinStore:
    """The definitions of tools at their first use, in one JSON file for each server, readable by its user only.

    A server is identified by its name and its location (command and arguments, or URL), not by its secrets.
    """

    @checked()
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, dict[str, Any]] = {}
        self._same: dict[tuple[Path, str], _Unchanged] = {}

    def is_as_pinned(
        self,
        config: ServerConfig,
        tool: ToolDefinition,
        output: Schema = None,
        *,
        is_destructive: bool = True,
    ) -> bool:
        """Return whether the tool certainly equals its pin; answers without waiting for the disk."""
        path = self.path(config)
        place = (path, tool.original_name)
        same = self._same.get(place)
        if (
            same is not None
            and same.tool is tool
            and same.output is output
            and same.is_destructive == is_destructive
        ):
            return True
        seen = as_shown(tool, output, is_destructive=is_destructive)
        if self._known.get(path, {}).get(tool.original_name) != seen:
            return False
        self._same[place] = _Unchanged(tool, output, is_destructive)
        return True

    def check(
        self,
        config: ServerConfig,
        tool: ToolDefinition,
        offered: ToolDefinition | None = None,
        output: Schema = None,
        *,
        is_destructive: bool = True,
    ) -> ToolChange | None:
        """Return the change since the first use, or None. The first use pins the tool: `offered` if passed, else
        `tool`.

        `output` is the schema of its results, here and elsewhere. `is_destructive` is what its server says; without a
        hint, the specification says True.
        """
        seen = as_shown(tool, output, is_destructive=is_destructive)
        if self._pins(config).get(tool.original_name) == seen:
            return None
        # Not from this process's cache: another process may have written more.
        first = as_shown(offered or tool, output, is_destructive=is_destructive)
        pinned = self._pinned(config, tool.original_name, first)
        return _change(config, tool, pinned, seen)

    def standing_change(
        self,
        config: ServerConfig,
        tool: ToolDefinition,
        output: Schema = None,
        *,
        is_destructive: bool = True,
    ) -> ToolChange | None:
        """Return the same change as `check` without pinning anything; None for a tool without a pin."""
        pins = self._pins(config)
        if tool.original_name not in pins:
            return None
        if self.is_as_pinned(config, tool, output, is_destructive=is_destructive):
            return None
        seen = as_shown(tool, output, is_destructive=is_destructive)
        return _change(config, tool, _filled(pins[tool.original_name], seen), seen)

    def accept(
        self,
        config: ServerConfig,
        tool: ToolDefinition,
        output: Schema = None,
        *,
        is_destructive: bool = True,
    ) -> None:
        """Pin the current tool."""
        seen = as_shown(tool, output, is_destructive=is_destructive)
        self._pinned(config, tool.original_name, seen, anew=True)

    def _pinned(
        self,
        config: ServerConfig,
        name: str,
        seen: dict[str, Any],
        *,
        anew: bool = False,
    ) -> Any:
        """Return the tool's pin. With `anew`, or without a whole pin that differs, pin `seen` first.

        Pins of other processes stay.
        """
        path = self.path(config)
        pins = {**self._pins(config)}
        # If the file stays locked or is not writable, pin in this process only.
        with (
            contextlib.suppress(OSError, ConfigError),
            alone_with(path, wait_seconds=_LOCK_SECONDS),
        ):
            pins |= self._read(path)
            if anew or _filled(pins.get(name, seen), seen) == seen:
                write_whole(path, json.dumps(pins | {name: seen}))
        if anew or _filled(pins.get(name, seen), seen) == seen:
            pins[name] = seen
        self._known[path] = pins
        self._same.pop((path, name), None)
        return _filled(pins[name], seen)

    def path(self, config: ServerConfig) -> Path:
        """Return the path of one server's file, which need not exist."""
        api: tuple[str, ...] = ()
        if config.openapi:
            api = (str(config.openapi),)
        words = tuple(str(word) for word in config.args)
        url = as_written(config.url)
        return self._folder / _file_name(
            config.name, str(config.command), url, words, api
        )

    def _pins(self, config: ServerConfig) -> dict[str, Any]:
        path = self.path(config)
        if path not in self._known:
            self._known[path] = self._read(path)
        return self._known[path]

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            data = json.loads(read_own(path))
        except (OSError, ValueError, RecursionError):
            return {}
        if isinstance(data, dict):
            return data
        return {}


@lru_cache(maxsize=1_000)
def _file_name(
    name: str, command: str, url: str, words: tuple[str, ...], api: tuple[str, ...]
) -> str:
    place = json.dumps([name, command, url, words, *api])
    digest = hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)[:40]}-{digest}.json"


def standing_change(
    pins: PinStore | None,
    config: ServerConfig,
    offered: ToolDefinition,
    lists: ServerLists,
) -> ToolChange | None:
    """Return the change that `refusal_of_change` would find now, without pinning or asking, or None."""
    if pins is None:
        return None
    name = offered.original_name
    return pins.standing_change(
        config,
        _current(offered, lists),
        lists.output_schemas.get(name),
        is_destructive=destructive_hint(lists, name),
    )


async def refusal_of_change(
    pins: PinStore | None,
    config: ServerConfig,
    offered: ToolDefinition,
    lists: ServerLists,
    *,
    emit: Emit,
    allow_change: AllowChange | None,
) -> str:
    """Return the reason to refuse a call, or "" if it may be sent.

    A call is refused if the server changed its tool in one of two ways. Either the definition differs from the pin of
    the tool's first use and `allow_change` does not accept the change, or the definition in the current `lists` differs
    from the `offered` one, which the user may have approved.
    """
    output = lists.output_schemas.get(offered.original_name)
    hint = destructive_hint(lists, offered.original_name)
    current = _current(offered, lists)
    change = None
    if pins is not None and not pins.is_as_pinned(
        config, current, output, is_destructive=hint
    ):  # another program may hold the file
        check = partial(pins.check, config, current, offered, is_destructive=hint)
        change = await asyncio.to_thread(check, output=output)
    if pins is not None and change is not None:
        emit(Notice(safe_line(str(change), 500), "warning"))
        if allow_change is not None and await allow_change(change):
            accept = partial(pins.accept, config, current, is_destructive=hint)
            await asyncio.to_thread(accept, output)
            return ""
        return change.refusal
    if current is offered or as_shown(current) == as_shown(offered):
        return ""
    name = safe_line(offered.original_name, 64)
    return f'Its server changed "{name}" after it was offered for this call, so it was not run. Call again.'


def _current(offered: ToolDefinition, lists: ServerLists) -> ToolDefinition:
    """Return the tool as its server lists it now; `offered` if it is not in the list."""
    same = [tool for tool in lists.tools if tool.original_name == offered.original_name]
    if offered in same or not same:
        return offered
    return same[0]


def destructive_hint(lists: ServerLists, name: str) -> bool:
    """Return whether a tool may destroy something, by its server's annotations; without a hint the answer is True."""
    listed = lists.unused.get("tools", {}).get(name, {})
    hints = listed.get("annotations")
    return not (isinstance(hints, Mapping) and hints.get("destructiveHint") is False)


def as_shown(
    tool: ToolDefinition, output: Schema = None, *, is_destructive: bool = True
) -> dict[str, Any]:
    """Return the pinned data of a tool as JSON.

    This is everything that a model and a user see of the tool, and its output schema if it has one.
    """
    shown = {
        "description": tool.description,
        "title": tool.title,
        "read_only": tool.read_only,
        _DESTRUCTIVE: is_destructive,
        "parameters": tool.parameters,
    } | ({} if output is None else {"output_schema": output})
    plain: dict[str, Any] = json.loads(json.dumps(shown, sort_keys=True))
    if may_hold_secrets(
        json.dumps(plain)
    ):  # replace secrets, because pins are written to a file
        plain = with_texts(plain, without_secrets)
    return plain


def _filled(pinned: Any, seen: dict[str, Any]) -> Any:
    """Return a pin with the parts that older versions did not pin, as they are now."""
    if isinstance(pinned, dict):
        return {_DESTRUCTIVE: seen[_DESTRUCTIVE], **pinned}
    return pinned


def _change(
    config: ServerConfig, tool: ToolDefinition, pinned: Any, seen: dict[str, Any]
) -> ToolChange | None:
    """Return the differences between a tool's pin and its current definition; None if they are equal."""
    if pinned == seen:
        return None
    lines = list(_differences(pinned, seen))
    more = []
    if len(lines) > _MOST_LINES:
        more = [f"and {len(lines) - _MOST_LINES} more places"]
    return ToolChange(
        config.name,
        tool.original_name,
        (*lines[:_MOST_LINES], *more),
        frozenset(texts_in(seen)) - frozenset(texts_in(pinned)),
        is_declared_safe=_is_declared_safe(pinned, seen),
        whole=tuple(_differences(pinned, seen, most=_WHOLE)),
    )


def _is_declared_safe(pinned: Any, seen: Mapping[str, Any]) -> bool:
    before = dict[str, Any]()
    if isinstance(pinned, Mapping):
        before = {**pinned}
    reads_only_now = bool(seen["read_only"]) and not before.get("read_only")
    return reads_only_now or (before.get(_DESTRUCTIVE, True) and not seen[_DESTRUCTIVE])


def _differences(
    before: Any, after: Any, path: str = "", *, most: int = _SHOWN
) -> Iterator[str]:
    """Yield the differences of two JSON values as `path: old -> new`, with at most `most` characters of each value."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            if path:
                deeper = f"{path}.{key}"
            else:
                deeper = key
            yield from _differences(
                before.get(key, _MISSING), after.get(key, _MISSING), deeper, most=most
            )
        return
    old, new = _as_text(before), _as_text(after)
    place = safe_line(path, most)
    if before is _MISSING:
        yield f"{place} added: {_part(new, most)}"
    elif after is _MISSING:
        yield f"{place} removed, was {_part(old, most)}"
    elif old != new:
        start = 0
        if max(len(old), len(new)) > most:
            start = max(_first_difference(old, new) - _BEFORE, 0)
        yield f"{place}: {_part(old, most, start)} -> {_part(new, most, start)}"


def _as_text(value: Any) -> str:
    known = None if value is _MISSING else value
    return with_codes(json.dumps(known, ensure_ascii=False))


def _first_difference(old: str, new: str) -> int:
    """Return the position of the first character that differs."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((place for place, (one, other) in pairs if one != other), len(old))


def _part(text: str, most: int, start: int = 0) -> str:
    """Return the text from `start` on as one line of at most `most` characters, with an ellipsis for omitted text."""
    return f"{'…' if start else ''}{safe_line(text[start:], most)}"
