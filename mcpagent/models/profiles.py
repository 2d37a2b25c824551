"""The settings that each model and each server supports: two tables, each row with its source.

Models without a row receive the settings as their protocol writes them. Refused settings are left out and not sent
again (`HttpModel.learns`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from mcpagent.messages import Origin
from mcpagent.models.prices import OWN_SERVERS

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high"]
_EFFORTS: tuple[Effort, ...] = ("low", "medium", "high")


@dataclass(frozen=True, slots=True)
class Profile:
    """The settings that a model supports; `source` is the source of these facts.

    `max_output_tokens` is its largest answer. `thinking`: "none"; "budget" of tokens; "adaptive", by effort; "effort"
    of OpenAI's; "unknown". `can_stop`: whether it answers without thinking. `sampling`: whether temperature and top_p
    may be set, "one" of them, only "unless thinking", or "none". `efforts` are its effort levels; `stops`: whether
    texts may end an answer. `encrypts`: whether its reasoning comes encrypted, None if unknown.
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
    "Anthropic docs, migration guides: 4.7 and later refuse sampling and budgets; 4.1 and later both of sampling"
)

_Version: TypeAlias = tuple[int, int]
_K = 1000
_CLAUDES: tuple[tuple[str, _Version, _Version, Profile], ...] = (
    # family, from version, to version (both included); the first row that fits counts
    ("fable", (5, 0), (5, 9), Profile(_OVERVIEW, 128 * _K, "adaptive", can_stop=False, sampling="none")),
    ("mythos", (5, 0), (5, 9), Profile(_OVERVIEW, 128 * _K, "adaptive", can_stop=False, sampling="none")),
    ("opus", (4, 7), (5, 9), Profile(_OVERVIEW, 128 * _K, "adaptive", sampling="none")),
    ("sonnet", (5, 0), (5, 9), Profile(_OVERVIEW, 128 * _K, "adaptive", sampling="none")),
    ("haiku", (5, 0), (5, 9), Profile(_OVERVIEW, 64 * _K, "adaptive", sampling="none")),
    ("opus", (4, 6), (4, 6), Profile(_OVERVIEW, 128 * _K, "adaptive", sampling="one")),
    ("sonnet", (4, 6), (4, 6), Profile(_OVERVIEW, 64 * _K, "adaptive", sampling="one")),
    ("opus", (4, 5), (4, 5), Profile(_MIGRATION, 64 * _K, "budget", sampling="one")),
    ("sonnet", (4, 5), (4, 5), Profile(_MIGRATION, 64 * _K, "budget", sampling="one")),
    ("haiku", (4, 5), (4, 5), Profile(_MIGRATION, 64 * _K, "budget", sampling="one")),
    ("opus", (4, 1), (4, 1), Profile(_MIGRATION, 32 * _K, "budget", sampling="one")),
    ("opus", (4, 0), (4, 0), Profile(_OVERVIEW, 32 * _K, "budget")),
    ("sonnet", (4, 0), (4, 0), Profile(_OVERVIEW, 64 * _K, "budget")),
    ("sonnet", (3, 7), (3, 7), Profile(_OVERVIEW, 64 * _K, "budget")),
    ("sonnet", (3, 5), (3, 5), Profile(_OVERVIEW, 8192, "none")),
    ("haiku", (3, 5), (3, 5), Profile(_OVERVIEW, 8192, "none")),
    ("opus", (3, 0), (3, 0), Profile(_OVERVIEW, 4096, "none")),
    ("sonnet", (3, 0), (3, 0), Profile(_OVERVIEW, 4096, "none")),
    ("haiku", (3, 0), (3, 0), Profile(_OVERVIEW, 4096, "none")),
)

_NEW = re.compile(r"claude-(?P<family>[a-z]+)-(?P<major>\d{1,2})(?!\d)(?:-(?P<minor>\d{1,2})(?!\d))?")
_OLD = re.compile(r"claude-(?P<major>3)(?:-(?P<minor>\d))?-(?P<family>[a-z]+)")

