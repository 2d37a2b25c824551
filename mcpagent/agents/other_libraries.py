"""Map names and arguments of other agent libraries to those of mcpagent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from typing import ParamSpec, TypeVar

from mcpagent.utilities.python.unknown_arguments import argument_hint

_P = ParamSpec("_P")
_T = TypeVar("_T")

ARGUMENTS: Mapping[str, str] = {
    "system_prompt": "instructions=",
    "system": "instructions=",
    "instruction": "instructions=",
    "prompt": "instructions=",
    "toolsets": "tools=[...]",
    "functions": "tools=[...]",
    "function_tools": "tools=[...]",
    "builtin_tools": "tools=[WebSearch()]",
    "capabilities": "tools=[...]",
    "mcp_servers": 'mcp_config="mcp_servers.json"',
    "servers": 'mcp_config="mcp_servers.json"',
    "config_path": 'mcp_config="mcp_servers.json"',
    "model_settings": "options=RunOptions(settings=ModelSettings(...))",
    "temperature": "options=RunOptions(settings=ModelSettings(temperature=...))",
    "request_params": "options=RunOptions(settings=ModelSettings(...))",
    "usage_limits": "limits=Limits(...)",
    "max_turns": "limits=Limits(turns=...)",
    "max_iterations": "limits=Limits(turns=...)",
    "max_steps": "limits=Limits(turns=...)",
    "message_history": "agent.session(messages=[...])",
    "history": "agent.session(messages=[...])",
    "deps_type": "deps= of ask",
    "context": "deps=",
    "deps": "deps= of ask",
    "output_type": "output_type= of ask",
    "api_key": "the key into its variable, such as ANTHROPIC_API_KEY",
    "base_url": '"openai-chat:NAME?base_url=..." as the model',
    "timeout": "limits=Limits(seconds=...)",
    "max_tokens": "limits=Limits(tokens=...)",
    "verbose": "on_event=print",
    "debug": "on_event=print",
    "result_type": "output_type= of ask",
    "response_model": "output_type= of ask",
    "structured_output": "output_type= of ask",
    "event_stream_handler": "on_event=",
    "callbacks": "on_event=",
    "human_input": "approval=True",
    "memory": 'sessions="sessions.db"',
    "skills": 'tools=[skills_toolset("skills")], or options=RunOptions(skills=["skills"])',
    "session": 'agent.session("id")',
}
"""Arguments of other libraries, and their replacements in mcpagent."""

METHODS: Mapping[str, str] = {
    "run_sync": "ask_sync",
    "run_stream": "stream",
    "run_streamed": "stream",
    "iter": "stream",
    "send": "ask",
    "chat": "ask",
    "query": "ask",
    "invoke": "ask_sync",
    "ainvoke": "ask",
    "arun": "ask",
    "complete": "ask",
    "kickoff": "ask_sync",
    "stream_run": "stream",
    "tools": "known_tools",
    "history": "messages",
    "reset": "session",
    "add_tool": "tool",
    "add_server": "Agent(mcp_config=...)",
    "generate": "ask",
    "structured": "ask(..., output_type=...)",
    "interactive": "the command mcpagent",
    "run_mcp_servers": "async with agent",
    "tool_plain": "tool",
    "system_prompt": "Agent(instructions=...)",
    "message_history": "messages",
    "all_messages": "messages",
}
"""Methods of other libraries' agents, and their names in mcpagent."""

NAMES: Mapping[str, str] = {
    "MCPServer": "McpServer",
    "MCPServerStdio": "McpServer",
    "MCPServerStreamableHTTP": "McpServer",
    "MCPServerHTTP": "McpServer",
    "MCPServerSSE": "McpServer",
    "MCPToolset": "McpServer",
    "FastAgent": "Agent",
    "MCPAgent": "Agent",
    "MCPClient": "Agent(mcp_config=...)",
    "Runner": "Agent.run",
    "AgentRunResult": "RunResult",
    "UsageLimits": "Limits",
    "ModelMessage": "Message",
    "TestModel": "ScriptedModel",
    "FunctionModel": "ScriptedModel",
    "BinaryContent": "File",
    "SQLiteSession": "Sessions",
    "RequestParams": "ModelSettings",
}
"""Names that other libraries export, and their names in mcpagent."""


def answers_other_names(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorate a method: a call with an argument of another library raises a `TypeError` that names mcpagent's
    argument.
    """
    code = function.__code__
    known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    method = function.__name__

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        for name in kwargs:
            if name not in known:
                owner = type(args[0]).__name__
                if method != "__init__":
                    owner = f"{owner}.{method}"
                raise TypeError(argument_hint(owner, name, known, _here(known)))
        return function(*args, **kwargs)

    return call


def _here(known: Sequence[str]) -> Mapping[str, str]:
    """Return the replacements for a function's foreign arguments, including those that belong into its `options`."""
    if "options" not in known:
        return ARGUMENTS
    from mcpagent.toolsets.definition import RunOptions

    inside = {field.name for field in fields(RunOptions)} - set(known)
    here = {name: f"options=RunOptions({name}=...)" for name in inside}
    for name, text in ARGUMENTS.items():
        if text.partition("=")[0] in inside:
            text = f"options=RunOptions({text})"
        here[name] = text
    return here


def missing_method(owner: str, name: str) -> AttributeError:
    """Return the error for a missing method that agents of other libraries have; see `METHODS`."""
    text = f"{owner!r} object has no attribute {name!r}"
    return AttributeError(f"{text}; here it is {METHODS[name]}", name=name)
