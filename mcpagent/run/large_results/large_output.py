"""A whole large result, with an index for finding a line quickly."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from mcpagent.history.token_estimates import IMAGE_TOKENS, file_tokens
from mcpagent.run.large_results.parsed_outputs import ParsedOutput, glance, read_data
from mcpagent.tool_search.search_options import CHARACTERS_PER_TOKEN
from mcpagent.values.messages import Audio, BinaryBlock, Content, Document, Image, Text

_BLOCK = 65_536
_STEP = 1_000_000
_HANDLE_DIGITS = 12
_BYTES_PER_VALUE = 90


def estimated_tokens(content: Iterable[Content]) -> int:
    """Estimate the tokens of a result's content, without a tokenizer."""
    tokens = 0
    for part in content:
        match part:
            case Text(text=text):
                tokens += -(-len(text) // CHARACTERS_PER_TOKEN)
            case Document(data=data) | Audio(data=data):
                tokens += file_tokens(data)
            case _:
                tokens += IMAGE_TOKENS
    return tokens


def _add(digest: hashlib._Hash, text: str) -> None:
    """Add a text to a digest in steps, so that other threads can run."""
    for start in range(0, len(text), _STEP):
        digest.update(text[start : start + _STEP].encode(errors="surrogatepass"))


@dataclass(frozen=True)
class LargeOutput:
    """The content of a result: its texts joined by line breaks, its images, and other binary blocks, each in order."""

    text: str = field(repr=False)
    images: tuple[Image, ...] = field(default=(), repr=False)
    blocks: tuple[BinaryBlock, ...] = field(default=(), repr=False)

    @classmethod
    def of(
        cls, content: Iterable[Content], blocks: tuple[BinaryBlock, ...] = ()
    ) -> LargeOutput:
        """Create the output from a result's content."""
        parts = tuple(content)
        text = "\n".join(part.text for part in parts if isinstance(part, Text))
        return cls(
            text, tuple(part for part in parts if isinstance(part, Image)), blocks
        )

    @property
    def binaries(self) -> tuple[Image | BinaryBlock, ...]:
        """The images, followed by the other blocks."""
        return (*self.images, *self.blocks)

    @property
    def size(self) -> int:
        """Number of characters, including images and blocks in Base64."""
        return len(self.text) + sum(len(binary.data) for binary in self.binaries)

    @property
    def weight(self) -> int:
        """Estimated bytes in memory, including the parsed data."""
        data: ParsedOutput | None = self.__dict__.get("data")
        return self.size + (data.parts * _BYTES_PER_VALUE if data is not None else 0)

    @property
    def tokens(self) -> int:
        """Estimated tokens of the whole output."""
        return estimated_tokens((Text(self.text), *self.images))

    @cached_property
    def handle(self) -> str:
        """The output's ID: a hash of its content alone, so that a repeated run gives the same bytes.

        A repeated result has the same ID, so mcpagent still detects a model that repeats itself.
        """
        digest = hashlib.sha256()
        _add(digest, self.text)
        for binary in self.binaries:
            _add(digest, f"\0{binary.media_type}\0")
            _add(digest, binary.data)
        return f"out_{digest.hexdigest()[:_HANDLE_DIGITS]}"

    @cached_property
    def data(self) -> ParsedOutput:
        """The text, parsed once."""
        if self.text:
            return read_data(self.text)
        return ParsedOutput("images" if self.images else "binary")

    @cached_property
    def glance(self) -> ParsedOutput:
        """The parsed text for a description; of a large text, only the beginning is parsed."""
        if "data" in self.__dict__ or not self.text:
            return self.data
        seen = glance(self.text)
        if not seen.is_sample:
            self.__dict__["data"] = seen
        return seen

    # -- Lines, counted from 1 -----------------------------------------------------------------------------------------

    @cached_property
    def _ends_before(self) -> list[int]:
        """The number of line breaks before each block of characters. There are few blocks, so 40 million lines need
        little memory.
        """
        text = self.text
        return [
            0,
            *accumulate(
                text.count("\n", start, start + _BLOCK)
                for start in range(0, len(text), _BLOCK)
            ),
        ]

    @property
    def lines(self) -> int:
        """Number of lines; a line break at the end of the text does not begin another line."""
        return self._ends_before[-1] + (not self.text.endswith("\n"))

    def line_start(self, line: int) -> int:
        """Return the offset at which the line starts; the end of the text if there is no such line."""
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
        """Return the number of the line that contains the character at this offset."""
        block = min(place // _BLOCK, len(self._ends_before) - 1)
        return (
            self._ends_before[block] + self.text.count("\n", block * _BLOCK, place) + 1
        )
