"""A result as a whole, with what finds a line in it quickly."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from mcpagent.large_results.kinds import Data, read_data
from mcpagent.messages import BinaryBlock, Image, Text
from mcpagent.tool_search.search_options import CHARACTERS_PER_TOKEN
from mcpagent.window.estimates import IMAGE_TOKENS

_BLOCK = 65_536
_HANDLE_DIGITS = 12
_BYTES_PER_VALUE = 90


def estimated_tokens(content: Iterable[Text | Image]) -> int:
    """About what a result's content takes of a model's window, without asking anybody."""
    return sum(
        IMAGE_TOKENS if isinstance(part, Image) else -(-len(part.text) // CHARACTERS_PER_TOKEN) for part in content
    )


@dataclass(frozen=True)
class LargeOutput:
    """What a result said: its texts as one, a line each, its images and its other binary blocks in order."""

    text: str = field(repr=False)
    images: tuple[Image, ...] = field(default=(), repr=False)
    blocks: tuple[BinaryBlock, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, content: Iterable[Text | Image], blocks: tuple[BinaryBlock, ...] = ()) -> LargeOutput:
        """That of a result's content."""
        parts = tuple(content)
        text = "\n".join(part.text for part in parts if isinstance(part, Text))
        return cls(text, tuple(part for part in parts if isinstance(part, Image)), blocks)

    @property
    def binaries(self) -> tuple[Image | BinaryBlock, ...]:
        """Images, then blocks."""
        return (*self.images, *self.blocks)

    @property
    def size(self) -> int:
        """Characters, those of images and blocks in Base64 too."""
        return len(self.text) + sum(len(binary.data) for binary in self.binaries)

    @property
    def weight(self) -> int:
        """About the bytes that it takes now, with what its text was read as."""
        data: Data | None = self.__dict__.get("data")
        return self.size + (data.parts * _BYTES_PER_VALUE if data is not None else 0)

    @property
    def tokens(self) -> int:
        """About what it would take of a window."""
        return estimated_tokens((Text(self.text), *self.images))

    @cached_property
    def handle(self) -> str:
        """What names it: made of what it says alone, so the same bytes come of the same run however often it is done.

        A result that comes again has the same one, so that a model which repeats itself is still seen to.
        """
        digest = hashlib.sha256(self.text.encode(errors="surrogatepass"))
        for binary in self.binaries:
            digest.update(f"\0{binary.media_type}\0{binary.data}".encode(errors="surrogatepass"))
        return f"out_{digest.hexdigest()[:_HANDLE_DIGITS]}"

    @cached_property
    def data(self) -> Data:
        """What the text was read as, once."""
        if self.text:
            return read_data(self.text)
        return Data("images" if self.images else "binary")

    # -- lines, counted from 1 ----------------------------------------------------------------------------------------

    @cached_property
    def _ends_before(self) -> list[int]:
        """How many line ends stand before each block: so few figures that 40 million lines cost nothing."""
        text = self.text
        return [0, *accumulate(text.count("\n", start, start + _BLOCK) for start in range(0, len(text), _BLOCK))]

    @property
    def lines(self) -> int:
        """How many lines the text has; what ends the last one begins no other."""
        return self._ends_before[-1] + (not self.text.endswith("\n"))

    def line_start(self, line: int) -> int:
        """Where the line begins; the end of the text for one beyond the last."""
        if line <= 1:
            return 0
        wanted = line - 1
        if wanted > self._ends_before[-1]:
            return len(self.text)
        block = bisect_right(self._ends_before, wanted - 1) - 1
        place = block * _BLOCK - 1
        for _ in range(wanted - self._ends_before[block]):
            place = self.text.index("\n", place + 1)
        return place + 1

    def line_at(self, place: int) -> int:
        """The line in which the character at this place stands."""
        block = min(place // _BLOCK, len(self._ends_before) - 1)
        return self._ends_before[block] + self.text.count("\n", block * _BLOCK, place) + 1
