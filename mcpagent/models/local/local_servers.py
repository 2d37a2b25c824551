"""Ask a model server on this computer for its models: Ollama, llama.cpp, LM Studio and vLLM can all list them."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from mcpagent.utilities.python.plain_data import MALFORMED
from mcpagent.utilities.text.safe_text import safe_line

ANSWER_SECONDS = 0.5
MAX_LIST_BYTES = 1_000_000
_NO_ANSWER = (OSError, http.client.HTTPException, *MALFORMED)
_HERE = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model on a server; its window in tokens and its number of parameters are None unless the server reports
    them.
    """

    name: str
    window_tokens: int | None = None
    parameters: int | None = None


def is_here(base_url: str) -> bool:
    """Return whether the address is on this computer."""
    try:
        return urlsplit(base_url).hostname in _HERE
    except ValueError:
        return False


def listed_models(base_url: str) -> tuple[ListedModel, ...] | None:
    """Return the models that a local server lists; None if the address is remote or its response is not valid."""
    if not is_here(base_url):
        return None
    try:
        listed = (
            _got(base_url, f"{urlsplit(base_url).path.rstrip('/')}/models")["data"]
            or []
        )
        return tuple(
            ListedModel(safe_line(str(one["id"]), 80), _window(one), _parameters(one))
            for one in listed
        )
    except _NO_ANSWER:
        return None


def sizes_at(provider: str, base_url: str, name: str) -> dict[str, int]:
    """Return "window_tokens" and "parameters" of a model, if its server reports them."""
    listed = listed_models(base_url) or ()
    found: dict[str, int | None] = {}
    for model in listed:
        if model.name == name or len(listed) == 1:
            found = {
                "window_tokens": model.window_tokens,
                "parameters": model.parameters,
            }
            break
    if provider == "ollama" and listed:
        found["parameters"] = parameters_at_ollama(base_url, name)
    return {what: size for what, size in found.items() if size}


def parameters_at_ollama(base_url: str, name: str) -> int | None:
    """Return the number of parameters from Ollama's own list, since its list in OpenAI's format omits them; None if
    unknown.
    """
    if not is_here(base_url):
        return None
    try:
        models = _got(base_url, "/api/tags")["models"]
        sizes = {
            model["name"].removesuffix(":latest"): model["details"]["parameter_size"]
            for model in models
        }
        size = sizes[name.removesuffix(":latest")]
        return int(float(size[:-1]) * {"M": 1e6, "B": 1e9}[size[-1]])
    except _NO_ANSWER:
        return None


def _got(base_url: str, path: str) -> Any:
    """Return the JSON at a path of a local server. Raises one of `_NO_ANSWER` if there is no valid response."""
    parts = urlsplit(base_url)
    kind = (
        http.client.HTTPSConnection
        if parts.scheme == "https"
        else http.client.HTTPConnection
    )
    connection = kind(parts.hostname or "", parts.port, timeout=ANSWER_SECONDS)
    try:
        until = time.monotonic() + ANSWER_SECONDS
        connection.request("GET", path)
        answer, said = connection.getresponse(), b""
        while len(said) < MAX_LIST_BYTES and (part := answer.read1(MAX_LIST_BYTES)):
            said += part
            if time.monotonic() > until:  # each part arrived in time, but not all parts
                raise TimeoutError
        return json.loads(said)
    finally:
        connection.close()


def _window(listed: Mapping[str, Any]) -> int | None:
    """Return the window as reported by vLLM (`max_model_len`) or llama.cpp (`meta.n_ctx`); None if it is missing."""
    return _number(listed.get("max_model_len") or _meta(listed).get("n_ctx"))


def _parameters(listed: Mapping[str, Any]) -> int | None:
    """Return the number of parameters as llama.cpp reports it (`meta.n_params`)."""
    return _number(_meta(listed).get("n_params"))


def _meta(listed: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = listed.get("meta")
    if isinstance(meta, Mapping):
        return meta
    return {}


def _number(told: object) -> int | None:
    if type(told) is int and told > 0:
        return told
    return None
