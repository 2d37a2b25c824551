"""mcpagent: any LLM with ten thousand tools. It searches, adds what it needs, and calls it."""

from mcpagent.agent import Agent
from mcpagent.catalog import ToolSearch
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
from mcpagent.tools import Tool, ToolOutput, Toolset
from mcpagent.toolsets.function import function_tool

__all__ = [
    "Agent",
    "AgentStateError",
    "ConfigError",
    "CredentialsError",
    "Image",
    "InputError",
    "LimitError",
    "McpAgentError",
    "Message",
    "Model",
    "ModelError",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "ServerError",
    "Text",
    "Tool",
    "ToolDefinition",
    "ToolOutput",
    "ToolSearch",
    "Toolset",
    "Usage",
    "dump_messages",
    "function_tool",
    "load_messages",
]

__version__ = "0.1.0"
