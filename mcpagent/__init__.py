"""mcpagent: any LLM with ten thousand tools. It searches, adds what it needs, and calls it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcpagent.agent import Agent
    from mcpagent.cards.card import AgentCard, CardError
    from mcpagent.catalog import ToolSearch
    from mcpagent.config import McpServer
    from mcpagent.errors import (
        AgentStateError,
        ConfigError,
        CredentialsError,
        InputError,
        LimitError,
        McpAgentError,
        ModelError,
        ServerError,
    )
    from mcpagent.messages import Image, Message, Text, ToolDefinition, Usage, dump_messages, load_messages
    from mcpagent.models.base import Model, ModelRequest, ModelResponse, ModelSettings
    from mcpagent.pending import CallAnswer, CallsPendingError, PendingCall
    from mcpagent.recording import Recorder, RecordingError, Replay
    from mcpagent.run_context import RunContext
    from mcpagent.tool_context import ToolContext, ToolContextCache, prepare_context
    from mcpagent.tools import Tool, ToolOutput, ToolReturn, Toolset
    from mcpagent.toolsets.function import FunctionToolset, function_tool

__all__ = [
    "Agent",
    "AgentCard",
    "AgentStateError",
    "CallAnswer",
    "CallsPendingError",
    "CardError",
    "ConfigError",
    "CredentialsError",
    "FunctionToolset",
    "Image",
    "InputError",
    "LimitError",
    "McpAgentError",
    "McpServer",
    "Message",
    "Model",
    "ModelError",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "PendingCall",
    "Recorder",
    "RecordingError",
    "Replay",
    "RunContext",
    "ServerError",
    "Text",
    "Tool",
    "ToolContext",
    "ToolContextCache",
    "ToolDefinition",
    "ToolOutput",
    "ToolReturn",
    "ToolSearch",
    "Toolset",
    "Usage",
    "dump_messages",
    "function_tool",
    "load_messages",
    "prepare_context",
]

__version__ = "0.1.0"

_HOMES = {
    "agent": ("Agent",),
    "cards.card": ("AgentCard", "CardError"),
    "catalog": ("ToolSearch",),
    "config": ("McpServer",),
    "errors": (
        "AgentStateError",
        "ConfigError",
        "CredentialsError",
        "InputError",
        "LimitError",
        "McpAgentError",
        "ModelError",
        "ServerError",
    ),
    "messages": ("Image", "Message", "Text", "ToolDefinition", "Usage", "dump_messages", "load_messages"),
    "models.base": ("Model", "ModelRequest", "ModelResponse", "ModelSettings"),
    "pending": ("CallAnswer", "CallsPendingError", "PendingCall"),
    "recording": ("Recorder", "RecordingError", "Replay"),
    "run_context": ("RunContext",),
    "tool_context": ("ToolContext", "ToolContextCache", "prepare_context"),
    "tools": ("Tool", "ToolOutput", "ToolReturn", "Toolset"),
    "toolsets.function": ("FunctionToolset", "function_tool"),
}
"""Where each public name lives: loaded on first use, so that `mcpagent --help` need not load the runtime."""


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
