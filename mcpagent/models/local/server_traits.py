"""The discovered traits of a model on a self-hosted server, cached on disk."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from mcpagent.config.bounded_files import read_own
from mcpagent.config.file_changes import write_whole

MAX_AGE_SECONDS = 24 * 3600.0
"""A server can be started anew in another way; what it could not do yesterday is tried again."""

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class ServerTraits:
    """The traits of a model on a server.

    `takes_tools`: whether requests may contain tools. `constrains`: whether `response_format` is obeyed.
    `takes_schemas`: whether tools' schemas are accepted unchanged, or only loosened (`loose_schemas.py`).
    `window_tokens`: the window with which its server was started, as reported by the server or a failure. `parameters`:
    the model's number of parameters.
    """

    takes_tools: bool = True
    constrains: bool = True
    takes_schemas: bool = True
    window_tokens: int | None = None
    parameters: int | None = None


class TraitCache:
    """Small files in `folder`, one for each model at an address. An old or broken file counts as missing."""

    def __init__(
        self, folder: Path, *, max_age_seconds: float = MAX_AGE_SECONDS, now: Callable[[], float] = time.time
    ) -> None:
        self._folder = folder
        self._max_age_seconds = max_age_seconds
        self._now = now

    def load(self, base_url: str, model: str) -> ServerTraits | None:
        """Return the stored traits of a model at an address, None if there are none that are still valid."""
        try:
            data = json.loads(read_own(self._path(base_url, model)))
            is_current = data["format"] == _FORMAT and 0 <= self._now() - data["found"] <= self._max_age_seconds
            traits = ServerTraits(**data["traits"])
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            return None
        flags = (traits.takes_tools, traits.constrains, traits.takes_schemas)
        are_flags = all(isinstance(flag, bool) for flag in flags)
        sizes = (traits.window_tokens, traits.parameters)
        are_sizes = all(size is None or (type(size) is int and size > 0) for size in sizes)
        return traits if is_current and are_flags and are_sizes else None

    def save(self, base_url: str, model: str, traits: ServerTraits) -> None:
        """Save the traits; a folder that is not writable only costs the next process one more request."""
        data = {"format": _FORMAT, "found": self._now(), "traits": asdict(traits)}
        with contextlib.suppress(OSError):
            write_whole(self._path(base_url, model), json.dumps(data), is_cache=True)

    def _path(self, base_url: str, model: str) -> Path:
        key = hashlib.sha256(f"{base_url.rstrip('/')}\0{model}".encode("utf-8", "replace")).hexdigest()
        return self._folder / f"{key[:32]}.json"
