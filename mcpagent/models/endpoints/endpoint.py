"""`Endpoint`: the features and limits of a model at an address, as one value.

It combines rows of `profiles.py` (settings of models and servers), of `capabilities.py` (tools that are found during a
conversation), of the generated table (`model_table.json`) and of the price table. No other code decides by a model's
name or a provider's prefix.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from mcpagent.models.base import ToolLimits
from mcpagent.models.capabilities import Capabilities, capabilities_of
from mcpagent.models.endpoints.model_identity import (
    OWN_SERVERS,
    ModelIdentity,
    identity_of,
)
from mcpagent.models.endpoints.model_table import ListedSizes, listed_sizes
from mcpagent.models.prices import priced_window
from mcpagent.models.profiles import (
    CachingKind,
    Profile,
    Server,
    caching_of,
    is_structured,
    profile_of,
    server_of,
)
from mcpagent.values.messages import Origin, WireProtocol

MOST_MARKERS = 4
"""Maximum number of blocks of a request that may be marked for caching (Anthropic docs, prompt caching)."""

_MAX_TOOLS_OF_ONES_OWN = 32
"""Maximum number of tools for a small model on the user's own server: with more, llama3.2:3b no longer chooses the
right one (github.com/redhat-et/llama-stack-on-ocp).
"""

_WINDOW_OF_ONES_OWN: Mapping[str, int] = {
    "ollama": 4096,
    "lmstudio": 4096,
    "llamacpp": 4096,
}
"""The default context windows of these servers on a usual machine (docs.ollama.com/context-length: below 24 GiB of
VRAM), regardless of the model. Ollama silently truncates a longer request. vLLM uses the model's own window.
"""

_FAMILIES: tuple[tuple[str, int, str], ...] = (
    # pattern of the model's name, context window, source; these rows override the generated table
    (
        r"gemini-(2\.[05]|3(\.\d+)?)-(pro|flash|flash-lite)(-preview.*|-latest|-\d+)?",
        1_048_576,
        "Gemini API docs, 2.0 Flash; Google Cloud docs, 3 Flash; the table, 2.5 Flash",
    ),
    (r"deepseek-v4.*", 1_048_576, "the table of prices, at OpenRouter"),
    (
        r"mistral-(large|medium)-(latest|3\.5|2512)",
        256_000,
        "announced with Large 3 and Medium 3.5",
    ),
    (
        r"(magistral|devstral)-.*",
        128_000,
        "announced with Magistral 1.2; Devstral has no less",
    ),
    (
        r"llama-3\.(1-8b-instant|3-70b-versatile)",
        131_072,
        "Groq docs, supported models",
    ),
    (r"grok-4(-0709|-latest)?", 256_000, "the table of prices, at xAI"),
    (r"grok-4[.-]1-fast.*", 2_000_000, "OpenRouter's page of the model"),
    (r"grok-4\.3.*", 1_000_000, "announced with Grok 4.3 at Amazon Bedrock"),
)

_HOSTED: Mapping[str, str] = {
    # a provider's prefix, and the host in the generated table that serves the same models
    "groq": "groq",
    "together": "together",
    "fireworks": "fireworks",
    "cerebras": "cerebras",
    "openai-chat": "openai",
    "gemini": "google",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The features and limits of a model at an address.

    - `caching`: the kind of prompt caching, with at most `most_markers` marked blocks.
    - `can`: how requests contain found tools.
    - `input_tokens`: the maximum size of a request; `window_tokens` includes the answer, `output_tokens` is the largest
      answer. None if unknown.
    - `accepts`: inputs other than text: "image", "pdf", "audio". With a model that no table lists, images are tried.
    - `profile`: thinking, efforts and sampling; `server`: the server's fields, dialect and limits.
    - `structured`: True if the model obeys an output schema, None if unknown.
    """

    origin: Origin
    model: ModelIdentity
    caching: CachingKind
    can: Capabilities
    profile: Profile
    server: Server
    structured: bool | None = None
    most_markers: int = 0
    max_tools: int | None = None
    listed_tokens: int | None = None
    total_tokens: int | None = None
    output_tokens: int | None = None
    accepts: frozenset[str] = frozenset()
    sources: tuple[str, ...] = ()

    @property
    def input_tokens(self) -> int | None:
        """The maximum input in tokens, by the model's row and the generated table; else by the price table, which loads
        slowly.
        """
        if self.listed_tokens or self.origin.provider in OWN_SERVERS:
            return self.listed_tokens
        return _priced(self.origin)

    @property
    def window_tokens(self) -> int | None:
        """The context window in tokens, for the request and its answer together; None if unknown."""
        return self.total_tokens or self.input_tokens

    @property
    def limits(self) -> ToolLimits:
        """The maximum number of tools and tokens in a request."""
        return ToolLimits(self.max_tools, self.input_tokens)


