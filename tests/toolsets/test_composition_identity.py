"""A tool's identity through 150 random stacks: each call runs exactly the tool that was meant, or is refused in words.

A stack is a value: leaves of echoing tools under operations that rename, hide and combine them. Every leaf answers with
its own token, and its description is that token, so a test sees which one is offered and which one ran. The stacks are
called directly, from programs, and through histories that another configuration of the same leaves has made.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, TypeAlias, TypeVar

import pytest

from mcpagent import (
    Agent,
    CallsPendingError,
    ConfigError,
    FunctionToolset,
    Tool,
    ToolDefinition,
    ToolOutput,
    ToolSearch,
    dump_messages,
)
from mcpagent.agents.session import Session
from mcpagent.code_mode.code_options import CodeMode
from mcpagent.journal.sessions.saved_state import KnownTools
from mcpagent.models.scripted import ScriptedModel
from mcpagent.permissions.approval_policy import ApprovalPolicy
from mcpagent.permissions.rule_matching import forbids, permits, rule_of
from mcpagent.run.agent_run import AgentRun, RunContext
from mcpagent.search import SearchHistory, ToolIndex
from mcpagent.toolsets.composition import (
    approval_required,
    combined,
    dynamic,
    external,
    filtered,
    prefixed,
    prepared,
    renamed,
    wrapped,
)
from mcpagent.values.approval import call_fingerprint
from mcpagent.values.messages import ToolCall, ToolKey, ToolResult, load_messages
from tests.scenes import call, offered, results
from tests.tables import each_row

NAMES = ("read", "delete", "list_all", "write")
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


# -- stacks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    """Tools of one source: a server, a toolset with an ID, or functions without one."""

    number: int
    names: tuple[str, ...]
    server: str | None = None
    identity: str = ""
    in_runs_only: bool = False

    def token(self, name: str) -> str:
        return f"leaf{self.number} {name}"


@dataclass(frozen=True)
class Operation:
    """One operation of the algebra on stacks; `value` is its prefix, or chooses what it does."""

    kind: str
    inside: tuple[Stack, ...]
    value: str = ""


Stack: TypeAlias = Leaf | Operation
ProviderResult: TypeAlias = list[str]
Place = TypeVar("Place")


class OwnToolset:
    """A toolset class of a user's own, with an ID."""

    def __init__(self, tools: list[Tool], identity: str) -> None:
        self._tools, self.id = tools, identity

    async def tools(self) -> list[Tool]:
        return self._tools

    async def __aenter__(self) -> OwnToolset:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


def tool_of(leaf: Leaf, name: str, ran: ProviderResult) -> Tool:
    async def run(_arguments: dict[str, Any]) -> ToolOutput:
        ran.append(leaf.token(name))
        return ToolOutput.of_text(leaf.token(name))

    return Tool(ToolDefinition(name, leaf.token(name), SCHEMA, server=leaf.server, original_name=name), run)


def of_leaf(leaf: Leaf, ran: ProviderResult) -> Any:
    tools = [tool_of(leaf, name, ran) for name in leaf.names]
    source: Any = FunctionToolset(tools, id=leaf.identity) if leaf.number % 2 else OwnToolset(tools, leaf.identity)
    return dynamic(lambda context: source) if leaf.in_runs_only else source


async def through(definition: ToolDefinition, arguments: dict[str, Any], run: Any) -> ToolOutput:
    output: ToolOutput = await run(arguments)
    return output


def marked(source: Any, mark: str, ran: ProviderResult) -> Any:
    """The source with a mark behind each token, so that two forms of one tool can be told apart."""

    async def mark_output(definition: ToolDefinition, arguments: dict[str, Any], run: Any) -> ToolOutput:
        await run(arguments)
        ran[-1] += f"#{mark}"
        return ToolOutput.of_text(ran[-1])

    def mark_description(context: RunContext[Any], found: list[ToolDefinition]) -> list[ToolDefinition]:
        return [replace(one, description=f"{one.description}#{mark}") for one in found]

    return wrapped(prepared(source, mark_description), mark_output)


