"""Answer names and arguments of other agent libraries with the name here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec, TypeVar

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
    "result_type": "output_type= of ask",
    "response_model": "output_type= of ask",
    "structured_output": "output_type= of ask",
    "event_stream_handler": "on_event=",
    "callbacks": "on_event=",
    "human_input": "approval=True",
    "memory": 'sessions="sessions.db"',
    "session": 'agent.session("id")',
}
"""Arguments of other libraries, and what to write here."""

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
    "generate": "ask",
    "structured": "ask(..., output_type=...)",
    "interactive": "the command mcpagent",
    "run_mcp_servers": "async with agent",
    "tool_plain": "tool",
    "system_prompt": "Agent(instructions=...)",
    "message_history": "messages",
    "all_messages": "messages",
}
"""Methods of other libraries' agents, and the name here."""

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
"""Names that other libraries export, and the name here."""


def argument_hint(owner: str, name: str, known: tuple[str, ...]) -> str:
    """Return the message for an argument that does not exist, with the one that could be meant."""
    text = f'{owner}: no argument "{name:.60}"'
    if name in ARGUMENTS:
        return f"{text}; write {ARGUMENTS[name]}"
    near = get_close_matches(name, known, n=1)
    if near:
        return f'{text}; did you mean "{near[0]}"?'
    return f"{text}; there are {', '.join(known)}"


def answers_other_names(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return the method, raising a `TypeError` that names the argument here if it is called with another's."""
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
                raise TypeError(argument_hint(owner, name, known))
        return function(*args, **kwargs)

    return call


def missing_method(owner: str, name: str) -> AttributeError:
    """Return the error for a method that only agents of other libraries have; see `METHODS`."""
    text = f"{owner!r} object has no attribute {name!r}"
    return AttributeError(f"{text}; here it is {METHODS[name]}", name=name)
