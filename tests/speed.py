"""Limits of time in seconds of one machine, the one they were written on, wherever they are checked.

    assert within(time.thread_time() - started, 0.4)

holds where it took 0.4 s at most; or where a fixed piece of work, done now, takes longer than it did on that machine,
and what was measured is no more of it than 0.4 s were there. So no limit is looser on a machine of that speed, and a
slower one, or one that others keep busy, is not told to be faster than it is.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from collections.abc import Callable

REFERENCE_SECONDS = 0.0011
"""What `_work` takes on an idle core of the reference machine, with Python 3.11 (a tenth of all runs took 0.0010)."""

TRACED = 10.0
"""How many times longer Python code takes at most while a tracer counts its lines and branches."""

SAMPLES = 40
"""Done one after the other: longer than a turn that another program gets on the same core."""

_DOCUMENT = {
    "tools": [
        {"name": f"tool_{n}", "description": "words " * 12, "parameters": {"type": "object", "required": [str(n)]}}
        for n in range(120)
    ]
}


def within(took: float, seconds: float, clock: Callable[[], float] = time.thread_time) -> bool:
    """Whether `took` is at most `seconds` of the reference machine.

    `clock`: `time.monotonic` for what was measured by the clock, where other programs slow the work down as well.
    """
    return took <= seconds or took <= seconds * slowness(clock)


def slowness(clock: Callable[[], float] = time.thread_time) -> float:
    """How many times longer the work takes here and now than on the reference machine; never less than 1.

    A tracer, as for coverage, slows our own code and hardly the work: then `TRACED` times as long.
    """
    taken = []
    for _ in range(SAMPLES):
        started = clock()
        _work()
        taken.append(clock() - started)
    slower = max(1.0, statistics.fmean(taken) / REFERENCE_SECONDS)
    return slower * TRACED if sys.gettrace() is not None else slower


def _work() -> int:
    """Something of everything that the tests measure: text read and written, patterns, many small objects."""
    text = json.dumps(_DOCUMENT)
    document = json.loads(text)
    words = re.findall(r"[a-z_]+\d*", text)
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + len(word)
    names = sorted(((tool["name"], tool["description"].split()) for tool in document["tools"]), key=str)
    return len(names) + sum(counts.values())
