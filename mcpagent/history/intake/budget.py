"""The limits of content. A part over a limit is scaled, offloaded or described; the other parts stay unchanged."""

from __future__ import annotations

MAX_IMAGE_BYTES = 3_750_000
"""Limit of one picture. Anthropic accepts 5 MB in Base64, the least of all providers (its docs, vision)."""

MAX_IMAGE_SIDE = 8_000
"""Pixels. Anthropic refuses a longer side (its docs, vision)."""

SCALED_SIDE = 2_000
"""Pixels of the longer side of a picture that was scaled down: the most in requests with many pictures (Anthropic's
docs, vision). Every provider scales larger ones down by itself."""

MAX_DOCUMENT_BYTES = 20_000_000
"""Limit of one document or recording. Anthropic accepts requests of 32 MB, Base64 included, OpenAI of 50 MB."""

MAX_FILES_BYTES = 20_000_000
"""Limit of all files of one prompt or result together."""

MAX_IMAGES = 20
"""Limit of one prompt or result. Beyond it, Anthropic accepts only 2,000 pixels a side."""

MAX_BLOCKS = 1_000
"""Content blocks of one result; all further ones become one text, which is offloaded if it is large."""

MAX_VALUES = 300_000
"""JSON values of one result or block. A larger one stays text: readable, but no data for programs. Each garbage
collection visits the values of the results in use, and holds all threads for that long."""

MAX_MESSAGE_VALUES = 1_000_000
"""JSON values of all tools of a server, of an error, and of several messages in one line."""

MAX_LISTED_VALUES, MAX_LISTED_BYTES = 20_000, 1_000_000
"""Limits of one tool, prompt or resource in a list. A larger tool fills the window of nearly every model, and all
providers refuse it."""

MAX_LISTED_NAME = 1_000
"""Characters of the name of a tool; models get 64 of them (`tool_search/unique_names.py`)."""

MAX_LEVELS = 150
"""Nested levels of JSON data; parsers end at 200."""

MAX_EXTRACTED = 2_000_000
"""Characters of the text of one document."""
