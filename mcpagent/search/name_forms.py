"""One form for all spellings of a word or a name, so that they can be compared."""

from __future__ import annotations

import unicodedata

_SPACED = "".join(char if char.isalnum() else " " for char in map(chr, range(128)))


def plain(text: str) -> str:
    """The text in lower case without accents, so that `Café` and `cafe` are one."""
    if text.isascii():
        return text.lower()
    # Twice: compatibility forms such as ℡ hold capitals, and folding these gives letters with accents again.
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return unicodedata.normalize("NFC", "".join(char for char in decomposed if not unicodedata.combining(char)))


def name_key(name: str) -> str:
    """What all styles of one name share: `GetWeather`, `get-weather` and `get weather` give `getweather`."""
    if name.isascii():
        return name.lower().translate(_SPACED).replace(" ", "")
    return "".join(char for char in plain(name) if char.isalnum())
