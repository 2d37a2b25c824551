"""Create many objects without pauses of the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the garbage collector while the block creates many long-lived objects: a collection would block all
    threads.

    No garbage is lost: the next full collection finds it.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()  # moves all objects into the oldest generation
        gc.enable()