_GUIDE = "OpenAI docs, reasoning guide and model pages (Nov 2026); reported refusals of temperature and effort"
_PLAIN = "OpenAI docs, model pages (Nov 2026)"
_REASONING: Mapping[str, Any] = {"thinking": "effort", "stops": False, "encrypts": True}
_GPTS: tuple[tuple[str, Profile], ...] = (
    # how the name looks, without "ft:" and a date; the first row that fits counts
    (r"gpt-\d+(\.\d+)?-chat.*|chatgpt-.*", Profile(_PLAIN, 16_384, "none", encrypts=False)),
    (r"gpt-4o-(mini-)?search.*", Profile(_PLAIN, 16_384, "none", sampling="none", encrypts=False)),
    (r"gpt-4o.*", Profile(_PLAIN, 16_384, "none", encrypts=False)),
    (r"gpt-4\.1.*", Profile(_PLAIN, 32_768, "none", encrypts=False)),
    (r"gpt-(4|3\.?5).*", Profile(_PLAIN, 4096, "none", encrypts=False)),
    (r"gpt-audio.*", Profile(_PLAIN, 16_384, "none", encrypts=False)),
    (r"gpt-oss.*", Profile(_GUIDE, None, "effort", can_stop=False)),
    (r"o[1-4](-.*)?", Profile(_GUIDE, 100 * _K, can_stop=False, sampling="none", **_REASONING)),
    (r"gpt-5-pro.*", Profile(_GUIDE, 128 * _K, can_stop=False, sampling="none", efforts=("high",), **_REASONING)),
    (
        r"gpt-([6-9]|[1-9]\d)(\.\d+)?-pro.*|gpt-5\.\d+-pro.*",
        Profile(_GUIDE, 128 * _K, can_stop=False, sampling="none", efforts=("medium", "high"), **_REASONING),
    ),
    (
        r"gpt-5(-.*)?",
        Profile(
            _GUIDE,
            128 * _K,
            can_stop=False,
            sampling="none",
            efforts=("minimal", "low", "medium", "high"),
            **_REASONING,
        ),
    ),
    (
        r"gpt-(([6-9]|[1-9]\d)(\.\d+)?|5\.\d+)(-.*)?",
        Profile(_GUIDE, 128 * _K, sampling="unless thinking", efforts=("none", *_EFFORTS), **_REASONING),
    ),
)


def claude_version(model_name: str) -> tuple[str, _Version] | None:
    """Return family and version of a Claude model, with any prefix and suffix of its name; None for other models."""
    name = model_name.lower().replace(".", "-")
    found = _NEW.search(name) or _OLD.search(name)
    return (found["family"], (int(found["major"]), int(found["minor"] or 0))) if found else None


def base_name(model_name: str) -> str:
    """Return a model's base name: for `ft:gpt-4o-2024-08-06:us::id` or `openai/gpt-5.5`, without prefix and suffix."""
    return model_name.lower().removeprefix("ft:").partition(":")[0].rpartition("/")[2]


@lru_cache(maxsize=256)
def profile_of(to: Origin) -> Profile:
    """Return the profile by the model's name, with any prefix and suffix.

    Examples: `us.anthropic.claude-opus-4-5-20251101-v1:0`, `claude-opus-4-5@20251101`, `anthropic/claude-opus-4.5`,
    `ft:gpt-4o-2024-08-06:us::id`, `openai/gpt-5.5`.
    """
    if claude := claude_version(to.model):
        family, version = claude
        return next((row[3] for row in _CLAUDES if row[0] == family and row[1] <= version <= row[2]), UNKNOWN)
    base = base_name(to.model)
    return next((profile for looks, profile in _GPTS if re.fullmatch(looks, base)), UNKNOWN)


_FIRST_STRUCTURED = (4, 5)
"""Anthropic docs, structured outputs (Nov 2026): Claude 4.5 and later."""

_UNSTRUCTURED = re.compile(r"gpt-(4|3\.?5)(?!o|\.1).*|gpt-audio.*|gpt-4o-2024-05-13|o1-(mini|preview).*")
"""OpenAI docs, structured outputs (Nov 2026): from gpt-4o-2024-08-06 on, and not the audio models."""


def is_structured(to: Origin) -> bool | None:
    """Return whether the model follows a JSON Schema that a request names; None if unknown."""
    if claude := claude_version(to.model):
        return claude[1] >= _FIRST_STRUCTURED
    if _UNSTRUCTURED.fullmatch(base_name(to.model)):
        return False
    return None if profile_of(to).max_output_tokens is None else True


