"""Adapters for models, behind one interface `Model.respond(request, emit)`; importing this loads no provider's SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagent.utilities.python import late_names

if TYPE_CHECKING:
    from mcpagent.models.anthropic.messages_model import AnthropicModel
    from mcpagent.models.base import Model, ModelRequest, ModelResponse, ModelSettings
    from mcpagent.models.fallback import FallbackModel
    from mcpagent.models.local.offline_model import OfflineModel
    from mcpagent.models.openai.openai_chat import OpenAIChatModel
    from mcpagent.models.openai.openai_responses import OpenAIResponsesModel
    from mcpagent.models.resolve import resolve_model
    from mcpagent.models.scripted import ScriptedModel

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

__getattr__, __dir__ = late_names(
    __name__,
    {
        "anthropic.messages_model": ("AnthropicModel",),
        "base": ("Model", "ModelRequest", "ModelResponse", "ModelSettings"),
        "fallback": ("FallbackModel",),
        "local.offline_model": ("OfflineModel",),
        "openai.openai_chat": ("OpenAIChatModel",),
        "openai.openai_responses": ("OpenAIResponsesModel",),
        "resolve": ("resolve_model",),
        "scripted": ("ScriptedModel",),
    },
)
