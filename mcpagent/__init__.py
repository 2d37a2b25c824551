"""mcpagent: any LLM with ten thousand tools. It searches, adds what it needs, and calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagent.utilities.python import late_names
from mcpagent.utilities.version import __version__ as __version__

if TYPE_CHECKING:
    from mcpagent.agents.agent import Agent
    from mcpagent.agents.cards.card import AgentCard, CardError
    from mcpagent.agents.event_stream import EventStream
    from mcpagent.agents.session import Session
    from mcpagent.code_mode.code_options import CodeMode
    from mcpagent.config import McpServer
    from mcpagent.errors import (
        AgentStateError,
        ConfigError,
        CredentialsError,
        InputError,
        LimitError,
        McpAgentError,
        ModelError,
        OutputError,
        OutputProblem,
        ServerError,
        SessionBusyError,
        SessionStoreError,
    )
    from mcpagent.history.compaction_options import Compaction
    from mcpagent.journal.recording import Recorder, RecordingError, Replay
    from mcpagent.journal.sessions import Sessions, SessionStore
    from mcpagent.journal.tracing import Tracing
    from mcpagent.mcp.server_options import ServerOptions
    from mcpagent.models.base import Model, ModelRequest, ModelResponse, ModelSettings
    from mcpagent.models.provider_tools.provider_tool_values import (
        CodeExecution,
        FileSearch,
        Location,
        ProviderMcp,
        WebFetch,
        WebSearch,
    )
    from mcpagent.models.scripted import ScriptedModel
    from mcpagent.permissions.approval_policy import ApprovalPolicy
    from mcpagent.run.agent_run import RunContext, RunResult
    from mcpagent.tool_search.search_options import ToolSearch
    from mcpagent.toolsets.api_toolset import openapi_toolset
    from mcpagent.toolsets.composition import (
        approval_required,
        callable_from,
        combined,
        deferred,
        dynamic,
        external,
        filtered,
        prefixed,
        prepared,
        renamed,
        wrapped,
    )
    from mcpagent.toolsets.definition import Definition, RunOptions, Wrapper
    from mcpagent.toolsets.functions import FunctionToolset, function_tool
    from mcpagent.toolsets.skill_toolset import skills_toolset
    from mcpagent.values import events
    from mcpagent.values.approval import CallAnswer, CallsPendingError, PendingCall
    from mcpagent.values.limits.run_limits import Limits
    from mcpagent.values.messages import (
        Audio,
        Citation,
        Document,
        File,
        FileId,
        Image,
        ImageUrl,
        Message,
        Prompt,
        Spent,
        Text,
        ToolCall,
        ToolDefinition,
        ToolResult,
        Usage,
        dump_messages,
        load_messages,
    )
    from mcpagent.values.tool_context import (
        ToolContext,
        ToolContextCache,
        prepare_context,
    )
    from mcpagent.values.tools import Tool, ToolOutput, ToolReturn, Toolset

__all__ = [
    "Agent",
    "AgentCard",
    "AgentStateError",
    "ApprovalPolicy",
    "Audio",
    "CallAnswer",
    "CallsPendingError",
    "CardError",
    "Citation",
    "CodeExecution",
    "CodeMode",
    "Compaction",
    "ConfigError",
    "CredentialsError",
    "Definition",
    "Document",
    "EventStream",
    "File",
    "FileId",
    "FileSearch",
    "FunctionToolset",
    "Image",
    "ImageUrl",
    "InputError",
    "LimitError",
    "Limits",
    "Location",
    "McpAgentError",
    "McpServer",
    "Message",
    "Model",
    "ModelError",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "OutputError",
    "OutputProblem",
    "PendingCall",
    "Prompt",
    "ProviderMcp",
    "Recorder",
    "RecordingError",
    "Replay",
    "RunContext",
    "RunOptions",
    "RunResult",
    "ScriptedModel",
    "ServerError",
    "ServerOptions",
    "Session",
    "SessionBusyError",
    "SessionStore",
    "SessionStoreError",
    "Sessions",
    "Spent",
    "Text",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolContextCache",
    "ToolDefinition",
    "ToolOutput",
    "ToolResult",
    "ToolReturn",
    "ToolSearch",
    "Toolset",
    "Tracing",
    "Usage",
    "WebFetch",
    "WebSearch",
    "Wrapper",
    "approval_required",
    "callable_from",
    "combined",
    "deferred",
    "dump_messages",
    "dynamic",
    "events",
    "external",
    "filtered",
    "function_tool",
    "load_messages",
    "openapi_toolset",
    "prefixed",
    "prepare_context",
    "prepared",
    "renamed",
    "skills_toolset",
    "wrapped",
]


def _name_here(name: str) -> str | None:
    from mcpagent.agents.other_libraries import NAMES

    return NAMES.get(name)


# So that `mcpagent --help` need not load the runtime.
__getattr__, __dir__ = late_names(
    __name__,
    {
        "agents.agent": ("Agent",),
        "agents.cards.card": (
            "AgentCard",
            "CardError",
        ),
        "config": ("McpServer",),
        "errors": (
            "AgentStateError",
            "ConfigError",
            "CredentialsError",
            "InputError",
            "LimitError",
            "McpAgentError",
            "ModelError",
            "OutputError",
            "OutputProblem",
            "ServerError",
            "SessionBusyError",
            "SessionStoreError",
        ),
        "values.events": ("events",),
        "values.limits.run_limits": ("Limits",),
        "mcp.server_options": ("ServerOptions",),
        "values.messages": (
            "Audio",
            "Citation",
            "Document",
            "File",
            "FileId",
            "Image",
            "ImageUrl",
            "Message",
            "Prompt",
            "Spent",
            "Text",
            "ToolCall",
            "ToolDefinition",
            "ToolResult",
            "Usage",
            "dump_messages",
            "load_messages",
        ),
        "models.base": (
            "Model",
            "ModelRequest",
            "ModelResponse",
            "ModelSettings",
        ),
        "models.provider_tools.provider_tool_values": (
            "CodeExecution",
            "FileSearch",
            "Location",
            "ProviderMcp",
            "WebFetch",
            "WebSearch",
        ),
        "models.scripted": ("ScriptedModel",),
        "values.approval": (
            "CallAnswer",
            "CallsPendingError",
            "PendingCall",
        ),
        "journal.recording": (
            "Recorder",
            "RecordingError",
            "Replay",
        ),
        "run.agent_run": (
            "RunContext",
            "RunResult",
        ),
        "toolsets.definition": (
            "Definition",
            "RunOptions",
            "Wrapper",
        ),
        "agents.event_stream": ("EventStream",),
        "agents.session": ("Session",),
        "journal.sessions.protocol": ("SessionStore",),
        "journal.sessions.store": ("Sessions",),
        "values.tool_context": (
            "ToolContext",
            "ToolContextCache",
            "prepare_context",
        ),
        "code_mode.code_options": ("CodeMode",),
        "tool_search.search_options": ("ToolSearch",),
        "values.tools": (
            "Tool",
            "ToolOutput",
            "ToolReturn",
            "Toolset",
        ),
        "permissions.approval_policy": ("ApprovalPolicy",),
        "toolsets.composition": (
            "approval_required",
            "callable_from",
            "combined",
            "deferred",
            "dynamic",
            "external",
            "filtered",
            "prefixed",
            "prepared",
            "renamed",
            "wrapped",
        ),
        "toolsets.api_toolset": ("openapi_toolset",),
        "toolsets.functions": (
            "FunctionToolset",
            "function_tool",
        ),
        "toolsets.skill_toolset": ("skills_toolset",),
        "journal.tracing": ("Tracing",),
        "history.compaction_options": ("Compaction",),
    },
    _name_here,
)
