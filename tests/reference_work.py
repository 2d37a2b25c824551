"""Limits of CPU time as a ratio: to a fixed piece of work that the same test does on the same machine."""

from __future__ import annotations

import time


def reference_seconds() -> float:
    """CPU time of a fixed piece of work, the least of three: 5 ms on a machine of usual speed."""

    def work() -> float:
        began = time.process_time()
        total = 0
        for number in range(100_000):
            total += number * number % 7
        return time.process_time() - began

    return min(work() for _ in range(3))
