"""An argument of the wrong type is told at once, in one line that names it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcpagent import (
    Agent,
    Image,
    Limits,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    ServerOptions,
    Text,
    Tool,
    ToolCall,
    ToolDefinition,
    ToolOutput,
    ToolSearch,
    approval_required,
    combined,
    dump_messages,
    dynamic,
    external,
    filtered,
    prefixed,
    prepared,
    renamed,
    wrapped,
)
from mcpagent.errors import ConfigError, InputError, McpAgentError
from mcpagent.journal.recording import Recorder
from mcpagent.models.scripted import ScriptedModel
from mcpagent.permissions.approval_policy import ApprovalPolicy
from mcpagent.toolsets.definition import RunOptions
from mcpagent.toolsets.functions import FunctionToolset, function_tool
from mcpagent.values.messages import user_message
from mcpagent.values.tools import Run, Toolset
from tests.tables import each_row

NAN = float("nan")


def given(value: object) -> Any:
    """What the type checker would not let pass."""
    return value


def agent(**options: Any) -> Agent:
    return Agent(ScriptedModel([]), **options)


MAKING: dict[str, tuple[Callable[[], object], str]] = {
    "model=5": (lambda: Agent(given(5)), "model: expected a name such as"),
    "model=[]": (lambda: Agent([]), "model: expected a name such as"),
    "model={}": (lambda: Agent(given(dict[str, str]())), "model: "),
    "model=class": (lambda: Agent(given(ScriptedModel)), "model: .* got the class ScriptedModel"),
    "model=[class]": (lambda: Agent(["offline", given(ScriptedModel)]), "model: "),
    "approval='yes'": (lambda: agent(approval="yes"), "approval: expected True, False, a predicate .* got str 'yes'"),
    "approval=1": (lambda: agent(approval=1), "approval: .* got int 1"),
    "approval=0": (lambda: agent(approval=0), "approval: .* got int 0"),
    "approval=[x]": (lambda: agent(approval=["x"]), "approval: .* got list"),
    "approval=None": (lambda: agent(approval=None), "approval: .* got None"),
    "policy": (lambda: ApprovalPolicy(given("x")), "approval: .* got str 'x'"),
    "decide=5": (lambda: ApprovalPolicy(decide=given(5)), "ApprovalPolicy.decide: expected a function or None"),
    "on_event=5": (lambda: agent(on_event=5), "Agent: on_event: expected a function or None, got int 5"),
    "sessions=5": (
        lambda: agent(sessions=5),
        r"sessions: expected Sessions\(...\) or an object with the methods of SessionStore or a text or None, got int",
    ),
    "wrappers=Recorder": (
        lambda: agent(options=RunOptions(wrappers=given(Recorder("x")))),
        r"RunOptions\.wrappers: expected a list, got Recorder",
    ),
    "wrappers=[5]": (
        lambda: agent(options=RunOptions(wrappers=given([5]))),
        r"wrappers\[0\]: expected a function, got int 5",
    ),
    "wrappers=[class]": (
        lambda: agent(options=RunOptions(wrappers=given([Recorder]))),
        r"wrappers\[0\]: expected a function, got the class Recorder",
    ),
    "wrappers give None": (
        lambda: agent(options=RunOptions(wrappers=given([lambda _: None]))),
        "wrappers: expected a Definition .* got None",
    ),
    "tools=None": (lambda: agent(tools=None), "tools: expected list of functions.* got None"),
    "tools=[[5]]": (lambda: agent(tools=[[5]]), "tools: expected functions and tools, got int"),
    "tools=[class]": (lambda: agent(tools=[FunctionToolset]), "tools: expected toolsets"),
    "function_tool(5)": (lambda: function_tool(given(5)), "tools: expected functions"),
    "mcp_config=5": (lambda: agent(mcp_config=5), "mcp_config: expected a file, a dict, .* got int 5"),
    "mcp_config=[5]": (lambda: agent(mcp_config=[5]), "mcp_config: .* got list"),
    "mode=1": (lambda: agent(with_tool_search_mode=5), "with_tool_search_mode: expected True or False"),
    "timeout=None": (lambda: RunOptions(tool_timeout_seconds=given(None)), "tool_timeout_seconds: .* got None"),
    "timeout='x'": (lambda: RunOptions(tool_timeout_seconds=given("x")), "tool_timeout_seconds: .* got str 'x'"),
    "timeout=-1": (lambda: RunOptions(tool_timeout_seconds=-1), "tool_timeout_seconds: .* got -1"),
    "timeout=nan": (lambda: RunOptions(tool_timeout_seconds=NAN), "tool_timeout_seconds: .* got float nan"),
    "turns=True": (lambda: RunOptions(limits=Limits(turns=True)), "Limits.turns: .* got True"),
    "turns=2.0": (lambda: RunOptions(limits=Limits(turns=given(2.0))), "Limits.turns: .* got float 2.0"),
    "tokens=True": (lambda: RunOptions(limits=Limits(tokens=True)), "Limits.tokens: .* got True"),
    "settings={}": (lambda: RunOptions(settings=given({})), "settings: expected ModelSettings"),
    "selected_tools=[1]": (
        lambda: agent(options=RunOptions(servers=ServerOptions(selected_tools=[given(1)]))),
        "selected_tools: expected a list of names",
    ),
    "selected_tools='a:b'": (
        lambda: agent(options=RunOptions(servers=ServerOptions(selected_tools="a:b"))),
        r"selected_tools: .* write \['a:b'\]",
    ),
    "startup='x'": (lambda: ServerOptions(startup_seconds=given("x")), "startup_seconds: .* got str 'x'"),
    "startup=-1": (lambda: ServerOptions(startup_seconds=-1), "startup_seconds: .* got -1"),
    "cache='x'": (lambda: ServerOptions(cache=given("x")), "cache: expected ListCache"),
    "pins='x'": (lambda: ServerOptions(pins=given("x")), "pins: expected PinStore"),
    "handlers=5": (lambda: ServerOptions(handlers=given(5)), "handlers: expected Handlers"),
    "log_folder='x'": (lambda: ServerOptions(log_folder=given("x")), "log_folder: expected Path"),
    "eager='x'": (lambda: ServerOptions(eager=given("x")), "eager: expected True or False"),
    "settings tokens": (lambda: ModelSettings(max_output_tokens=given("9")), "max_output_tokens: .* got str '9'"),
    "settings tokens=0": (lambda: ModelSettings(max_output_tokens=0), "max_output_tokens: .* got 0"),
    "temperature='x'": (lambda: ModelSettings(temperature=given("x")), "temperature: .* got str 'x'"),
    "temperature=nan": (lambda: ModelSettings(temperature=NAN), "temperature: .* got nan"),
    "extra=[]": (lambda: ModelSettings(extra=given([])), "extra: expected a dict .* got list"),
    "combined(5)": (lambda: combined(given(5)), "tools: expected toolsets, .* got int"),
    "prefixed(s, 5)": (lambda: prefixed([], given(5)), 'prefixed: expected a text such as "github", got int 5'),
    "renamed(s, [])": (lambda: renamed([], given([])), "renamed: expected new names to old ones as a dict, got list"),
    "renamed(s, {1: x})": (lambda: renamed([], given({1: "x"})), "renamed: expected new names to old ones"),
    "filtered(s, 5)": (lambda: filtered([], given(5)), r"filtered: expected a function \(context, definition\)"),
    "filtered(s, class)": (lambda: filtered([], given(ScriptedModel)), "filtered: .* got the class ScriptedModel"),
    "prepared(s, None)": (lambda: prepared([], given(None)), "prepared: expected a function .* got None"),
    "approval_required(s, 5)": (lambda: approval_required([], given(5)), "approval_required: expected a function"),
    "wrapped(s, 5)": (lambda: wrapped([], given(5)), "wrapped: expected a function .* got int 5"),
    "external(5)": (lambda: external(given(5)), "external: expected a list of ToolDefinition, got int 5"),
    "external([{}])": (lambda: external([given({})]), "external: expected ToolDefinition values, got dict"),
    "dynamic([])": (lambda: dynamic(given([])), r"dynamic: expected a function \(context\), got list"),
    "eager_tools=[*]": (lambda: ToolSearch(eager_tools=given(["*"])), "ToolSearch.eager_tools: expected patterns"),
    "eager_tools={s: *}": (lambda: ToolSearch(eager_tools={"s": "*"}), "ToolSearch.eager_tools.s: .* write"),
    "max_results='x'": (lambda: ToolSearch(max_results=given("x")), "ToolSearch.max_results: expected 1 to 50"),
}


@each_row("what", MAKING)
def test_what_is_made_of_something_wrong_is_told(what: str) -> None:
    make, said = MAKING[what]
    with pytest.raises(ConfigError, match=said) as caught:
        make()
    assert "\n" not in str(caught.value)


ASKING: dict[str, tuple[Callable[[Agent], Any], str]] = {
    "ask([None])": (lambda agent: agent.ask([given(None)]), "prompt: .* got NoneType in it"),
    "ask([Text(5)])": (lambda agent: agent.ask([Text(given(5))]), "prompt: Text: expected text, got int 5"),
    "ask([Image(b'')])": (lambda agent: agent.ask([Image("image/png", given(b""))]), "prompt: Image: .* got bytes"),
    "ask([Image(5)])": (lambda agent: agent.ask([Image(given(5), "")]), "prompt: Image: expected a media type"),
    "complete(None)": (
        lambda agent: agent._runtime.complete(given(None)),
        "complete: expected a ModelRequest, got None",
    ),
    "tool_context={}": (lambda agent: agent.ask("x", tool_context=given({})), "tool_context: expected"),
    "tool_context=dict": (lambda agent: agent.ask("x", tool_context=given({"a": 1})), "tool_context: expected ToolCon"),
    "session tool_context": (lambda agent: agent.session(tool_context=given({"a": 1})), "tool_context: expected"),
    "session(id=5)": (lambda agent: agent.session(id=given(5)), "id: expected a text"),
    "session(messages=5)": (lambda agent: agent.session(messages=given(5)), "messages: expected a list of messages"),
    "session(messages='x')": (lambda agent: agent.session(messages=given("x")), "messages: expected a list"),
    "session(messages={})": (lambda agent: agent.session(messages=given({"role": "user"})), "messages: .* got dict"),
    "ask_with_history(None)": (
        lambda agent: agent.ask_with_history(given(None)),
        "messages: expected a list .* got None",
    ),
    "resume(None)": (lambda agent: agent.resume(given(None)), "resume: expected a list of CallAnswer.*, got NoneType"),
    "rewind('x')": (
        lambda agent: agent._runtime.own_session.rewind(given("x")),
        "rewind: expected a number of messages, got str 'x'",
    ),
    "rewind(0.0)": (
        lambda agent: agent._runtime.own_session.rewind(given(0.5)),
        "rewind: expected a number of messages",
    ),
    "search(None)": (lambda agent: agent.search(given(None)), "search: expected a query as text, got None"),
    "search('x', 'y')": (lambda agent: agent.search("x", given("y")), "limit: expected a number of tools"),
}


@each_row("what", ASKING)
async def test_what_is_asked_with_something_wrong_is_told(what: str) -> None:
    ask, said = ASKING[what]
    model = ScriptedModel(["fine"])
    async with Agent(model) as agent:

        async def asked() -> None:
            answer = ask(agent)
            if inspect.isawaitable(answer):
                await answer

        with pytest.raises(InputError, match=said) as caught:
            await asked()
        assert "\n" not in str(caught.value)
        assert model.requests == []
        assert await agent.ask("x") == "fine"


async def test_instructions_that_give_no_text_are_told() -> None:
    async with Agent(ScriptedModel([]), instructions=lambda _: given(5)) as agent:
        with pytest.raises(ConfigError, match="instructions: expected a function that gives text, got int 5"):
            await agent.ask("x")


async def test_a_class_is_no_model_to_go_on_with() -> None:
    async with Agent(ScriptedModel(["fine"])) as agent:
        with pytest.raises(ConfigError, match=r"the class ScriptedModel; write ScriptedModel\(\.\.\.\)"):
            await agent.use_model(given(ScriptedModel))
        assert await agent.ask("x") == "fine"


async def test_a_generator_of_messages_is_read() -> None:
    saved = dump_messages([user_message("hello")])
    async with Agent(ScriptedModel(["fine"])) as agent:
        messages: Any = (message for message in saved)
        assert [message.text for message in agent.session(messages=messages).messages] == ["hello"]


def test_nothing_secret_is_repeated() -> None:
    with pytest.raises(McpAgentError) as caught:
        agent(mcp_config=[{"env": {"TOKEN": "hunter2"}}, Path("x")])
    assert "hunter2" not in str(caught.value)


class Lists(Toolset):
    """Gives whatever it is told to."""

    def __init__(self, listed: object) -> None:
        self.listed = listed

    async def tools(self) -> list[Tool]:
        listed: list[Tool] = given(self.listed)
        return listed


@each_row("listed, words", [(None, ".* got None"), ("x", ".* got a text"), (["x"], r"\[0\].* got str 'x'")])
async def test_a_toolset_that_lists_something_else_is_named(listed: object, words: str) -> None:
    for toolset in (Lists(listed), filtered(Lists(listed), lambda context, definition: True)):
        with pytest.raises(ConfigError, match=rf"Lists: tools\(\){words}"):
            await Agent(ScriptedModel([]), tools=[toolset]).__aenter__()


@each_row("gives", ["text", None, 5])
async def test_code_of_a_tool_that_gives_no_output_is_a_failed_call(gives: object) -> None:
    async def around(definition: ToolDefinition, arguments: dict[str, Any], run: Run) -> ToolOutput:
        output: ToolOutput = given(gives)
        return output

    def look() -> str:
        """Looks."""
        return "seen"

    def other() -> str:
        """Looks elsewhere."""
        return "seen too"

    model = ScriptedModel([[ToolCall("", "look", {}), ToolCall("", "other", {})], "done"])
    async with Agent(model, tools=[wrapped([look], around), other]) as agent:
        assert await agent.ask("go") == "done"
        wrong, right = agent.messages[-2].tool_results
    assert wrong.error == "failed"
    assert 'the code of "look": expected a ToolOutput' in wrong.text
    assert (right.error, right.text) == (None, "seen too")


@each_row("gives", ["text", None, user_message("x")])
async def test_a_model_that_gives_no_response_is_named(gives: object) -> None:
    class Odd:
        name = "odd"

        async def respond(self, request: ModelRequest, emit: Any) -> ModelResponse:
            response: ModelResponse = given(gives)
            return response

        async def aclose(self) -> None:
            pass

    async with Agent(Odd()) as agent:
        with pytest.raises(ConfigError, match=r"model odd: respond\(\): expected a ModelResponse, got"):
            await agent.ask("x")


@each_row("gives", [None, "text", ToolDefinition("look", "", {})])
async def test_a_prepared_toolset_that_gives_no_list_is_told(gives: object) -> None:
    def look() -> str:
        """Looks."""
        return "seen"

    with pytest.raises(ConfigError, match="prepared: what the function gave: expected a list"):
        await Agent(ScriptedModel([]), tools=[prepared([look], lambda *_: given(gives))]).__aenter__()


@each_row(
    "make, words",
    [
        (
            lambda function: Agent(ScriptedModel([]), instructions=function),
            r"instructions: expected a function \(context\)",
        ),
        (lambda function: dynamic(function), r"dynamic: expected a function \(context\)"),
        (lambda function: filtered([], function), r"filtered: expected a function \(context, definition\)"),
        (lambda function: prepared([], function), r"prepared: expected a function \(context, definitions\)"),
        (lambda function: wrapped([], function), r"wrapped: expected a function \(definition, arguments, run\)"),
        (lambda function: approval_required([], function), r"approval_required: expected a function"),
        (lambda function: ApprovalPolicy(function), r"approval: expected a function"),
        (lambda function: ApprovalPolicy(True, function), r"ApprovalPolicy.decide: expected a function \(request\)"),
        (lambda function: Agent(ScriptedModel([]), on_event=function), r"on_event: expected a function \(event\)"),
    ],
)
def test_a_function_that_cannot_be_called_as_it_will_be_is_told_at_once(
    make: Callable[[Any], object], words: str
) -> None:
    for function in (lambda: "x", lambda a, b, c, d: "x"):
        with pytest.raises(ConfigError, match=f"{words}.* cannot be called so"):
            make(function)
    make(lambda *_: "x")


@each_row("is_started", [False, True])
async def test_an_agent_is_no_toolset(is_started: bool) -> None:
    agent = Agent(ScriptedModel([]))
    if is_started:
        await agent.__aenter__()
    try:
        for compose in (prefixed, combined):
            with pytest.raises(ConfigError, match=r"got Agent; use agent\.as_tool\(name, description\)"):
                compose(given(agent), given("x"))
    finally:
        await agent.aclose()
