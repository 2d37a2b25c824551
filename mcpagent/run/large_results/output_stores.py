"""Stores for whole outputs: in memory here; `journal/sessions/stored_outputs.py` has one in a session store."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from typing import Protocol

from mcpagent.run.large_results.large_output import LargeOutput
from mcpagent.utilities.text.secrets import hide_environment, without_secrets

MOST_IN_MEMORY = 256 * 1024 * 1024
"""Maximum number of characters of one session's outputs in memory; beyond it, the oldest are dropped."""

MOST_OPENED = 512 * 1024 * 1024
"""Maximum estimated bytes of all open outputs of all sessions; at least one output stays open."""


class OutputStore(Protocol):
    """A store for the outputs of one session."""

    def clean(self, text: str) -> str:
        """Return the text in the form in which the store returns it."""
        ...

    async def put(self, output: LargeOutput, tool: str) -> None:
        """Store the output; for one that exists, renew its lifetime.

        Never raises: if the store fails, its next write reports the failure.
        """
        ...

    async def get(self, handle: str) -> LargeOutput | None:
        """Return the output; None if this session never stored it, or it has expired."""
        ...


class MemoryOutputStore:
    """A store in the session's memory, up to a size limit."""

    def __init__(self, most: int = MOST_IN_MEMORY) -> None:
        self._most = most
        self._kept: OrderedDict[str, LargeOutput] = OrderedDict()

    def clean(self, text: str) -> str:
        """Return the text with secrets replaced, as other stores do, so that runs with and without a store are the
        same.
        """
        hide_environment(os.environ)
        return without_secrets(text)

    async def put(self, output: LargeOutput, tool: str) -> None:  # noqa: ARG002 - as every shelf
        """Store the output; drop the oldest beyond the size limit."""
        self._kept[output.handle] = output
        self._kept.move_to_end(output.handle)
        while (
            len(self._kept) > 1
            and sum(kept.size for kept in self._kept.values()) > self._most
        ):
            self._kept.popitem(last=False)

    async def get(self, handle: str) -> LargeOutput | None:
        """Return the stored output; None if it is missing."""
        return self._kept.get(handle)


class OutputKey:
    """A key that identifies a session in `OpenOutputs`. When it is garbage collected, the session's outputs are
    closed.
    """

    __slots__ = ("__weakref__",)


class OpenOutputs:
    """A cache of recently used outputs with their parsed data, so that readers parse nothing twice."""

    def __init__(self, most: int = MOST_OPENED) -> None:
        self._most = most
        self._open: OrderedDict[tuple[int, str], LargeOutput] = OrderedDict()
        self._lock = (
            threading.RLock()
        )  # several threads use it, and a session may be collected in any
        self._sessions: set[int] = set()

    def get(self, session: OutputKey, handle: str) -> LargeOutput | None:
        """Return this session's output with this ID; None if it is not open."""
        with self._lock:
            found = self._open.get((id(session), handle))
            if found is not None:
                self._open.move_to_end((id(session), handle))
        return found

    def put(self, session: OutputKey, handle: str, output: LargeOutput) -> None:
        """Add an output; close the least recently used ones beyond the size limit."""
        key = id(session)
        with self._lock:
            if key not in self._sessions:
                self._sessions.add(key)
                weakref.finalize(session, self._ended, key).atexit = False
            self._open[key, handle] = output
            self._open.move_to_end((key, handle))
            while (
                len(self._open) > 1
                and sum(output.weight for output in self._open.values()) > self._most
            ):
                self._open.popitem(last=False)

    def _ended(self, session: int) -> None:
        with self._lock:
            self._sessions.discard(session)
            for key in [key for key in self._open if key[0] == session]:
                del self._open[key]
