"""The settings that each model and each server supports: two tables, each row with its source.

Models without a row receive the settings in the usual form of their API. Settings that were refused are not sent again
(`HttpModel.learns`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from mcpagent.models.endpoints.model_identity import OWN_SERVERS, Version, identity_of
from mcpagent.values.messages import Origin

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = (
    "none",
    "minimal",
    "low",
    "medium",
    "high",
    "xhigh",
    "max",
)
_EFFORTS: tuple[Effort, ...] = ("low", "medium", "high")


@dataclass(frozen=True, slots=True)
class Profile:
    """The settings that a model supports; `source` is the source of these facts.

    - `max_output_tokens`: the maximum output.
    - `thinking`: "none"; a "budget" in tokens; "adaptive", by effort; OpenAI's "effort"; or "unknown".
    - `can_stop`: the model can answer without thinking.
    - `sampling`: temperature and top_p may "both" be set, only "one", only "unless thinking", or "none".
    - `efforts`: its effort levels. `stops`: texts may end an answer.
    - `encrypts`: its reasoning is encrypted, None if unknown.
    """

    source: str
    max_output_tokens: int | None = None
    thinking: Literal["none", "budget", "adaptive", "effort", "unknown"] = "unknown"
    can_stop: bool = True
    sampling: Literal["both", "one", "unless thinking", "none"] = "both"
    efforts: tuple[Effort, ...] = _EFFORTS
    stops: bool = True
    encrypts: bool | None = None


UNKNOWN = Profile("nothing is known of this model")

_OVERVIEW = "Anthropic docs, models overview and effort (Nov 2026)"
_MIGRATION = (
    "Anthropic docs, migration guides: 4.7 and later refuse sampling and budgets; "
    "4.1 and later both of sampling"
)

_K = 1000
_TO_MAX: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")
_WITH_MAX: tuple[Effort, ...] = ("low", "medium", "high", "max")
_ALWAYS_THINKS = Profile(
    _OVERVIEW, 128 * _K, "adaptive", can_stop=False, sampling="none", efforts=_TO_MAX
)
_ADAPTIVE = Profile(_OVERVIEW, 128 * _K, "adaptive", sampling="none", efforts=_TO_MAX)
_SAMPLING_ONE = Profile(
    _OVERVIEW, 128 * _K, "adaptive", sampling="one", efforts=_WITH_MAX
)
_BUDGET_ONE = Profile(_MIGRATION, 64 * _K, "budget", sampling="one")
_BUDGET = Profile(_OVERVIEW, 64 * _K, "budget")
_SHORT = Profile(_OVERVIEW, 8192, "none")
_SHORTEST = Profile(_OVERVIEW, 4096, "none")

_CLAUDES: tuple[tuple[str, Version, Version, Profile], ...] = (
    # families, first and last version; the first matching row counts
    ("fable mythos", (5, 0), (5, 9), _ALWAYS_THINKS),
    ("opus", (4, 7), (5, 9), _ADAPTIVE),
    ("sonnet haiku", (5, 0), (5, 9), _ADAPTIVE),
    ("opus sonnet", (4, 6), (4, 6), _SAMPLING_ONE),
    ("opus sonnet haiku", (4, 5), (4, 5), _BUDGET_ONE),
    ("opus", (4, 1), (4, 1), Profile(_MIGRATION, 32 * _K, "budget", sampling="one")),
    ("opus", (4, 0), (4, 0), Profile(_OVERVIEW, 32 * _K, "budget")),
    ("sonnet", (4, 0), (4, 0), _BUDGET),
    ("sonnet", (3, 7), (3, 7), _BUDGET),
    ("sonnet haiku", (3, 5), (3, 5), _SHORT),
    ("opus sonnet haiku", (3, 0), (3, 0), _SHORTEST),
)

_GUIDE = "OpenAI docs, reasoning guide and model pages (Nov 2026); reported refusals of temperature and effort"
_PLAIN = "OpenAI docs, model pages (Nov 2026)"


def _reasoning(
    *efforts: Effort,
    tokens: int = 128 * _K,
    can_stop: bool = False,
    sampling: Literal["none", "unless thinking"] = "none",
) -> Profile:
    """Return the profile of a reasoning model of OpenAI."""
    return Profile(
        _GUIDE,
        tokens,
        "effort",
        can_stop=can_stop,
        sampling=sampling,
        efforts=efforts,
        stops=False,
        encrypts=True,
    )


def _stopping(*efforts: Effort) -> Profile:
    """Return the profile of a reasoning model of OpenAI that can also answer without reasoning."""
    return _reasoning("none", *efforts, can_stop=True, sampling="unless thinking")


def _plain(tokens: int, **more: Any) -> Profile:
    """Return the profile of a model of OpenAI without reasoning."""
    return Profile(_PLAIN, tokens, "none", encrypts=False, **more)


_GPTS: tuple[tuple[str, Profile], ...] = (
    # pattern of the name without "ft:" and a date; the first matching row counts
    (r"gpt-\d+(\.\d+)?-chat.*|chatgpt-.*", _plain(16_384)),
    (r"gpt-4o-(mini-)?search.*", _plain(16_384, sampling="none")),
    (r"gpt-4o.*", _plain(16_384)),
    (r"gpt-4\.1.*", _plain(32_768)),
    (r"gpt-(4|3\.?5).*", _plain(4096)),
    (r"gpt-audio.*", _plain(16_384)),
    (r"gpt-oss.*", Profile(_GUIDE, None, "effort", can_stop=False)),
    (r"o[1-4](-.*)?", _reasoning(*_EFFORTS, tokens=100 * _K)),
    (r"gpt-5-pro.*", _reasoning("high", tokens=272 * _K)),
    (
        r"gpt-([6-9]|[1-9]\d)(\.\d+)?-pro.*|gpt-5\.\d+-pro.*",
        _reasoning("medium", "high", "xhigh"),
    ),
    (r"gpt-5(-.*)?", _reasoning("minimal", *_EFFORTS)),
    (r"gpt-6-(astra|rosalind).*|gpt-6\.1-sol.*", _reasoning(*_TO_MAX)),
    (r"gpt-([6-9]|[1-9]\d)(\.\d+)?(-.*)?", _stopping(*_TO_MAX)),
    (r"gpt-5\.1(?!\d)(?!-codex-max)(-.*)?", _stopping(*_EFFORTS)),
    (r"gpt-5\.\d+(-.*)?", _stopping(*_EFFORTS, "xhigh")),
)


_ADJUSTABLE = "Mistral docs, adjustable reasoning; its table of models: magistral-*-latest is Medium 3.5 and Small 4"
_HIGH_OR_NONE = Profile(_ADJUSTABLE, None, "effort", efforts=("none", "high"))
_NATIVE = "Mistral docs, native reasoning: prompt_mode"
_MISTRALS: tuple[tuple[str, Profile], ...] = (
    (r"(magistral|mistral)-(small|medium)-latest", _HIGH_OR_NONE),
    (r"mistral-(small-(26\d\d|4.*)|medium-(26\d\d|3[.-]5.*))", _HIGH_OR_NONE),
    (r"magistral-.*", Profile(_NATIVE, None, "adaptive", can_stop=False)),
)


@lru_cache(maxsize=256)
def profile_of(to: Origin) -> Profile:
    """Return the profile of the model, in any spelling of its name."""
    model = identity_of(to.model)
    if model.maker == "anthropic":
        for families, first, last, profile in _CLAUDES:
            if model.family in families.split() and first <= model.version <= last:
                return profile
        return UNKNOWN
    return next(
        (
            profile
            for looks, profile in (*_GPTS, *_MISTRALS)
            if re.fullmatch(looks, model.name)
        ),
        UNKNOWN,
    )


_FIRST_STRUCTURED = (4, 5)
"""First version of Claude with structured output (Anthropic docs, structured outputs, Nov 2026)."""

_UNSTRUCTURED = re.compile(
    r"gpt-(4|3\.?5)(?!o|\.1).*|gpt-audio.*|gpt-4o-2024-05-13|o1-(mini|preview).*"
)
"""Models of OpenAI without structured output (OpenAI docs, Nov 2026): those before gpt-4o-2024-08-06, and audio
models.
"""


def is_structured(to: Origin) -> bool | None:
    """Return whether the model obeys an output schema in the request; None if unknown."""
    model = identity_of(to.model)
    if model.maker == "anthropic":
        return model.version >= _FIRST_STRUCTURED
    if _UNSTRUCTURED.fullmatch(model.name):
        return False
    if profile_of(to).max_output_tokens is None:
        return None
    return True


# -- Tables of servers -------------------------------------------------------------------------------------------------


CachingKind: TypeAlias = Literal["automatic", "field", "markers", "none"]


@dataclass(frozen=True, slots=True)
class Server:
    """The options that an address supports; `source` is the source of these facts.

    - `fields`: supported settings other than temperature, with their field names.
    - `thinking`: the form of thinking: `reasoning_effort`; OpenRouter's `reasoning`; DeepSeek's `thinking`; an argument
      of the chat template; Mistral's two forms.
    - `efforts`: the levels that it accepts for unknown models.
    - `dialect`: its variant of Chat Completions (`openai_chat_history.py`), "" if the model decides.
    - `max_tools`: the maximum in one request; `behind`: that of providers behind it, by prefix of the model's name.
    - `caching`: how a repeated prefix is cached: "automatic", by the "field" `cache_control` of the body (Anthropic),
      by "markers" on blocks alone, or not at all ("none").
    - `proxies`: its models are large, so found tools are called through `call_tool` if that preserves the cache.
    - `structured`: an output schema is obeyed "always", or only "alone", without tools in the request; "": only by
      models that are known to.
    - `search_beta`: the beta header for deferred tools.
    - `description`: the maximum length of a tool's description in characters.
    """

    source: str
    fields: Mapping[str, str]
    thinking: Literal["effort", "object", "switch", "template", "mistral", "none"] = (
        "effort"
    )
    efforts: tuple[Effort, ...] = ()
    dialect: Literal["", "openai", "gemini", "mistral", "deepseek"] = ""
    max_tools: int | None = None
    behind: tuple[tuple[str, int], ...] = ()
    caching: CachingKind = "automatic"
    proxies: bool = False
    structured: Literal["", "always", "alone"] = ""
    search_beta: str = ""
    description: int | None = None

    def most_tools(self, model_name: str) -> int | None:
        """Return the maximum number of tools in a request to this model; None if unknown."""
        return next(
            (most for start, most in self.behind if model_name.startswith(start)),
            self.max_tools,
        )


def _named(*same: str, **others: str) -> dict[str, str]:
    return {**{name: name for name in same}, **others}


_ALL = _named(
    "top_p", "stop", "seed", "parallel_tool_calls", "service_tier", "prompt_cache_key"
)
_LOCAL = _named("top_p", "stop", "seed", "parallel_tool_calls")
_AZURE = Server(
    "the same API as OpenAI's; Azure docs, function calling: descriptions of 1,024 characters",
    _ALL,
    dialect="openai",
    max_tools=128,
    proxies=True,
    structured="always",
    description=1024,
)
_MOONSHOT = Server(
    'its error: "thinking is enabled but reasoning_content is missing"',
    _LOCAL,
    dialect="deepseek",
    proxies=True,
)
_COHERE = Server(
    "Cohere docs, compatibility API",
    _named("top_p", "stop", "seed"),
    efforts=("none", "high"),
)
_SERVERS: tuple[tuple[str, Server], ...] = (
    # the end of the host; Anthropic and Mistral document no maximum number of tools (Nov 2026), so only the window
    # limits it
    (
        "api.openai.com",
        Server(
            'OpenAI\'s SDK; API reference: "a max of 128 functions"',
            _ALL,
            dialect="openai",
            max_tools=128,
            proxies=True,
            structured="always",
        ),
    ),
    ("openai.azure.com", _AZURE),
    ("cognitiveservices.azure.com", _AZURE),
    ("services.ai.azure.com", _AZURE),
    (
        "generativelanguage.googleapis.com",
        Server(
            'Google docs, OpenAI compatibility; its errors: unknown names, "At most 512 function declarations"',
            _named("top_p", "stop"),
            dialect="gemini",
            efforts=("none", "minimal", "low", "medium", "high"),
            max_tools=512,
            structured="alone",
        ),
    ),
    (
        "api.mistral.ai",
        Server(
            "Mistral's API reference",
            _named("top_p", "stop", "parallel_tool_calls", seed="random_seed"),
            "mistral",
            dialect="mistral",
            structured="alone",
        ),
    ),
    (
        "api.deepseek.com",
        Server(
            "DeepSeek's API reference, thinking mode, context caching",
            _named("top_p", "stop"),
            "switch",
            dialect="deepseek",
            proxies=True,
        ),
    ),
    ("api.moonshot.ai", _MOONSHOT),
    ("api.moonshot.cn", _MOONSHOT),
    (
        "api.groq.com",
        Server(
            "Groq's API reference; its error: \"'tools' : maximum number of items is 128\"",
            _named("top_p", "stop", "seed", "parallel_tool_calls", "service_tier"),
            max_tools=128,
        ),
    ),
    (
        "api.x.ai",
        Server(
            'xAI\'s API reference; its error: "the maximum is 200"',
            _LOCAL,
            max_tools=200,
            proxies=True,
            structured="always",
        ),
    ),
    (
        "api.together.xyz",
        Server("Together docs, OpenAI compatibility", _named("top_p", "stop", "seed")),
    ),
    (
        "api.together.ai",
        Server("Together docs, OpenAI compatibility", _named("top_p", "stop", "seed")),
    ),
    (
        "api.fireworks.ai",
        Server(
            "Fireworks docs, chat completions; prompt caching",
            _named("top_p", "stop", "seed"),
        ),
    ),
    (
        "api.cerebras.ai",
        Server(
            "Cerebras docs, chat completions",
            _named("top_p", "stop", "seed", "parallel_tool_calls"),
        ),
    ),
    (
        "api.z.ai",
        Server(
            "Z.ai docs, chat completion and deep thinking",
            _named("top_p", "stop"),
            "switch",
        ),
    ),
    (
        "router.huggingface.co",
        Server(
            "Hugging Face docs, inference providers", _named("top_p", "stop", "seed")
        ),
    ),
    ("api.cohere.ai", _COHERE),
    ("api.cohere.com", _COHERE),
    (
        "openrouter.ai",
        Server(
            "OpenRouter docs, parameters and reasoning tokens; the same providers behind it",
            _LOCAL,
            "object",
            behind=(("openai/", 128), ("x-ai/", 200), ("google/", 512)),
        ),
    ),
)
_HOSTS: Mapping[str, Server] = dict(_SERVERS)
_FIELD = Server(
    "Anthropic docs, prompt caching: automatic caching", {}, caching="field"
)
_CLOUD = Server(
    'error "cache_control: Extra inputs are not permitted" (inspect_ai#3851, vercel/ai#13986); markers are accepted; '
    "the beta of tool search (vercel/ai#13900)",
    {},
    caching="markers",
    search_beta="tool-search-tool-2025-10-19",
)
_MESSAGES: tuple[tuple[str, Server], ...] = (
    # the end of the host of a server with the Messages API; all others are like Anthropic's own
    ("amazonaws.com", _CLOUD),
    ("googleapis.com", _CLOUD),
)
_MESSAGES_NAMED: Mapping[str, Server] = {"bedrock": _CLOUD, "vertex": _CLOUD}
_NAMED: Mapping[str, Server] = {
    # at a proxy's address, the provider's prefix names the server behind it
    "gemini": _HOSTS["generativelanguage.googleapis.com"],
    "google": _HOSTS["generativelanguage.googleapis.com"],
    "together": _HOSTS["api.together.xyz"],
    "fireworks": _HOSTS["api.fireworks.ai"],
    "cerebras": _HOSTS["api.cerebras.ai"],
    "moonshot": _HOSTS["api.moonshot.ai"],
    "zai": _HOSTS["api.z.ai"],
    "huggingface": _HOSTS["router.huggingface.co"],
    "cohere": _HOSTS["api.cohere.ai"],
    "mistral": _HOSTS["api.mistral.ai"],
    "deepseek": _HOSTS["api.deepseek.com"],
    "groq": _HOSTS["api.groq.com"],
    "xai": _HOSTS["api.x.ai"],
    "openrouter": _HOSTS["openrouter.ai"],
    "azure": _AZURE,
    "vllm": Server(
        "vLLM docs, OpenAI-compatible server", _LOCAL, "template", structured="alone"
    ),
    # llama.cpp: "Cannot use custom grammar constraints with tools."
    "llamacpp": Server(
        "llama.cpp, tools/server/README.md", _LOCAL, "template", structured="alone"
    ),
    "ollama": Server(
        "Ollama docs, OpenAI compatibility",
        _named("top_p", "stop", "seed"),
        structured="alone",
    ),
    "lmstudio": Server(
        "LM Studio docs, OpenAI compatibility",
        _named("top_p", "stop", "seed"),
        structured="alone",
    ),
}
_ANY = Server("what most servers of this format take", _LOCAL)


def host_at(to: Origin) -> str:
    """Return the host of the address, without a port."""
    return to.address.partition("/")[0].partition(":")[0]


def server_of(to: Origin) -> Server:
    """Return the server by its address; at an unknown address (a proxy, a self-hosted server) by the provider's
    name.
    """
    host = host_at(to)
    if to.protocol == "messages":
        return _at(host, _MESSAGES) or _MESSAGES_NAMED.get(to.provider, _FIELD)
    return _at(host, _SERVERS) or _NAMED.get(to.provider, _ANY)


def _at(host: str, servers: tuple[tuple[str, Server], ...]) -> Server | None:
    for end, server in servers:
        if host == end or host.endswith(f".{end}"):
            return server
    return None


def is_at_openai(to: Origin) -> bool:
    """Return whether requests go to OpenAI itself, at any of its addresses."""
    host = host_at(to)
    return host == "api.openai.com" or host.endswith(".api.openai.com")


def caching_of(to: Origin) -> CachingKind:
    """Return how a prefix that was sent before is cached.

    Behind a gateway with Chat Completions, Claude's cache is used only if blocks are marked (OpenRouter docs, prompt
    caching; LiteLLM docs, prompt caching). Anthropic's own Chat Completions caches nothing.
    """
    server = server_of(to)
    if (
        to.protocol == "messages"
        or identity_of(to.model).maker != "anthropic"
        or to.provider in OWN_SERVERS
    ):
        return server.caching
    if to.protocol == "responses":
        return server.caching
    if host_at(to) == "api.anthropic.com":
        return "none"
    return "markers"


def speaks_for_itself(to: Origin) -> bool:
    """Return whether the server parses its models' calls, as a provider's own server does.

    A text of such a model that looks like a call is then only text.
    """
    if to.provider in OWN_SERVERS:
        return False
    is_known = to.protocol != "messages" and server_of(to) is not _ANY
    return is_known or profile_of(to).max_output_tokens is not None