async def built(stack: Stack, ran: ProviderResult) -> Any:
    """The toolset of a stack, built in a run, since operations go by what is listed; `ConfigError` if tools clash."""
    if isinstance(stack, Leaf):
        return of_leaf(stack, ran)
    inside = [await built(one, ran) for one in stack.inside]
    source = inside[0]
    listed = sorted({tool.name for tool in await source.tools()})
    made: dict[str, Callable[[], Any]] = {
        "prefix": lambda: prefixed(source, stack.value),
        "rename": lambda: renamed(source, {f"{stack.value}_{listed[0]}": listed[0]} if listed else {}),
        "swap": lambda: renamed(source, {listed[0]: listed[-1], listed[-1]: listed[0]} if len(listed) > 1 else {}),
        "hide": lambda: filtered(source, lambda context, it: it.original_name != stack.value),
        "wrap": lambda: wrapped(source, through),
        "prepare": lambda: prepared(source, lambda context, found: [replace(one, title=stack.value) for one in found]),
        "approve": lambda: approval_required(source, lambda context, definition, arguments: False),
        "combine": lambda: combined(*inside),
        "twice": lambda: combined(*(prefixed(marked(source, mark, ran), f"{stack.value}{mark}") for mark in "12")),
        "dynamic": lambda: dynamic(lambda context: source),
    }
    toolset = made[stack.kind]()
    await toolset.tools()
    return toolset


ONE_INSIDE = ("prefix", "rename", "swap", "hide", "wrap", "prepare", "approve", "twice", "dynamic")
PREFIXES = ("a", "b", "c")


def random_leaf(chance: Random, number: int) -> Leaf:
    names = tuple(sorted(chance.sample(NAMES, chance.randint(1, 3))))
    runs_only = chance.random() < 0.2
    match chance.choice(("server", "with ID", "without ID")):
        case "server":
            return Leaf(number, names, server=chance.choice(("fs", "db")), in_runs_only=runs_only)
        case "with ID":
            return Leaf(number, names, identity=f"crm{number}", in_runs_only=runs_only)
        case _:
            return Leaf(number, names, in_runs_only=runs_only)


def random_stack(chance: Random, numbers: list[int], depth: int) -> Stack:
    if depth == 0 or chance.random() < 0.15:
        numbers[0] += 1
        return random_leaf(chance, numbers[0])
    if chance.random() < 0.45:
        inside = tuple(random_stack(chance, numbers, depth - 1) for _ in range(2))
        return Operation("combine", inside)
    kind = chance.choice(ONE_INSIDE)
    value = chance.choice(NAMES if kind == "hide" else PREFIXES)
    return Operation(kind, (random_stack(chance, numbers, depth - 1),), value)


def changed(stack: Stack, chance: Random) -> Stack:
    """The same leaves configured in another way: prefixes swapped, renamed, hidden, replaced by others like them."""
    if isinstance(stack, Leaf):
        if chance.random() < 0.15:  # another source with the same function names
            return replace(stack, number=stack.number + 100, identity=f"other{stack.number}" if stack.identity else "")
        return stack
    inside = tuple(changed(one, chance) for one in stack.inside)
    if stack.kind == "combine" and chance.random() < 0.3:
        inside = inside[::-1]
    if len(inside) == 1 and stack.kind != "twice" and chance.random() < 0.15:
        return inside[0]
    value = stack.value
    if stack.kind in ("prefix", "rename", "twice") and chance.random() < 0.5:
        value = PREFIXES[(PREFIXES.index(value) + 1) % len(PREFIXES)]
    now = Operation(stack.kind, inside, value)
    return Operation("swap", (now,)) if chance.random() < 0.2 else now


@dataclass
class Scene:
    """A stack as an agent has it: the toolset, what its tools were run for, and which tools it lists in a run."""

    stack: Stack
    ran: ProviderResult
    toolset: Any
    listed: dict[tuple[str | None, str], str]

    @property
    def identities(self) -> dict[str, tuple[str | None, str, str]]:
        """Identity by token, worked out from the leaves: ID of the source and name, else the listed name too."""
        own = {leaf.token(name): (leaf.server or leaf.identity or None, name) for leaf, name in names_of(self.stack)}
        often = Counter(own[token.partition("#")[0]] for token in self.listed.values())
        found: dict[str, tuple[str | None, str, str]] = {}
        for (_, shown), token in self.listed.items():
            source, name = own[token.partition("#")[0]]
            is_sure = source is not None and often[source, name] == 1
            found[token] = (source, name, "" if is_sure else shown)
        assert len(set(found.values())) == len(self.listed)
        return found

    def meaning(self, other: Scene, meant: dict[Place, str]) -> dict[Place, str | None]:
        """For each name of the other scene, the token of the tool that it means in this one; None if there is none."""
        here = {identity: token for token, identity in self.identities.items()}
        return {place: here.get(other.identities[token]) for place, token in meant.items()}