@lru_cache(maxsize=256)
def endpoint_of(to: Origin) -> Endpoint:
    """Return the known features and limits of a model at an address."""
    model, profile, server = identity_of(to.model), profile_of(to), server_of(to)
    caching, can = caching_of(to), capabilities_of(to)
    listed = (
        listed_sizes(_HOSTED.get(to.provider, to.provider), to.model, model)
        or ListedSizes()
    )
    is_own = to.provider in OWN_SERVERS
    if is_own:
        takes = _WINDOW_OF_ONES_OWN.get(to.provider)
    else:
        takes = _listed_tokens(model, listed)
    return Endpoint(
        origin=to,
        model=model,
        caching=caching,
        can=can,
        profile=profile,
        server=server,
        structured=is_structured(to),
        most_markers=MOST_MARKERS if caching in ("field", "markers") else 0,
        max_tools=_MAX_TOOLS_OF_ONES_OWN if is_own else server.most_tools(to.model),
        listed_tokens=takes,
        total_tokens=None if is_own else listed.window_tokens,
        output_tokens=profile.max_output_tokens
        or (None if is_own else listed.output_tokens),
        accepts=_accepted(to, listed),
        sources=tuple(
            source
            for source in (server.source, profile.source, can.source, listed.source)
            if source
        ),
    )


_FILES_IN_CHAT = frozenset({"openai-chat", "openrouter", "azure", "litellm", "portkey"})
"""Providers of Chat Completions that document `file` parts with a PDF."""

_AUDIO_IN_CHAT = frozenset(
    {"openai-chat", "openrouter", "azure", "gemini", "litellm", "portkey"}
)
"""Providers of Chat Completions that document `input_audio` parts."""


def _accepted(to: Origin, listed: ListedSizes) -> frozenset[str]:
    """Return the inputs that the model accepts and that this server's protocol can transport."""
    if not listed.source:
        return frozenset({"image"})
    held = {"image"}
    if to.protocol != "chat" or to.provider in _FILES_IN_CHAT:
        held.add("pdf")
    if to.protocol == "chat" and to.provider in _AUDIO_IN_CHAT:
        held.add("audio")
    return listed.accepts & held


def _listed_tokens(model: ModelIdentity, listed: ListedSizes) -> int | None:
    """Return the context window from the family's row, else from the generated table; None if unknown."""
    for looks, window, _ in _FAMILIES:
        if re.fullmatch(looks, model.name):
            return window
    return listed.input_tokens


@lru_cache(maxsize=256)
def _priced(to: Origin) -> int | None:
    return priced_window(
        to.provider, to.model, f"https://{to.address}" if to.address else ""
    )


def context_window(
    provider: str, model_name: str, protocol: WireProtocol = "chat"
) -> int | None:
    """Return the maximum input tokens of a model at its provider's own address; None for the user's own servers."""
    if provider in OWN_SERVERS:
        return None
    return endpoint_of(Origin(provider, protocol, model=model_name)).input_tokens
