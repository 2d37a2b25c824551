"""The limits of content. A part over a limit is scaled, offloaded or described; other parts stay unchanged."""

from __future__ import annotations

MAX_IMAGE_BYTES = 3_750_000
"""Maximum size of one image. Anthropic accepts 5 MB in Base64, the least of all providers (its docs, vision)."""

MAX_IMAGE_SIDE = 8_000
"""Maximum side of an image in pixels. Anthropic refuses a longer one (its docs, vision)."""

SCALED_SIDE = 2_000
"""Longer side, in pixels, of an image that mcpagent scales down: the maximum in requests with many images (Anthropic's
docs, vision). Every provider scales larger ones down itself.
"""

MAX_DOCUMENT_BYTES = 20_000_000
"""Maximum size of one document or recording. Anthropic accepts requests of 32 MB, Base64 included, OpenAI of 50 MB."""

MAX_FILES_BYTES = 20_000_000
"""Maximum size of all files of one prompt or result together."""

MAX_IMAGES = 20
"""Maximum number of images in one prompt or result. Beyond it, Anthropic accepts only sides of 2,000 pixels."""

MAX_BLOCKS = 1_000
"""Maximum number of content blocks of one result; further ones become one text, which is offloaded if it is large."""

MAX_VALUES = 300_000
"""Maximum number of JSON values in one result or block. A larger one stays text: readable, but not data for programs.
Each garbage collection visits all values of results in use, and blocks all threads meanwhile.
"""

MAX_MESSAGE_VALUES = 1_000_000
"""Maximum number of JSON values in each of these: a server's whole list of tools, prompts or resources; one error; one
line with several messages (a JSON-RPC batch).
"""

MAX_LISTED_VALUES, MAX_LISTED_BYTES = 20_000, 1_000_000
"""Maximum values and bytes of one tool, prompt or resource in a list. A larger tool would fill the window of nearly
every model, and all providers refuse it.
"""

MAX_LISTED_NAME = 1_000
"""Maximum length of a tool's name; models get at most 64 characters (`tool_search/unique_names.py`)."""

MAX_LEVELS = 150
"""Maximum nesting of JSON data; parsers fail at 200."""

MAX_EXTRACTED = 2_000_000
"""Maximum number of characters of the text extracted from one document."""