def names_of(stack: Stack) -> Iterator[tuple[Leaf, str]]:
    """Each name of each leaf."""
    if isinstance(stack, Leaf):
        yield from ((stack, name) for name in stack.names)
    else:
        for one in stack.inside:
            yield from names_of(one)


async def scene_of(stack: Stack) -> Scene | None:
    """The scene; None if the algebra refuses the stack with an error that names both tools."""
    ran: ProviderResult = []
    with AgentRun(RunContext(None, run_id="listing")).entered():
        try:
            toolset = await built(stack, ran)
            definitions = [tool.definition for tool in await toolset.tools()]
        except ConfigError:
            return None
    listed = {(it.server or it.source, it.name): it.description for it in definitions}
    assert len(listed) == len(definitions)
    return Scene(stack, ran, toolset, listed)


async def stacks(count: int, seed: int) -> list[tuple[Scene, Scene]]:
    """So many stacks, each with another configuration of its leaves; those that the algebra refuses are passed over."""
    found: list[tuple[Scene, Scene]] = []
    while len(found) < count:
        seed += 1
        chance = Random(seed)
        one = random_stack(chance, [0], 4)
        scene, other = await scene_of(one), await scene_of(changed(one, chance))
        if scene is not None and other is not None and scene.listed and other.listed:
            found.append((scene, other))
    return found


# -- the checks -------------------------------------------------------------------------------------------------------

BY_NAME = ToolSearch(on_direct_call="run")


async def asked(session: Session[Any], model_calls: list[ToolCall], script: list[Any]) -> list[ToolResult]:
    """The results of these calls, made in one message."""
    script += [model_calls, "done"]
    before = len(results(session.messages))
    await session.ask("call them")
    return results(session.messages)[before:]


class Growing(ScriptedModel):
    """A model that says what is put into `script`."""

    def __init__(self, script: list[Any]) -> None:
        super().__init__([])
        self._replies = script


async def check_each_tool_is_reached(session: Session[Any], scene: Scene, script: list[Any]) -> None:
    """Calls every tool that the session knows: each runs the code of its own definition, and every listed one runs."""
    known = {name: tool.definition.description for name, tool in session._runtime.tools.known.items()}
    scene.ran.clear()
    found = await asked(session, [ToolCall(name, name, {}) for name in known], script)
    assert [(one.name, one.text) for one in found] == list(known.items())
    assert sorted(scene.ran) == sorted(known.values()) == sorted(scene.listed.values())


async def check_direct(scene: Scene) -> None:
    script: list[Any] = ["hello"]
    async with Agent(Growing(script), tools=[scene.toolset], tool_search=BY_NAME) as agent:
        session = agent.session()
        await session.ask("hello")
        await check_each_tool_is_reached(session, scene, script)


IMPORT = re.compile(r"^from tools\.(\w+) import (.+)$", re.MULTILINE)
STUB = re.compile(r'^async def (\w+)\(.*\n\s+"""(leaf\d+ [\w#]+)', re.MULTILINE)


def importable(shown: str) -> dict[tuple[str, str], str]:
    """Token by module and function, as a model reads the answer of a search."""
    found: dict[tuple[str, str], str] = {}
    places = [(match.start(), match[1], match[2].split(", ")) for match in IMPORT.finditer(shown)]
    for (start, module, functions), end in zip(places, [*(at for at, *_ in places[1:]), len(shown)], strict=True):
        tokens = dict(STUB.findall(shown[start:end]))
        found |= {(module, function): tokens[function] for function in functions}
    return found


def program(places: Iterable[tuple[str, str]]) -> ToolCall:
    lines = [
        f"from tools.{module} import {name} as f{at}\nprint(await f{at}())" for at, (module, name) in enumerate(places)
    ]
    return ToolCall("", "run_code", {"code": "\n".join(lines)})


async def check_programs(scene: Scene, other: Scene) -> None:
    """Calls every tool from a program; then goes on with the history in another scene, and imports the same names."""
    script: list[Any] = ["hello"]
    async with Agent(Growing(script), tools=[scene.toolset], code_mode=CodeMode()) as agent:
        session = agent.session()
        await session.ask("hello")
        query = f"select:{','.join(session._runtime.tools.known)}"
        [shown] = await asked(session, [ToolCall("", "search_tools", {"query": query})], script)
        places = importable(shown.text)
        assert sorted(places.values()) == sorted(scene.listed.values())
        scene.ran.clear()
        [ended] = await asked(session, [program(places)], script)
        assert ended.text.splitlines() == scene.ran == list(places.values())
        history = json.loads(json.dumps(dump_messages(session.messages)))
    script = ["hello"]
    async with Agent(Growing(script), tools=[other.toolset], code_mode=CodeMode()) as agent:
        session = agent.session(messages=load_messages(history))
        await session.ask("hello")
        for place, token in other.meaning(scene, places).items():
            other.ran.clear()
            [ended] = await asked(session, [program([place])], script)
            assert other.ran == ([] if token is None else [token]), (place, ended.text)
            assert (ended.error is None) == (token is not None)


