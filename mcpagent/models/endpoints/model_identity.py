"""Parse model names: the one place that reads a maker, a family and a version from a name.

The same model has many names: `claude-sonnet-4-5-20250929`, `anthropic/claude-sonnet-4.5` at a gateway,
`us.anthropic.claude-sonnet-4-5-20250929-v1:0` and ARNs of inference profiles at Bedrock, `claude-sonnet-4-5@20250929`
at Vertex, `ft:gpt-4o-2024-08-06:us::id` when it is fine-tuned, `qwen3:1.7b` at Ollama.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import urlsplit

Version: TypeAlias = tuple[int, int]

OWN_SERVERS = frozenset({"ollama", "vllm", "llamacpp", "lmstudio"})
"""Provider prefixes of servers that run on the user's own machine."""

_OLLAMA_CLOUD = (":cloud", "-cloud")
"""Suffixes of models that a local Ollama forwards to ollama.com (https://docs.ollama.com/cloud)."""


def is_ollama_cloud(provider: str, model: str, base_url: str = "") -> bool:
    """Return whether ollama.com runs the model: through a local Ollama, or at its own address."""
    if provider != "ollama":
        return False
    host = urlsplit(base_url).hostname or ""
    is_passed_on = model.strip().lower().endswith(_OLLAMA_CLOUD)
    return is_passed_on or host == "ollama.com" or host.endswith(".ollama.com")


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """The model that a name means.

    `maker` is "" if the name does not show it. `name` is the model's own name without path, region or fine-tuning;
    `undated` also lacks the date of a snapshot. `family` and `version` are set for Claude ("sonnet", (4, 5)) and GPT
    ("gpt", "gpt-nano", "gpt-4o").
    """

    maker: str
    name: str
    undated: str
    family: str = ""
    version: Version = (0, 0)


_CLAUDE = re.compile(
    r"claude-(?P<family>[a-z]+)-(?P<major>\d{1,2})(?!\d)(?:-(?P<minor>\d{1,2})(?!\d))?"
)
_OLDER_CLAUDE = re.compile(r"claude-(?P<major>3)(?:-(?P<minor>\d))?-(?P<family>[a-z]+)")
_GPT = re.compile(r"gpt-(?P<major>\d+)(?:\.(?P<minor>\d+))?(?:-[a-z0-9-]+)?")
_GPT_4O = re.compile(r"gpt-4o(?:-mini)?(?:-\d{4}-\d{2}-\d{2})?")
_DATE = re.compile(r"(?:-latest|-\d{8}|-\d{4}-\d{2}-\d{2}|@\d{8}|@default)$")
_BEDROCK = re.compile(
    r"^(?:[a-z]{2,6}(?:-[a-z]+)?\.)?(?P<maker>anthropic|mistral|meta|deepseek|cohere|openai|qwen)\."
)
_BEDROCK_VERSION = re.compile(r"-v\d+$")

_MAKERS: tuple[tuple[re.Pattern[str], str], ...] = (
    # the beginning of a name; the first match counts
    (re.compile(r"claude"), "anthropic"),
    (re.compile(r"gpt|chatgpt|o[1-9](?:-|$)|codex"), "openai"),
    (re.compile(r"gemini|gemma|learnlm"), "google"),
    (
        re.compile(
            r"(?:open-)?mi[sx]tral|ministral|magistral|codestral|devstral|pixtral|voxtral"
        ),
        "mistral",
    ),
    (re.compile(r"grok"), "xai"),
    (re.compile(r"deepseek"), "deepseek"),
    (re.compile(r"kimi|moonshot"), "moonshot"),
    (re.compile(r"(?:zai-)?glm"), "zai"),
    (re.compile(r"command"), "cohere"),
    (re.compile(r"qwen|qwq"), "qwen"),
    (re.compile(r"(?:meta-)?llama"), "meta"),
)


@lru_cache(maxsize=512)
def identity_of(model_name: str) -> ModelIdentity:
    """Return the model that a name means, in any provider's spelling."""
    name = _own_name(model_name)
    if claude := claude_version(name):
        return ModelIdentity("anthropic", name, undated(name), *claude)
    maker = next((made_by for begins, made_by in _MAKERS if begins.match(name)), "")
    return ModelIdentity(maker, name, undated(name), *_gpt_version(name))


def _own_name(model_name: str) -> str:
    name = model_name.lower().removeprefix("ft:")
    if name.startswith("arn:"):
        name = name.rpartition("/")[2]
    else:
        name = name.partition(":")[0].rpartition("/")[2]
    name = name.partition(":")[0]
    name = _BEDROCK.sub("", name)
    if "claude" in name:
        name = name[name.index("claude") :].replace(".", "-")
        return _BEDROCK_VERSION.sub("", name)
    return name


def undated(name: str) -> str:
    """Return the name without the date of a snapshot; a model and its snapshots count as the same."""
    return _DATE.sub("", name)


def claude_version(model_name: str) -> tuple[str, Version] | None:
    """Return family and version if the name contains that of a Claude model, else None."""
    name = model_name.lower().replace(".", "-")
    found = _CLAUDE.search(name) or _OLDER_CLAUDE.search(name)
    if found is None:
        return None
    return found["family"], (int(found["major"]), int(found["minor"] or 0))


def _gpt_version(name: str) -> tuple[str, Version]:
    if _GPT_4O.fullmatch(name):
        return "gpt-4o", (4, 0)
    found = _GPT.fullmatch(name)
    if found is None:
        return "", (0, 0)
    family = "gpt"
    if "-nano" in name:
        family = "gpt-nano"
    return family, (int(found["major"]), int(found["minor"] or 0))
