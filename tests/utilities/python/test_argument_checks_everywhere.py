"""Every public callable, each parameter in turn replaced by things that it may not take: one line that names it.

`TAKEN` says which of the values a parameter takes, beside valid arguments: that is a choice, and every other value has
to be refused. The rest of the wrong values, and the words of the errors, are in `test_wrong_types.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import mcpagent
from mcpagent import (
    Agent,
    AgentCard,
    ApprovalPolicy,
    CodeMode,
    FunctionToolset,
    McpServer,
    Message,
    ModelSettings,
    Recorder,
    RunOptions,
    ScriptedModel,
    ServerOptions,
    Sessions,
    Text,
    ToolCall,
    ToolContext,
    ToolContextCache,
    ToolSearch,
    dump_messages,
    load_messages,
    openapi_toolset,
    prepare_context,
    skills_toolset,
)
from mcpagent.agents.agent_runtime import AgentRuntime
from mcpagent.agents.session import Session
from mcpagent.config import load_servers
from mcpagent.errors import ConfigError, InputError, McpAgentError
from mcpagent.mcp.handlers import Handlers
from mcpagent.mcp.lists.list_cache import ListCache
from mcpagent.mcp.lists.pins import PinStore
from mcpagent.models import AnthropicModel, FallbackModel, OpenAIChatModel, OpenAIResponsesModel, resolve_model
from mcpagent.toolsets import composition
from mcpagent.toolsets.functions import function_tool
from tests.tables import each_row

TRIED: dict[str, Any] = {
    "None": None,
    "5": 5,
    "nan": float("nan"),
    "True": True,
    "x": "x",
    "[]": [],
    "[None]": [None],
    "{}": {},
    "class": int,
    "object": object(),
}


class Notes(BaseModel):
    """State of a toolset."""

    lines: list[str] = []


def add(a: int) -> int:
    """Adds one."""
    return a + 1


ADD = function_tool(add)


def given(value: object) -> Any:
    """What the type checker would not let pass."""
    return value


def some_context() -> ToolContext:
    context = ToolContext()
    context.register("notes", Notes())
    return context


async def started(use: Callable[[Agent], Any]) -> None:
    """Something done with an agent that is started, to its end."""
    async with Agent(ScriptedModel(["fine"] * 3), tools=[ADD]) as agent:
        done = use(agent)
        if inspect.isawaitable(done):
            await done


def method(name: str) -> Callable[..., Any]:
    """A method of a started agent, as a function."""
    return lambda **arguments: started(lambda agent: getattr(agent, name)(**arguments))


def of_runtime(name: str) -> Callable[..., Any]:
    return lambda **arguments: started(lambda agent: getattr(agent._runtime, name)(**arguments))


def of_session(name: str) -> Callable[..., Any]:
    return lambda **arguments: started(lambda agent: getattr(agent.session(), name)(**arguments))


def streamed(**arguments: Any) -> Any:
    async def use(agent: Agent) -> None:
        async with agent.stream(**arguments) as events:
            async for _ in events:
                pass

    return started(use)


TOOLS: dict[str, Any] = {"source": [ADD]}
CALLS: dict[str, tuple[Callable[..., Any], Any, dict[str, Any]]] = {
    # what is called, whose parameters it has, the valid arguments
    "Agent": (Agent, Agent, {"model": "offline"}),
    "Agent.from_card": (Agent.from_card, Agent.from_card, {"card": AgentCard("me")}),
    "Agent.to_card": (method("to_card"), Agent.to_card, {}),
    "Agent.as_tool": (method("as_tool"), Agent.as_tool, {"name": "me", "description": "Helps."}),
    "AgentRuntime.subscribe": (of_runtime("subscribe"), AgentRuntime.subscribe, {"listener": print}),
    "Agent.session": (method("session"), Agent.session, {}),
    "Agent.ask": (method("ask"), Agent.ask, {"prompt": "hello"}),
    "Agent.run": (method("run"), Agent.run, {"prompt": "hello"}),
    "Agent.stream": (streamed, Agent.stream, {"prompt": "hello"}),
    "Agent.ask_with_history": (
        method("ask_with_history"),
        Agent.ask_with_history,
        {"messages": [Message("user", (Text("hello"),))]},
    ),
    "AgentRuntime.complete": (of_runtime("complete"), AgentRuntime.complete, {}),
    "Agent.search": (method("search"), Agent.search, {"query": "add"}),
    "Agent.use_model": (method("use_model"), Agent.use_model, {}),
    "Sessions": (Sessions, Sessions, {}),
    "Session.ask": (of_session("ask"), Agent.ask, {"prompt": "hello"}),
    "Session.rewind": (of_session("rewind"), Session.rewind, {}),
    "ApprovalPolicy": (ApprovalPolicy, ApprovalPolicy, {}),
    "McpServer": (McpServer, McpServer, {"name": "files", "command": "x"}),
    "ServerOptions": (ServerOptions, ServerOptions, {}),
    "ServerOptions.stored": (ServerOptions.stored, ServerOptions.stored, {}),
    "load_servers": (load_servers, load_servers, {"source": {"mcpServers": {}}}),
    "Handlers": (Handlers, Handlers, {}),
    "ListCache": (ListCache, ListCache, {"folder": Path("lists")}),
    "PinStore": (PinStore, PinStore, {"folder": Path("pins")}),
    "Limits": (mcpagent.Limits, mcpagent.Limits, {}),
    "RunOptions": (RunOptions, RunOptions, {}),
    "Compaction": (mcpagent.Compaction, mcpagent.Compaction, {}),
    "Tracing": (mcpagent.Tracing, mcpagent.Tracing, {}),
    "Tracing.from_environment": (
        mcpagent.Tracing.from_environment,
        mcpagent.Tracing.from_environment,
        {},
    ),
    "ModelSettings": (ModelSettings, ModelSettings, {}),
    "CodeMode": (CodeMode, CodeMode, {}),
    "ToolSearch": (ToolSearch, ToolSearch, {}),
    "AgentCard": (AgentCard, AgentCard, {"name": "me"}),
    "WebSearch": (mcpagent.WebSearch, mcpagent.WebSearch, {}),
    "WebFetch": (mcpagent.WebFetch, mcpagent.WebFetch, {}),
    "CodeExecution": (mcpagent.CodeExecution, mcpagent.CodeExecution, {}),
    "FileSearch": (mcpagent.FileSearch, mcpagent.FileSearch, {"stores": ["vs_1"]}),
    "ProviderMcp": (mcpagent.ProviderMcp, mcpagent.ProviderMcp, {"name": "docs", "url": "https://example.com/mcp"}),
    "Location": (mcpagent.Location, mcpagent.Location, {}),
    "Recorder": (Recorder, Recorder, {"path": "run.jsonl"}),
    "Replay": (mcpagent.Replay, mcpagent.Replay, {}),
    "ScriptedModel": (ScriptedModel, ScriptedModel, {"replies": []}),
    "FallbackModel": (FallbackModel, FallbackModel, {"models": [ScriptedModel([])]}),
    "resolve_model": (resolve_model, resolve_model, {"spec": "offline", "environ": {}}),
    "AnthropicModel": (AnthropicModel, AnthropicModel, {"model_name": "some"}),
    "OpenAIChatModel": (OpenAIChatModel, OpenAIChatModel, {"model_name": "some"}),
    "OpenAIResponsesModel": (OpenAIResponsesModel, OpenAIResponsesModel, {"model_name": "some"}),
    "function_tool": (function_tool, function_tool, {"function": add}),
    "FunctionToolset": (FunctionToolset, FunctionToolset, {}),
    "prefixed": (composition.prefixed, composition.prefixed, TOOLS | {"prefix": "my"}),
    "combined": (lambda sources: composition.combined(sources), lambda sources: None, {}),
    "renamed": (composition.renamed, composition.renamed, TOOLS | {"names": {"plus": "add"}}),
    "filtered": (composition.filtered, composition.filtered, TOOLS | {"predicate": lambda *_: True}),
    "prepared": (composition.prepared, composition.prepared, TOOLS | {"prepare": lambda *_: []}),
    "approval_required": (composition.approval_required, composition.approval_required, TOOLS),
    "callable_from": (composition.callable_from, composition.callable_from, {**TOOLS, "allowed_callers": ["code"]}),
    "deferred": (composition.deferred, composition.deferred, TOOLS),
    "wrapped": (composition.wrapped, composition.wrapped, TOOLS | {"around": lambda *_: None}),
    "skills_toolset": (lambda folders: skills_toolset(folders), lambda folders: None, {}),
    "openapi_toolset": (openapi_toolset, openapi_toolset, {"source": {}, "name": "api"}),
    "external": (composition.external, composition.external, {"definitions": []}),
    "dynamic": (composition.dynamic, composition.dynamic, {"factory": lambda _: None}),
    "ToolContext": (ToolContext, ToolContext, {}),
    "ToolContext.register": (some_context().register, ToolContext.register, {"namespace": "n", "state": Notes()}),
    "ToolContext.get_or_create": (
        some_context().get_or_create,
        ToolContext.get_or_create,
        {"namespace": "n", "state_type": Notes},
    ),
    "ToolContext.load_namespace": (
        some_context().load_namespace,
        ToolContext.load_namespace,
        {"namespace": "n", "state_type": Notes, "data": {}},
    ),
    "ToolContext.restore_state_snapshot": (
        some_context().restore_state_snapshot,
        ToolContext.restore_state_snapshot,
        {"data": {}},
    ),
    "ToolContext.update": (some_context().update, ToolContext.update, {}),
    "ToolContextCache": (ToolContextCache, ToolContextCache, {}),
    "ToolContextCache.get_or_create": (ToolContextCache().get_or_create, ToolContextCache.get_or_create, {}),
    "prepare_context": (prepare_context, prepare_context, {"context": ToolContext()}),
    "dump_messages": (dump_messages, dump_messages, {}),
    "load_messages": (load_messages, load_messages, {}),
}


TAKEN: Mapping[str, str] = {
    "combined": "sources=[]",
    "skills_toolset": "folders=x",
    "Agent": (
        "model=None x; mcp_config=None x [] {}; instructions=x; with_tool_search_mode=True; "
        "code_mode=True; tool_search=None True; pre_discovered_tools=[]; tools=[]; options=None; "
        "approval=True; on_event=None; sessions=None x"
    ),
    "Agent.to_card": "name=x",
    "Agent.as_tool": (
        "name=x; description=x; output_type=None {} class; defer_loading=None True; timeout_seconds=None 5"
    ),
    "Agent.session": "id=None x; messages=None []; tool_context=None; limits=None; trusted=None True",
    "Agent.ask_with_history": "trusted=None True",
    "Agent.ask": "prompt=x; output_type=None; tool_context=None; limits=None",  # what it answers is of no other type
    "Agent.run": "prompt=x; output_type=None {} class; tool_context=None; limits=None",
    "Agent.stream": "prompt=x; output_type=None {} class; tool_context=None; limits=None",
    "Agent.search": "query=x; limit=None 5",
    "Session.ask": "prompt=x; output_type=None; tool_context=None; limits=None",
    "Sessions": "where=None x; secrets=[]",
    "ApprovalPolicy": "required=True; decide=None; rules={}; on_decision=None",
    "McpServer": (
        "name=x; command=x; args=[]; env={}; cwd=x; url=x; headers={}; disabled=True; "
        "connect_timeout_seconds=5; timeout_seconds=5; total_timeout_seconds=5; shutdown_seconds=5; "
        "description=x; required=True; enabled_tools=[]; disabled_tools=[]; always_load=[]; "
        "defer_loading=None True []; eager=True; keeps_running=True; safe_to_repeat=[]; trust_hints=True; approval=[]; "
        "max_message_bytes=5; large_result_tokens=None 5 {}; log_level=None; "
        "elicitation=True; sampling=True; roots=[]; source=x; "
        "written={}; told={}; vouched=x; openapi=x {}; credentials={}"
    ),
    "ServerOptions": (
        "selected_servers=None []; selected_tools=None []; startup_seconds=None 5; question_seconds=None 5; "
        "cache=None; eager=True; pins=None; allow_change=None; handlers=None; auth=None; log_folder=None"
    ),
    "ServerOptions.stored": "environ=None {}",
    "load_servers": "source=[]; environ=None {}; label=x; folder=None; workspace=None; secret=None",
    "Handlers": "elicit=None; sample=None; visit=None; roots=[]; forwarding=None",
    "ListCache": "max_age_seconds=5; stale_seconds=5",
    "Limits": "turns=None 5; tool_calls=None 5; tokens=None 5; dollars=None 5; seconds=None 5",
    "RunOptions": "tool_timeout_seconds=5; large_result_tokens=None 5; compaction=None; wrappers=[]; skills=[]",
    "Compaction": "window_tokens=None",
    "ModelSettings": "max_output_tokens=None 5; temperature=None; extra={}; thinking=None; top_p=None; seed=None 5; "
    "tool_choice=None x; parallel_tool_calls=None True; service_tier=None x; cache_ttl=None; prompt_cache_key=None x; "
    "headers={}; timeout_seconds=None 5; profile=None",
    "CodeMode": "seconds=5; calls=5; output_tokens=5",
    "ToolSearch": (
        "enabled=True; auto_tokens=None 5; load=None; max_results=5; prefetch=None 5; extra_tools=[]; eager_tools={}; "
        "on_direct_call=None; renderer=None; cache_folder=None; history=None; examples={}"
    ),
    "AgentCard": (
        "name=x; instruction=x; description=x; default=True; model=x; servers=[]; tools={}; mcp_config=x; "
        "mcp_servers={}; mcp_connect=[]; tool_search=None; code_mode=True; provider_tools=[]; agents=[]; "
        "large_result_tokens=None 5; child_timeout_sec=5; request_params={}; api_key=x; tool_only=True; "
        "schema_version=5; foreign={}; path=x"
    ),
    "WebSearch": "max_uses=None 5; allowed_domains=[]; blocked_domains=[]; location=None",
    "WebFetch": "max_uses=None 5; allowed_domains=[]; blocked_domains=[]; max_content_tokens=None 5; citations=True",
    "FileSearch": "max_results=None 5",
    "ProviderMcp": "name=x; authorization=x; allowed_tools=[]; description=x",
    "Location": "city=x; region=x; country=x; timezone=x",
    "Recorder": "path=x; secrets=[]",
    "Tracing": "file=None x; name=x; tracer_provider=None; meter_provider=None",
    "Tracing.from_environment": "file=None x; name=x; flush_seconds=5",
    "ScriptedModel": "replies=[]; name=x",
    "FallbackModel": "owned=[]",
    "resolve_model": "environ=None {}; http_client=None",
    "AnthropicModel": "model_name=x; betas=[]; provider=x",
    "OpenAIChatModel": "model_name=x; provider=x; hint=x; max_tokens_field=None x; calls=None; traits=None",
    "OpenAIResponsesModel": "model_name=x; provider=x",
    "function_tool": (
        "name=None x; description=None x; category=x; timeout_seconds=None 5; defer_loading=None True; "
        "approval=True; read_only=None True; safe_to_repeat=None True; large_result_tokens=None 5"
    ),
    "FunctionToolset": "functions=[]; defer_loading=None True; approval=True; read_only=None True; category=x; label=x"
    "; id=x",
    "prefixed": "source=[]; prefix=x",
    "renamed": "source=[]; names={}",
    "filtered": "source=[]",
    "prepared": "source=[]",
    "approval_required": "source=[]; predicate=None",
    "callable_from": "source=[]",
    "deferred": "source=[]; names=True []",
    "wrapped": "source=[]",
    "external": "definitions=[]; id=x",
    "openapi_toolset": "source=x {}; base_url=x; auth=None x {}; only=[]; name=x",
    "dynamic": "per_step=True",
    "ToolContext": "state_key=None x",
    "ToolContext.restore_state_snapshot": "data={}; untrusted=True",
    "ToolContext.update": "changes={}",
    "ToolContextCache": "ttl_seconds=5; max_size=5",
    "ToolContextCache.get_or_create": "thread_id=x",
    "prepare_context": "features=[]; state_key=None x",
    "dump_messages": "messages=[]",
    "load_messages": "data=[]",
}
"""What each parameter takes of `TRIED`; a parameter that is not named takes none of them."""

NAMED_AS: Mapping[str, tuple[str, ...]] = {
    "source": ("tools:", "mcp_config:"),
    "sources": ("tools:",),
    "spec": ("model:", "no model"),
    "required": ("approval:",),
    "state": ("pydantic model",),
    "data": ("state:", "messages:", "messages["),
}
"""Parameters that errors call by the name they have where they are written first."""

UNTOLD: Mapping[str, str] = {
    "load_servers source x": "not found",
    "load_servers source {}": "mcpServers",
    "load_servers source [None]": "ServerConfig values",
    "Session.rewind length 5": "0 messages",
    "ToolContext.register client_writable []": "both expose",
    "ToolContext.load_namespace data {}": "both expose",
    "ToolContext.get_or_create state_type class": "pydantic model",
    "resolve_model spec x": "no provider",
    "Replay path x": "No such file",
}
"""Values of the right type that cannot be used here, and what is said of them."""

DOCUMENTED: Mapping[str, type[Exception]] = {"prepare_context": ValueError}
"""What is raised beside errors of ours, as the docstring says."""

MADE_BY_US = frozenset(
    "Audio CallAnswer Citation Definition Document EventStream File FileId Image ImageUrl Message "  # noqa: SIM905
    "ModelRequest ModelResponse OutputProblem "
    "PendingCall RunContext RunResult Session Spent Text Tool ToolCall ToolDefinition ToolOutput ToolResult "
    "ToolReturn Usage".split()
)
"""Values that the runtime makes by the thousand: they are checked where somebody hands them in, see below."""


def test_every_public_callable_is_tried() -> None:
    told = {name.partition(".")[0] for name in CALLS} | MADE_BY_US
    for name in set(mcpagent.__all__) - told:
        value = getattr(mcpagent, name)
        is_call = inspect.isfunction(value) or inspect.isclass(value)
        is_error = inspect.isclass(value) and issubclass(value, Exception)
        assert not is_call or is_error or getattr(value, "_is_protocol", False), name


def parameters_of(owner: Any) -> list[str]:
    parameters = inspect.signature(owner).parameters
    return [
        name for name, one in parameters.items() if one.kind is not one.VAR_KEYWORD and name not in ("self", "deps")
    ]


async def outcome(name: str, arguments: Mapping[str, Any]) -> str:
    """The text of the error, "" if there is none. What is not an error of ours is raised."""
    try:
        done = CALLS[name][0](**arguments)
        if inspect.isawaitable(done):
            await done
    except (McpAgentError, DOCUMENTED.get(name, McpAgentError)) as error:
        return str(error)
    return ""


@pytest.mark.slow
@each_row("name", CALLS)
async def test_what_a_parameter_does_not_take_is_told_by_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in ("TRACES", "METRICS"):
        monkeypatch.setenv(f"OTEL_{kind}_EXPORTER", "none")
    _, owner, valid = CALLS[name]
    takes = dict(item.split("=") for item in TAKEN.get(name, "").split("; ") if item)
    for parameter in parameters_of(owner):
        taken: list[str] = []
        for label, value in TRIED.items():
            said = await outcome(name, {**valid, parameter: value})
            untold = UNTOLD.get(f"{name} {parameter} {label}")
            words = (parameter, *NAMED_AS.get(parameter, ()), *([untold] if untold else []))
            own = name.rpartition(".")[2] + ":"
            if not said:
                taken.append(label)
            else:
                assert "\n" not in said
                assert said.startswith(own) or any(word in said for word in words), said
        assert " ".join(taken) == takes.get(parameter, ""), f"{name}({parameter}=...)"


# -- what the table cannot say ----------------------------------------------------------------------------------------

WITH_OPTIONS: dict[str, Callable[..., Any]] = {
    "Agent.from_card": lambda **options: Agent.from_card(AgentCard("me"), **options),
    "tool": lambda **options: Agent("offline").tool(**options),
    "FunctionToolset.add": lambda **options: FunctionToolset().add(add, **options),
    "get_or_create": lambda **options: ToolContext().get_or_create("n", Notes, **options),
    "load_namespace": lambda **options: ToolContext().load_namespace("n", Notes, {}, **options),
}


@each_row("place", WITH_OPTIONS)
def test_an_option_that_is_handed_on_and_unknown_is_named(place: str) -> None:
    with pytest.raises(ConfigError, match=f'^{place}: no option "nope"; there are '):
        WITH_OPTIONS[place](nope=1)


def test_a_mistyped_option_is_told_with_the_right_one() -> None:
    with pytest.raises(ConfigError, match='tool: no option "timeout_second"; did you mean "timeout_seconds"'):
        Agent("offline").tool(**given({"timeout_second": 5}))


CONNECTION = (
    "api_key",
    "base_url",
    "http_client",
    "max_retries",
    "settings",
    "silent_seconds",
    "key_variable",
    "sleep",
)


@each_row("model", [AnthropicModel, OpenAIChatModel, OpenAIResponsesModel])
@each_row("option", CONNECTION)
def test_how_a_provider_is_reached_is_checked(model: Any, option: str) -> None:
    with pytest.raises(ConfigError, match=f"^{model.__name__}: {option}: expected .*, got object$"):
        model("some", **{option: object()})


def broken_tools() -> dict[str, Any]:
    tool = function_tool(add)
    return {
        "Tool.deferred": replace(tool, deferred=given("no")),
        "Tool.run": replace(tool, run=given(5)),
        "timeout_seconds": replace(tool, timeout_seconds=-1),
        "ToolDefinition.description": replace(tool, definition=replace(tool.definition, description=given(5))),
        "ToolDefinition.parameters": replace(tool, definition=replace(tool.definition, parameters=given("{}"))),
    }


@each_row("what", broken_tools())
def test_a_tool_with_something_wrong_in_it_is_told_where_it_is_handed_in(what: str) -> None:
    tool = broken_tools()[what]
    takers: list[Callable[[], Any]] = [
        lambda: Agent("offline", tools=[tool]),
        lambda: Agent("offline").tool(tool),
        lambda: FunctionToolset([tool]),
        lambda: composition.prefixed([tool], "my"),
    ]
    for take in takers:
        with pytest.raises(ConfigError, match=f"{what}: expected "):
            take()


@each_row(
    "message, said",
    [
        (Message(given("boss"), ()), r'messages\[0\]: role: expected "user" or "assistant" or "tool", got str'),
        (Message("user", given("hello")), r"messages\[0\]: parts: expected a list, got a text"),
        (Message("user", (Text(given(5)),)), r"messages\[0\].parts\[0\]: text: expected a text, got int 5"),
        (Message("assistant", (ToolCall("1", "add", given([])),)), r"arguments: expected a dict, got list"),
    ],
)
async def test_a_message_with_something_wrong_in_it_is_told(message: Message, said: str) -> None:
    async with Agent(ScriptedModel([])) as agent:
        with pytest.raises(InputError, match=said):
            agent.session(messages=[message])


async def test_a_reply_of_the_scripted_model_that_is_none_is_told() -> None:
    async with Agent(ScriptedModel([lambda _: given(5)])) as agent:
        with pytest.raises(ConfigError, match=r"ScriptedModel: reply 1: expected .*, got int 5"):
            await agent.ask("hello")


@each_row(
    "options, said",
    [
        (
            {"env": {"PORT": 8080}},
            r'server "s": env.PORT: expected a text or Secret\(\.\.\.\), got int 8080; write "8080"$',
        ),
        (
            {"env": {"DEBUG": True}},
            r'server "s": env.DEBUG: expected a text or Secret\(\.\.\.\), got True; write "true"$',
        ),
        ({"env": {"A": None}}, r'server "s": env.A: expected a text or Secret\(\.\.\.\), got None$'),
        ({"env": "TOKEN=hunter2"}, r'server "s": env: expected a dict, got a text$'),
        ({"args": "--token hunter2"}, r'server "s": args: expected a list, got a text; write \["..."\]$'),
        ({"args": ["-p", 5]}, r'server "s": args\[1\]: expected a text or Secret\(\.\.\.\), got int 5; write "5"$'),
        ({"connect_timeout_seconds": "5"}, r'server "s": connect_timeout_seconds: expected .*, got str \'5\'$'),
        ({"timeout_seconds": -1}, r'server "s": timeout_seconds: expected seconds above 0, got -1$'),
        (
            {"approval": [("*", "maybe")]},
            r'approval\[0\]\[1\]: expected "allow" or "ask" or "deny", got str \'maybe\'$',
        ),
    ],
)
def test_a_server_with_something_wrong_in_it_is_told_without_its_secrets(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        McpServer("s", command="x", **options)


def test_the_name_of_a_session_cannot_move_a_cursor() -> None:
    agent = Agent(ScriptedModel([]))
    with agent:
        assert "\x1b" not in repr(agent.session("a\x1b[2J\nb"))
        assert "\n" not in repr(agent.session("a\x1b[2J\nb"))
