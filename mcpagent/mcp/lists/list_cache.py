"""Cache servers' lists on disk, so that a session starts at once, and a server only when one of its tools is called.

There is one file for each server, named by a hash of its whole configuration, so another argument or key gives another
file. It has one line of JSON for the server, one for each tool and one for each output schema: there may be ten
thousand tools, and the interpreter reads or writes a line in one step.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

from mcpagent.config import ServerConfig
from mcpagent.errors import ConfigError
from mcpagent.mcp.lists.server_lists import (
    PromptArgument,
    PromptInfo,
    ResourceInfo,
    ServerLists,
)
from mcpagent.utilities.filesystem.bounded_files import read_own
from mcpagent.utilities.filesystem.file_changes import write_whole
from mcpagent.utilities.python.argument_checks import checked, expect_arguments
from mcpagent.utilities.python.plain_data import MALFORMED
from mcpagent.utilities.text.secrets import revealed, without_secrets
from mcpagent.values.messages import ToolDefinition

MAX_AGE_SECONDS = 7 * 24 * 3600.0
_FORMAT = 6
_LINES_AT_ONCE = 100
_LONG_BYTES = 200_000
_HINTS = (bool, NoneType)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CachedServer:
    """The data of a server from its last connection. `is_modern`: it uses the protocol of 2026-07-28, None if unknown.

    `is_stale`: the lists are expired but usable, and should be read again in the background. `age_seconds` is the time
    since they were stored.
    """

    lists: ServerLists = field(default_factory=ServerLists)
    is_modern: bool | None = None
    protocol_version: str = ""
    title: str = ""
    instructions: str = ""
    is_stale: bool = False
    age_seconds: float = field(default=0.0, compare=False)


class ListCache:
    """Cached lists in one folder.

    A file that is too old, invalid, or of another format counts as missing; nothing raises. An entry is valid for
    `max_age_seconds`, or for the server's own time to live if that is shorter. After that, for up to `stale_seconds`,
    it is returned as stale, for callers that can refresh it while using it.
    """

    @checked()
    def __init__(
        self,
        folder: Path,
        *,
        max_age_seconds: float = MAX_AGE_SECONDS,
        stale_seconds: float = 0.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._max_age_seconds = max_age_seconds
        self._stale_seconds = stale_seconds
        self._now = now

    def path(self, config: ServerConfig) -> Path:
        """Return the path of a server's file, which need not exist."""
        name = re.sub(r"[^A-Za-z0-9_-]", "_", config.name)[:40]
        return self._folder / f"{name}-{config_fingerprint(config)[:24]}.json"

    def is_long(self, config: ServerConfig) -> bool:
        """Return whether the server's cached lists are so large that reading them takes more than a few
        milliseconds.
        """
        try:
            return self.path(config).stat().st_size > _LONG_BYTES
        except OSError:
            return False

    def load(self, config: ServerConfig) -> CachedServer | None:
        """Return the usable cached data of a server, or None."""
        try:
            data, *rest = map(json.loads, read_own(self.path(config)).splitlines())
            if data["format"] != _FORMAT:
                return None
            cached = _read(data["server"], rest[: data["tools"]], rest[data["tools"] :])
            age = self._now() - float(data["saved"])
        except (OSError, ConfigError, *MALFORMED):
            return None
        life = min(
            self._max_age_seconds, cached.lists.ttl_seconds or self._max_age_seconds
        )
        if not 0 <= age <= max(life, self._stale_seconds):
            return None
        return replace(cached, age_seconds=age, is_stale=age > life)

    def save(self, config: ServerConfig, server: CachedServer) -> None:
        """Store the lists, replacing earlier ones. Lists that contain a secret are not stored, because they must stay
        unaltered.
        """
        with contextlib.suppress(OSError, ValueError):
            lines = list(_lines(server, self._now()))
            parts = [
                "\n".join(lines[start : start + _LINES_AT_ONCE])
                for start in range(0, len(lines), _LINES_AT_ONCE)
            ]
            if all(without_secrets(part) == part for part in parts):
                write_whole(self.path(config), "\n".join(parts), is_cache=True)
            else:
                self.drop(config)

    def drop(self, config: ServerConfig) -> None:
        """Delete a server's entry."""
        with contextlib.suppress(OSError):
            self.path(config).unlink(missing_ok=True)


