"""What a server on this computer says of itself: Ollama, llama.cpp, LM Studio and vLLM all list their models."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from mcpagent.text.safe_text import safe_line

ANSWER_SECONDS = 0.5
MAX_LIST_BYTES = 1_000_000
_HERE = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model that a server has, with its window in tokens where the server says it."""

    name: str
    window_tokens: int | None = None


def is_here(base_url: str) -> bool:
    """Whether this is an address of this computer's own."""
    try:
        return urlsplit(base_url).hostname in _HERE
    except ValueError:
        return False


def listed_models(base_url: str) -> tuple[ListedModel, ...] | None:
    """The models of a server on this computer; None if nothing there answers as such a server does."""
    if not is_here(base_url):
        return None
    connection: http.client.HTTPConnection | None = None
    try:
        parts = urlsplit(base_url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=ANSWER_SECONDS)
        connection.request("GET", f"{parts.path.rstrip('/')}/models")
        listed = json.loads(connection.getresponse().read(MAX_LIST_BYTES))["data"] or []
        return tuple(ListedModel(safe_line(str(one["id"]), 80), _window(one)) for one in listed)
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    finally:
        if connection is not None:
            connection.close()


def _window(listed: Mapping[str, Any]) -> int | None:
    """As vLLM (`max_model_len`) and llama.cpp (`meta.n_ctx`) say it."""
    meta = listed.get("meta")
    told = listed.get("max_model_len") or (meta.get("n_ctx") if isinstance(meta, Mapping) else None)
    return told if type(told) is int and told > 0 else None