async def found_history(scene: Scene) -> tuple[list[Any], dict[str, str]]:
    """A history in which some tools were added and others only shown, as JSON; and what each name meant in it."""
    script: list[Any] = ["hello"]
    async with Agent(Growing(script), tools=[scene.toolset], tool_search=ToolSearch()) as agent:
        session = agent.session()
        await session.ask("hello")
        meant = {name: tool.definition.description for name, tool in session._runtime.tools.known.items()}
        names = sorted(meant)
        search = ToolCall("s", "search_tools", {"query": f"select:{','.join(names)}"})
        script += [[search], [ToolCall("a", "add_tool", {"tool_names": names[::2]})], "done"]
        await session.ask("find them")
        shown = set(session._runtime.tools.conversation.discovery.shown)
        return json.loads(json.dumps(dump_messages(session.messages))), {n: meant[n] for n in names if n in shown}


async def check_history(scene: Scene, other: Scene) -> None:
    """Goes on with the history of a scene in another one: a name means what it meant, or nothing."""
    history, meant = await found_history(scene)
    script: list[Any] = ["hello"]
    model = Growing(script)
    async with Agent(model, tools=[other.toolset], tool_search=BY_NAME) as agent:
        session = agent.session(messages=load_messages(history))
        await session.ask("hello")
        known = {name: tool.definition.description for name, tool in session._runtime.tools.known.items()}
        assert {name: known.get(name) for name in meant} == other.meaning(scene, meant)
        gone = [name for name in meant if name not in known]
        assert not set(gone) & {name for request in model.requests for name in offered(request)}
        other.ran.clear()
        refused = await asked(session, [ToolCall(name, name, {}) for name in gone], script) if gone else []
        assert [one.error for one in refused] == ["unknown_tool"] * len(gone)
        assert all(f'There is no tool "{one.name}"' in one.text for one in refused)
        assert other.ran == []
        await check_each_tool_is_reached(session, other, script)


async def check(count: int, programs: int, seed: int) -> None:
    for number, (scene, other) in enumerate(await stacks(count, seed)):
        try:
            await check_direct(scene)
            await check_history(scene, other)
            if number < programs:
                await check_programs(scene, other)
        except BaseException as error:
            error.add_note(f"stack {number}: {scene.stack}\nother: {other.stack}")
            raise