def config_fingerprint(config: ServerConfig) -> str:
    """Return a SHA-256 of everything that identifies a server.

    That is its command, arguments, environment, folder, URL and headers; for an HTTP API also its document.
    """
    parts: list[Any] = [
        revealed(config.command),
        [revealed(word) for word in config.args],
        sorted((name, revealed(text)) for name, text in config.env.items()),
        config.cwd,
        config.address,
        sorted((name, revealed(text)) for name, text in config.headers.items()),
        config.transport,
    ]
    if config.openapi:
        parts += [config.openapi, _version_of(config.openapi)]
    return hashlib.sha256(
        json.dumps(parts, default=str).encode("utf-8", "surrogatepass")
    ).hexdigest()


def _version_of(document: str | Mapping[str, Any]) -> list[int]:
    """Return the size and modification time of a file; [] for any other document."""
    try:
        found = os.stat(document) if isinstance(document, str) else None
    except OSError:
        return []
    if found is None:
        return []
    return [found.st_size, found.st_mtime_ns]


def _lines(server: CachedServer, now: float) -> Iterator[str]:
    """Yield the lines of a server's file."""
    lists = server.lists
    rest = replace(server, lists=replace(lists, tools=(), output_schemas={}))
    head = {"format": _FORMAT, "saved": now, "tools": len(lists.tools)}
    yield json.dumps(head | {"server": asdict(rest)})
    names = [part.name for part in fields(ToolDefinition)]
    for tool in lists.tools:
        yield json.dumps({name: getattr(tool, name) for name in names})
    for item in lists.output_schemas.items():
        yield json.dumps(item)


def _read(data: dict[str, Any], tools: list[Any], schemas: list[Any]) -> CachedServer:
    """Return a server from its JSON. Raises `ConfigError` and other errors for data of the wrong type."""
    lists = data["lists"]
    prompts = (
        item
        | {
            "arguments": tuple(
                _made(PromptArgument, part) for part in item["arguments"]
            )
        }
        for item in lists["prompts"]
    )
    if type(data["is_modern"]) not in _HINTS:
        raise TypeError("no era")
    return CachedServer(
        ServerLists(
            tuple(map(_tool, tools)),
            tuple(_made(PromptInfo, item) for item in prompts),
            tuple(_made(ResourceInfo, item) for item in lists["resources"]),
            float(lists["ttl_seconds"]),
            **{
                key: tuple(map(str, lists[key]))
                for key in ("safe_by_hint", "task_only", "task_able")
            },
            output_schemas=_schemas(dict(schemas)),
            unused={
                str(key): _schemas(items) for key, items in lists["unused"].items()
            },
        ),
        data["is_modern"],
        str(data["protocol_version"]),
        str(data["title"]),
        str(data["instructions"]),
    )


def _schemas(found: dict[Any, Any]) -> dict[str, dict[str, Any]]:
    if not all(type(schema) is dict for schema in found.values()):
        raise TypeError("not schemas")
    return found


def _tool(item: dict[str, Any]) -> ToolDefinition:
    """Return a tool from its JSON, faster than `_made`: there are thousands of tools, and a session starts with
    them.
    """
    tool = ToolDefinition(
        **item | {"tags": tuple(item["tags"]), "source": "", "listed": ""}
    )
    texts_fit = (
        type(tool.name)
        is type(tool.description)
        is type(tool.original_name)
        is type(tool.title)
        is str
    )
    others_fit = (
        type(tool.category) is str
        and type(tool.parameters) is dict
        and type(tool.read_only) in _HINTS
    )
    if not (
        texts_fit
        and others_fit
        and all(type(text) is str for text in (tool.server or "", *tool.tags))
    ):
        raise TypeError("not a tool")
    return tool


def _made(kind: type[_T], item: dict[str, Any]) -> _T:
    expect_arguments(kind.__name__, kind, item)
    return kind(**item)
