"""An event loop in a thread of its own, for callers that have none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class BackgroundLoop:
    """Runs coroutines to their end for synchronous code; also inside a notebook, whose own loop is busy."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        # A daemon: a script that forgets to close the agent still ends, and servers see their stdin close.
        self._thread = threading.Thread(target=self.loop.run_forever, name="mcpagent", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The coroutine's result; an interrupt of the waiting thread (Ctrl-C) cancels it first."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