# -- Servers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Server:
    """The options that an address supports; `source` is the source of these facts.

    `fields` maps supported settings, in addition to temperature, to the server's names. `thinking` is the form of that
    setting: `reasoning_effort`; OpenRouter's `reasoning`; DeepSeek's `thinking`; an argument of the chat template.
    `dialect` is that of its Chat Completions (`openai_chat_history.py`), "" if the model decides. `max_tools` is the
    limit of one request, `behind` the limits of providers behind it, by the prefix of their models' names. `caches`: a
    repeated prefix costs a fraction without markers, and its models are large. `structured`: whether a JSON Schema of
    the answer is obeyed, "always", or only "alone", without tools in the same request; "" if only known models obey it.
    """

    source: str
    fields: Mapping[str, str]
    thinking: Literal["effort", "object", "switch", "template", "none"] = "effort"
    dialect: Literal["", "openai", "gemini", "mistral", "deepseek"] = ""
    max_tools: int | None = None
    behind: tuple[tuple[str, int], ...] = ()
    caches: bool = False
    structured: Literal["", "always", "alone"] = ""

    def most_tools(self, model_name: str) -> int | None:
        """Return the most tools in a request to this model."""
        return next((most for start, most in self.behind if model_name.startswith(start)), self.max_tools)


def _named(*same: str, **others: str) -> dict[str, str]:
    return {**{name: name for name in same}, **others}


_ALL = _named("top_p", "stop", "seed", "parallel_tool_calls", "service_tier", "prompt_cache_key")
_LOCAL = _named("top_p", "stop", "seed", "parallel_tool_calls")
_AZURE = Server("the same API as OpenAI's", _ALL, dialect="openai", max_tools=128, caches=True, structured="always")
_MOONSHOT = Server(
    'its error: "thinking is enabled but reasoning_content is missing"', _LOCAL, dialect="deepseek", caches=True
)
_SERVERS: tuple[tuple[str, Server], ...] = (
    # the end of its host; Anthropic and Mistral name no number of tools (Nov 2026): there the window is the limit
    (
        "api.openai.com",
        Server(
            'OpenAI\'s SDK; API reference: "a max of 128 functions"',
            _ALL,
            dialect="openai",
            max_tools=128,
            caches=True,
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
            max_tools=512,
            structured="alone",
        ),
    ),
    (
        "api.mistral.ai",
        Server(
            "Mistral's API reference",
            _named("top_p", "stop", "parallel_tool_calls", seed="random_seed"),
            "none",
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
            caches=True,
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
            caches=True,
            structured="always",
        ),
    ),
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
_NAMED: Mapping[str, Server] = {
    # a provider's own prefix says who stands behind a proxy's address
    "gemini": _HOSTS["generativelanguage.googleapis.com"],
    "mistral": _HOSTS["api.mistral.ai"],
    "deepseek": _HOSTS["api.deepseek.com"],
    "groq": _HOSTS["api.groq.com"],
    "xai": _HOSTS["api.x.ai"],
    "openrouter": _HOSTS["openrouter.ai"],
    "azure": _AZURE,
    "vllm": Server("vLLM docs, OpenAI-compatible server", _LOCAL, "template", structured="alone"),
    # "Cannot use custom grammar constraints with tools."
    "llamacpp": Server("llama.cpp, tools/server/README.md", _LOCAL, "template", structured="alone"),
    "ollama": Server("Ollama docs, OpenAI compatibility", _named("top_p", "stop", "seed"), structured="alone"),
    "lmstudio": Server("LM Studio docs, OpenAI compatibility", _named("top_p", "stop", "seed"), structured="alone"),
}
_ANY = Server("what most servers of this format take", _LOCAL)


def host_at(to: Origin) -> str:
    """Return the host of its address, without a port."""
    return to.address.partition("/")[0].partition(":")[0]


def server_of(to: Origin) -> Server:
    """Return the server by its address; at unknown addresses (a proxy, a self-hosted server) by provider name."""
    host = host_at(to)
    return next(
        (server for end, server in _SERVERS if host == end or host.endswith(f".{end}")), _NAMED.get(to.provider, _ANY)
    )


def speaks_for_itself(to: Origin) -> bool:
    """Return whether the server parses its models' calls, as a provider's own server does.

    A text of its models that looks like a call is then a text.
    """
    if to.provider in OWN_SERVERS:
        return False
    return server_of(to) is not _ANY or profile_of(to).max_output_tokens is not None
