"""Tool lists on disk, so that a session starts at once and a server only when one of its tools is called.

One JSON file a server, named by a hash of its whole configuration: another argument or key is another file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mcpagent.config import ServerConfig
from mcpagent.mcp.lists import PromptArgument, PromptInfo, ResourceInfo, ServerLists
from mcpagent.messages import ToolDefinition
from mcpagent.whole_files import write_whole

MAX_AGE_SECONDS = 7 * 24 * 3600.0
_FORMAT = 3


@dataclass(frozen=True, slots=True)
class CachedServer:
    """What was true of a server when it was last connected. `is_modern` is its protocol era, None where unknown.

    `is_stale`: it is older than it should be; to be used, and read again in the background. `age_seconds` is how long
    ago it was saved.
    """

    lists: ServerLists
    is_modern: bool | None = None
    protocol_version: str = ""
    title: str = ""
    instructions: str = ""
    is_stale: bool = False
    age_seconds: float = field(default=0.0, compare=False)


class ListCache:
    """Cached lists in one folder. A file that is too old, of another format or broken counts as none; nothing raises.

    An entry lives `max_age_seconds`, or as long as the server itself said where that is shorter. After that, and for
    `stale_seconds` in all, it is given as stale, for those who can refresh it while it is used.
    """

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
        name = re.sub(r"[^A-Za-z0-9_-]", "_", config.name)[:40]
        return self._folder / f"{name}-{fingerprint(config)[:24]}.json"

    def load(self, config: ServerConfig) -> CachedServer | None:
        try:
            data = json.loads(self.path(config).read_bytes())
            if data["format"] != _FORMAT:
                return None
            cached = _read(data["server"])
            age = self._now() - float(data["saved"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        life = min(self._max_age_seconds, cached.lists.ttl_seconds or self._max_age_seconds)
        if 0 <= age <= life:
            return replace(cached, age_seconds=age)
        return replace(cached, age_seconds=age, is_stale=True) if 0 <= age <= self._stale_seconds else None

    def save(self, config: ServerConfig, server: CachedServer) -> None:
        data = {"format": _FORMAT, "saved": self._now(), "server": asdict(server)}
        with contextlib.suppress(OSError, ValueError):
            write_whole(self.path(config), json.dumps(data))

    def drop(self, config: ServerConfig) -> None:
        with contextlib.suppress(OSError):
            self.path(config).unlink(missing_ok=True)


def fingerprint(config: ServerConfig) -> str:
    """SHA-256 over all that decides which server answers: command, arguments, environment, folder, URL, headers."""
    parts = [
        config.command,
        list(config.args),
        sorted(config.env.items()),
        config.cwd,
        config.url,
        sorted(config.headers.items()),
        config.transport,
    ]
    return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _read(data: dict[str, Any]) -> CachedServer:
    lists = data["lists"]
    return CachedServer(
        ServerLists(
            tools=tuple(_tool(item) for item in lists["tools"]),
            prompts=tuple(
                PromptInfo(**item | {"arguments": tuple(PromptArgument(**part) for part in item["arguments"])})
                for item in lists["prompts"]
            ),
            resources=tuple(ResourceInfo(**item) for item in lists["resources"]),
            ttl_seconds=float(lists["ttl_seconds"]),
            safe_by_hint=tuple(map(str, lists["safe_by_hint"])),
            task_only=tuple(map(str, lists["task_only"])),
            task_able=tuple(map(str, lists["task_able"])),
        ),
        is_modern=data["is_modern"],
        protocol_version=str(data["protocol_version"]),
        title=str(data["title"]),
        instructions=str(data["instructions"]),
    )


def _tool(item: dict[str, Any]) -> ToolDefinition:
    tool = ToolDefinition(**item | {"tags": tuple(item["tags"])})
    if not isinstance(tool.name, str) or not isinstance(tool.parameters, dict):
        raise TypeError("not a tool")
    return tool
