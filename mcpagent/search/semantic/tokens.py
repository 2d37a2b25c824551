"""Encode words as a model's token numbers: byte-pair encoding as in `tokenizer.json` files, read in place.

Such a file is 2 MB of JSON, which takes a tenth of a second to read. The needed parts are cached under the file's hash,
as sorted numbers that are looked up in memory shared between processes. The cached file contains the length of its JSON
header (8 bytes, little endian), the header, the sorted pairs of tokens to join (uint32, both tokens in one number), the
rank of each pair (uint16; the lowest is joined first), and the token of each rank (uint16).

Source of the format and the algorithm: Hugging Face tokenizers 0.23, models "BPE" with `byte_fallback`, normalizers
"Prepend" and "Replace".
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import re
from array import array
from bisect import bisect_left
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from mcpagent.search.postings import ComputedCache
from mcpagent.utilities.filesystem.bounded_files import map_own
from mcpagent.utilities.filesystem.file_changes import write_whole
from mcpagent.utilities.python.plain_data import MALFORMED

logger = logging.getLogger("mcpagent")

_FORMAT = 1
_MOST_TOKENS = 1 << 16
_NEVER = 1 << 16
_MOST_KNOWN = 100_000
_SPACE = "\u2581"
"""The tokenizer's character for a space before a word."""


class Tokens:
    """Encodes words with the token pairs and characters of one model."""

    def __init__(self, data: memoryview) -> None:
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(bytes(data[8:start]))
        count: int = header["pairs"]
        ends = [
            start,
            start + 4 * count,
            start + 6 * count,
            start + 6 * count + 2 * header["merges"],
        ]
        if header["format"] != _FORMAT or ends[-1] != len(data):
            raise ValueError("the sizes in it do not fit")
        kinds: tuple[Literal["I", "H"], ...] = ("I", "H", "H")
        self._pairs, self._ranks, self._joined = (
            data[at:end].cast(kind)
            for (at, end), kind in zip(pairwise(ends), kinds, strict=True)
        )
        if max(self._ranks, default=-1) >= len(self._joined):
            raise ValueError("a rank in it does not fit")
        self._known: dict[int, int] = ComputedCache(self._rank)
        self._chars: dict[str, int] = dict(
            zip(header["chars"], header["tokens"], strict=True)
        )
        self._bytes: list[int] = header["bytes"]
        self._whole: dict[str, int] = header["whole"]
        self._parts = re.compile(
            "|".join(map(re.escape, sorted(self._whole, key=len, reverse=True)))
            or "(?!)"
        )
        if len(self._bytes) != 256 or not all(
            isinstance(one, int) for one in [*self._chars.values(), *self._bytes]
        ):
            raise ValueError("a token in it does not fit")

    def encode(self, word: str) -> tuple[int, ...]:
        """Return the tokens of a word without spaces."""
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        found: list[int] = []
        at = 0
        for whole in self._parts.finditer(word):
            found += self._encode(word[at : whole.start()])
            found.append(self._whole[whole[0]])
            at = whole.end()
        return (*found, *self._encode(word[at:]))

    def _encode(self, text: str) -> list[int]:
        if not text:
            return []
        tokens: list[int] = []
        for char in _SPACE + text:
            token = self._chars.get(char)
            if token is None:
                tokens += [
                    self._bytes[byte] for byte in char.encode("utf-8", "replace")
                ]
            else:
                tokens.append(token)
        known = self._known
        ranks = [known[left * _MOST_TOKENS + right] for left, right in pairwise(tokens)]
        while ranks and (lowest := min(ranks)) < _NEVER:
            at = ranks.index(lowest)
            tokens[at : at + 2] = [self._joined[lowest]]
            del ranks[at]
            if at:
                ranks[at - 1] = known[tokens[at - 1] * _MOST_TOKENS + tokens[at]]
            if at < len(ranks):
                ranks[at] = known[tokens[at] * _MOST_TOKENS + tokens[at + 1]]
        return tokens

    def _rank(self, pair: int) -> int:
        at = bisect_left(self._pairs, pair)
        if at < len(self._pairs) and self._pairs[at] == pair:
            return self._ranks[at]
        return _NEVER


def open_tokens(path: Path, cache: Path | None) -> Tokens:
    """Open the tokens of a `tokenizer.json`, cached in the folder `cache`, which is created if missing (None: no
    cache).

    Raises `OSError` if the file cannot be read, and `ValueError` if it is of another kind.
    """
    source = path.read_bytes()
    if cache is None:
        return Tokens(memoryview(_compact(source)))
    kept = cache / f"tokens-{hashlib.sha256(source).hexdigest()[:32]}.bin"
    try:
        return Tokens(map_own(kept))
    except FileNotFoundError:
        pass
    except (OSError, *MALFORMED) as error:
        logger.debug("%s: not read, it is made again: %s", kept, error)
    made = _compact(source)
    with contextlib.suppress(OSError):
        write_whole(kept, made, is_cache=True)
    return Tokens(memoryview(made))


def _compact(source: bytes) -> bytes:
    try:
        held = json.loads(source)
        model, vocabulary = held["model"], held["model"]["vocab"]
        if (
            model["type"] != "BPE"
            or not model["byte_fallback"]
            or len(vocabulary) > _MOST_TOKENS
        ):
            raise ValueError("another kind of model")
        merges = [
            one.split(" ") if isinstance(one, str) else one for one in model["merges"]
        ]
        ranks = {
            vocabulary[left] * _MOST_TOKENS + vocabulary[right]: rank
            for rank, (left, right) in enumerate(merges)
        }
        pairs = sorted(ranks)
        header: dict[str, Any] = {
            "format": _FORMAT,
            "pairs": len(pairs),
            "merges": len(merges),
            "chars": [char for char in vocabulary if len(char) == 1],
            "tokens": [token for char, token in vocabulary.items() if len(char) == 1],
            "bytes": [vocabulary[f"<0x{byte:02X}>"] for byte in range(256)],
            "whole": {token["content"]: token["id"] for token in held["added_tokens"]},
        }
        numbers = [array("I", pairs), array("H", map(ranks.__getitem__, pairs))]
        numbers.append(array("H", (vocabulary[left + right] for left, right in merges)))
    except MALFORMED as error:
        raise ValueError(
            f"not a tokenizer that is known here: {type(error).__name__} {error}"
        ) from None
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *numbers])
