"""Model adapters behind one `Model.respond(request, emit)`; importing this loads no provider's SDK."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcpagent.models.anthropic import AnthropicModel
    from mcpagent.models.base import Model, ModelRequest, ModelResponse, ModelSettings
    from mcpagent.models.fallback import FallbackModel
    from mcpagent.models.offline import OfflineModel
    from mcpagent.models.openai_chat import OpenAIChatModel
    from mcpagent.models.openai_responses import OpenAIResponsesModel
    from mcpagent.models.resolve import resolve_model
    from mcpagent.models.scripted import ScriptedModel

_HOMES = {
    "AnthropicModel": "anthropic",
    "FallbackModel": "fallback",
    "Model": "base",
    "ModelRequest": "base",
    "ModelResponse": "base",
    "ModelSettings": "base",
    "OfflineModel": "offline",
    "OpenAIChatModel": "openai_chat",
    "OpenAIResponsesModel": "openai_responses",
    "ScriptedModel": "scripted",
    "resolve_model": "resolve",
}

__all__ = [
    "AnthropicModel",
    "FallbackModel",
    "Model",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "OfflineModel",
    "OpenAIChatModel",
    "OpenAIResponsesModel",
    "ScriptedModel",
    "resolve_model",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