async def test_a_few_stacks_run_the_tool_that_is_meant() -> None:
    await check(5, programs=1, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
async def test_150_stacks_run_the_tool_that_is_meant(part: int) -> None:
    await check(15, programs=15, seed=10_000 * part)


# -- single rules -----------------------------------------------------------------------------------------------------


def deletes(what: str, ran: ProviderResult) -> Callable[[], str]:
    def delete() -> str:
        """Deletes it."""
        ran.append(what)
        return f"deleted {what}"

    return delete


async def history_with(tools: Any, *names: str) -> list[Any]:
    """A history, as JSON, in which tools of these names were found and added."""
    script: list[Any] = [[ToolCall("a", "add_tool", {"tool_names": [*names]})], "added"]
    async with Agent(Growing(script), tools=[tools], tool_search=ToolSearch()) as agent:
        session = agent.session()
        await session.ask("find")
        assert list(session.discovered_tools) == [*names]
        return dump_messages(session.messages)


async def test_another_function_of_that_name_is_neither_offered_nor_run_and_a_person_sees_which_one_runs() -> None:
    ran: ProviderResult = []
    history = await history_with(renamed([deletes("draft", ran)], {"delete_draft": "delete"}), "delete_draft")
    account = renamed([deletes("account", ran)], {"delete_account": "delete"})
    model = ScriptedModel([call("delete_draft"), call("delete"), "none", call("delete_account"), "done"])
    async with Agent(model, tools=[account], tool_search=BY_NAME, approval=ApprovalPolicy(required=True)) as agent:
        session = agent.session(messages=load_messages(history))
        await session.ask("delete the draft")
        draft, bare = results(session.messages)[-2:]
        assert draft.text.startswith('There is no tool "delete_draft"')
        assert (draft.error, bare.error, ran) == ("unknown_tool", "unknown_tool", [])
        with pytest.raises(CallsPendingError) as waiting:
            await session.ask("delete the account")
        [request] = waiting.value.requests
        assert request.tool == "delete_account"
        await session.resume([request.approve()])
    assert ran == ["account"]
    assert all("delete_draft" not in offered(request) for request in model.requests)


@each_row(
    "now, runs",
    [
        (lambda drafts, _: [drafts], "draft"),
        (lambda drafts, _: [prefixed(drafts, "my")], "draft"),
        (lambda drafts, accounts: [prefixed(drafts, "my"), renamed(accounts, {"delete_draft": "delete"})], "draft"),
        (lambda _, accounts: [renamed(accounts, {"delete_draft": "delete"})], ""),
    ],
)
async def test_a_toolset_with_an_id_keeps_its_tools_under_any_name(now: Callable[..., list[Any]], runs: str) -> None:
    ran: ProviderResult = []
    drafts = FunctionToolset([deletes("draft", ran)], id="drafts")
    accounts = FunctionToolset([deletes("account", ran)], id="accounts")
    history = await history_with(renamed(drafts, {"delete_draft": "delete"}), "delete_draft")
    model = ScriptedModel([call("delete_draft"), "done"])
    async with Agent(model, tools=now(drafts, accounts), tool_search=BY_NAME) as agent:
        session = agent.session(messages=load_messages(history))
        await session.ask("go on")
        assert [name for name in session.discovered_tools if name == "delete_draft"] == ["delete_draft"] * bool(runs)
    assert ran == ([runs] if runs else [])


@each_row("written", ["delete_draft", "Delete-Draft", "deleteDraft"])
async def test_a_lost_name_stays_lost_in_any_spelling(written: str) -> None:
    ran: ProviderResult = []
    history = await history_with(FunctionToolset([deletes("draft", ran)], id="drafts"), "delete")
    again = renamed([deletes("other", ran)], {"delete_draft": "delete"})
    history += await history_with(renamed([deletes("draft", ran)], {"delete_draft": "delete"}), "delete_draft")
    other = renamed(FunctionToolset([deletes("account", ran)], id="accounts"), {"delete_draft": "delete"})
    for tools, runs in ((again, ["other"]), (other, ["other"])):
        async with Agent(ScriptedModel([call(written), "done"]), tools=[tools], tool_search=BY_NAME) as agent:
            await agent.session(messages=load_messages(history)).ask("go on")
        assert ran == runs


async def test_what_a_caller_runs_has_an_id_too() -> None:
    [tool] = await combined(external([ToolDefinition("ask", "", SCHEMA)], id="person")).tools()
    assert tool.definition.key == ToolKey("person", "ask")


def old(history: list[Any]) -> list[Any]:
    """The history as it was stored before keys had a source: by server and original name."""
    parts = [part for message in history for part in message["parts"]]
    for part in parts:
        for definition in part.get("added", ()):
            del definition["source"], definition["listed"]
        if "keys" in part:
            part["keys"] = [key[:2] for key in part["keys"]]
    return history


OLD = Leaf(1, ("read",))
OLD_SERVER = Leaf(2, ("read",), server="fs")


@each_row("is_shown", [True, False])
@each_row(
    "before, now, name, is_known",
    [
        (OLD, OLD, "read", True),
        (OLD_SERVER, OLD_SERVER, "read", True),
        (OLD_SERVER, Operation("prefix", (OLD_SERVER,), "a"), "read", True),
        (Operation("prefix", (OLD,), "a"), Operation("prefix", (OLD,), "a"), "a_read", True),
        (Operation("prefix", (OLD,), "a"), Operation("prefix", (OLD,), "b"), "a_read", False),
        (Operation("prefix", (OLD,), "a"), OLD, "a_read", False),
        (OLD, Operation("prefix", (OLD,), "a"), "read", False),
        (OLD, replace(OLD, identity="crm"), "read", False),
        (OLD, OLD_SERVER, "read", False),
        (OLD_SERVER, replace(OLD_SERVER, server="db"), "read", False),
    ],
)
async def test_an_old_history_means_a_tool_only_if_that_is_certain(
    before: Stack, now: Stack, name: str, is_known: bool, is_shown: bool
) -> None:
    ran: ProviderResult = []
    history = old(await history_with(await built(before, []), name))
    if is_shown:
        script: list[Any] = [[ToolCall("s", "search_tools", {"query": f"select:{name}"})], "seen"]
        async with Agent(Growing(script), tools=[await built(before, [])], tool_search=ToolSearch()) as agent:
            await agent.ask("look")
            history = old(dump_messages(agent.messages))
    async with Agent(ScriptedModel([call(name), "done"]), tools=[await built(now, ran)], tool_search=BY_NAME) as agent:
        session = agent.session(messages=load_messages(history))
        await session.ask("go on")
        assert (name in session._runtime.tools.known) == is_known
    assert bool(ran) == is_known


async def test_a_function_that_gave_way_to_a_name_of_the_history_is_found_again() -> None:
    """The history has the plain name for a server's tool, so the function has a longer one in this conversation."""
    ran: ProviderResult = []
    history = await history_with(await built(OLD_SERVER, []), "read")
    name = ""
    for number in range(2):
        script: list[Any] = ["hello"]
        async with Agent(Growing(script), tools=[await built(OLD, ran)], tool_search=BY_NAME) as agent:
            session = agent.session(messages=load_messages(history))
            await session.ask("hello")
            [known] = session._runtime.tools.known
            assert known == (name or known) != "read"
            [result] = await asked(session, [ToolCall("c", known, {})], script)
            assert (result.text, len(ran)) == (OLD.token("read"), number + 1)
            name, history = known, dump_messages(session.messages)


def test_which_tools_were_known_is_stored_by_source() -> None:
    keys = {ToolKey("fs", "read"), ToolKey("fs", "read", "a_read"), ToolKey(None, "read", "read")}
    keys |= {ToolKey(None, "read", "b_read"), ToolKey("crm", "read")}
    data = json.loads(json.dumps(KnownTools(keys=frozenset(keys)).to_json()))
    assert KnownTools.from_json(data) == KnownTools(keys=frozenset(keys))
    before = KnownTools.from_json({"": ["add"], "fs": ["read"]})
    assert before == KnownTools(keys=frozenset({ToolKey(None, "add", "add"), ToolKey("fs", "read")}))


def test_an_answer_is_for_the_tool_of_one_source() -> None:
    asked_for = ToolDefinition("delete", "Deletes it.", SCHEMA, original_name="delete", source="drafts")
    waiting = ToolCall("1", "delete", {})
    others = [replace(asked_for, source=source) for source in ("", "accounts")]
    others += [replace(asked_for, original_name="drop"), replace(asked_for, listed="other")]
    assert len({call_fingerprint(waiting, one) for one in (asked_for, *others)}) == 5


@each_row(
    "rule, tool, is_permitted",
    [
        ("delete", ToolDefinition("delete_account", "", {}, original_name="delete"), False),
        ("delete_account", ToolDefinition("delete_account", "", {}, original_name="delete"), True),
        ("crm.delete", ToolDefinition("delete_account", "", {}, original_name="delete", source="crm"), True),
        ("delete", ToolDefinition("delete", "", {}, original_name="delete", source="crm"), False),
        ("drafts.delete", ToolDefinition("delete", "", {}, original_name="delete", source="crm"), False),
    ],
)
def test_a_rule_permits_the_tool_of_one_identity(rule: str, tool: ToolDefinition, is_permitted: bool) -> None:
    assert permits(rule, tool) is is_permitted
    assert permits(rule_of(tool), tool)
    assert forbids("delete", tool)


async def test_preparing_a_definition_changes_no_identity() -> None:
    source = prepared(
        FunctionToolset([deletes("draft", [])], id="drafts"),
        lambda context, found: [replace(one, original_name="other", title="New") for one in found],
    )
    with AgentRun(RunContext(None, run_id="r")).entered():
        [tool] = await source.tools()
    assert (tool.definition.key, tool.definition.title) == (ToolKey("drafts", "delete"), "New")


def test_what_served_a_query_is_learned_of_one_source(tmp_path: Path) -> None:
    history = SearchHistory(tmp_path / "history.sqlite3")
    servers = ("mail", "archive", "tickets")
    tools = [ToolDefinition(f"{one}__erase", "Erase it.", SCHEMA, one, "erase") for one in servers]
    history.record("shred the papers", [], [tools[2].key])
    index = ToolIndex("bm25", history=SearchHistory(history.path))
    index.replace("all", tools)
    assert index.search("shred the papers").names == ("tickets__erase",)
    assert [use.tool for use in history.uses()] == [ToolKey("tickets", "erase")]
