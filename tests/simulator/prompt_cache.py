"""How the providers cache prompts, over a prompt rendered as units."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import accumulate

from tests.simulator.values import Unit

LOOKBACK_UNITS = 20
"""Anthropic looks for an earlier entry at most this many blocks before a breakpoint."""

MINIMUM_TOKENS = 1024
STEP_TOKENS = 128
"""OpenAI caches from 1,024 tokens on, in steps of 128."""


def _prefixes(units: Sequence[Unit]) -> list[str]:
    """A hash for every prefix, in order of length."""
    return list(accumulate((unit.text for unit in units), lambda so_far, text: _hash(so_far + text), initial=""))[1:]


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()


class BreakpointCache:
    """Anthropic's: prefixes are kept where a breakpoint was, and found by looking back from one."""

    def __init__(self) -> None:
        self._kept: set[str] = set()

    def read_and_write(self, units: Sequence[Unit]) -> tuple[int, int]:
        """Tokens read from the cache and written to it."""
        prefixes = _prefixes(units)
        ends = [place for place, unit in enumerate(units) if unit.breakpoint]
        found = [
            place
            for end in ends
            for place in range(end, max(end - LOOKBACK_UNITS, -1), -1)
            if prefixes[place] in self._kept
        ]
        sizes = list(accumulate(unit.tokens for unit in units))
        read = sizes[max(found)] if found else 0
        written_to = sizes[ends[-1]] if ends else 0
        self._kept |= {prefixes[end] for end in ends if sizes[end] >= MINIMUM_TOKENS}
        return read, max(written_to - read, 0) if written_to >= MINIMUM_TOKENS else 0


class PrefixCache:
    """OpenAI's: the longest prefix that any earlier request had, in steps and from a size on."""

    minimum = MINIMUM_TOKENS
    step = STEP_TOKENS

    def __init__(self) -> None:
        self._kept: set[str] = set()

    def read_and_write(self, units: Sequence[Unit]) -> tuple[int, int]:
        prefixes = _prefixes(units)
        sizes = list(accumulate(unit.tokens for unit in units))
        common = [size for prefix, size in zip(prefixes, sizes, strict=True) if prefix in self._kept]
        longest = max(common, default=0)
        self._kept |= set(prefixes)
        return (longest // self.step * self.step if longest >= self.minimum else 0), 0


class LocalCache(PrefixCache):
    """The cache of a server of one's own: blocks of 16 tokens (vLLM docs, automatic prefix caching), from one on."""

    minimum = step = 16
