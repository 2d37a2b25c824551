"""mcpagent: any LLM with ten thousand tools. It searches, adds what it needs, and calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagent.late_names import late_names

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

# So that `mcpagent --help` need not load the runtime.
__getattr__, __dir__ = late_names(
    __name__,
    {
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
    },
)
