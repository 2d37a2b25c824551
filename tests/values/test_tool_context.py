"""Shared state of toolsets: namespaces, snapshots, deltas, features, contexts per thread."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from mcpagent import Agent, ConfigError, InputError, function_tool
from mcpagent.models.scripted import ScriptedModel
from mcpagent.run.agent_run import RunContext, run_context
from mcpagent.toolsets.functions import FunctionToolset
from mcpagent.values.events import CustomEvent, Event, StateDelta, StateSnapshot
from mcpagent.values.tool_context import (
    FeatureNamespace,
    FeatureRegistry,
    StateChannel,
    ToolContext,
    ToolContextCache,
    prepare_context,
)
from mcpagent.values.tools import ToolReturn
from tests.scenes import call, results
from tests.tables import each_row


class Notes(BaseModel):
    count: int = 0
    titles: list[str] = []
    changed_at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    secret: str = Field(default="hidden", exclude=True)


class Filters(BaseModel):
    documents: list[str] = []
    limit: int = Field(default=5, ge=1, le=50)

    @field_validator("documents")
    @classmethod
    def no_empty(cls, value: list[str]) -> list[str]:
        if "" in value:
            raise ValueError("empty name")
        return value


class Both(BaseModel):
    low: int = 0
    high: int = 10

    @model_validator(mode="after")
    def ordered(self) -> Both:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


def two() -> tuple[ToolContext, Notes, Filters]:
    context, notes, filters = ToolContext(), Notes(), Filters()
    context.register("notes", notes)
    context.register("filters", filters, client_writable={"documents"})
    return context, notes, filters


# -- namespaces (H1)


def test_register_get_and_clear() -> None:
    context, notes, _ = two()
    assert context.namespaces == ["notes", "filters"]
    assert context.get("notes") is notes
    assert context.get("notes", Notes) is notes
    assert context.get("notes", Filters) is None
    assert context.get("nothing") is None
    assert context.get_or_create("notes", Notes) is notes
    replacement = Notes(count=3)
    context.register("notes", replacement)
    assert context.get("notes") is replacement
    context.clear_namespace("notes")
    context.clear_namespace("notes")
    assert context.namespaces == ["filters"]
    context.clear_all()
    assert context.namespaces == []
    assert context.get_or_create("notes", Notes).count == 0


@each_row(
    "act, words",
    [
        (lambda c: c.get_or_create("notes", Filters), 'namespace "notes" holds Notes, not Filters'),
        (lambda c: c.register("n", {"a": 1}), 'namespace "n": expected a pydantic model, got dict'),
        (lambda c: c.register("n", Both(), client_writable={"hi"}), "client_writable names hi; fields: low, high"),
        (lambda c: c.register("other", Notes()), 'namespaces "notes" and "other" both expose "changed_at"'),
    ],
)
def test_confusions_are_errors(act: Callable[[ToolContext], object], words: str) -> None:
    context, *_ = two()
    with pytest.raises(ConfigError) as caught:
        act(context)
    assert words in str(caught.value)
    assert context.namespaces == ["notes", "filters"]


def test_a_server_only_namespace_may_share_field_names() -> None:
    context, *_ = two()
    context.register("log", Notes(count=9), expose=False)
    assert context.build_state_snapshot()["count"] == 0
    assert context.dump_namespaces()["log"]["count"] == 9


# -- saving (H2)


@given(
    st.builds(
        Notes,
        count=st.integers(),
        titles=st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
        changed_at=st.datetimes(timezones=st.just(UTC)),
    )
)
def test_dump_and_load_give_the_same_through_json(notes: Notes) -> None:
    context = ToolContext()
    context.register("notes", notes)
    data = json.loads(json.dumps(context.dump_namespaces(), allow_nan=False))
    assert "secret" not in data["notes"]
    other = ToolContext()
    loaded = other.load_namespace("notes", Notes, data["notes"])
    assert loaded == notes
    assert other.dump_namespaces() == context.dump_namespaces()


def test_loading_what_does_not_fit_changes_nothing() -> None:
    context, notes, _ = two()
    with pytest.raises(InputError, match=r"notes\.count: Input should be a valid integer"):
        context.load_namespace("notes", Notes, {"count": "many"})
    assert context.get("notes") is notes


def test_loading_keeps_who_may_write() -> None:
    context, *_ = two()
    context.load_namespace("filters", Filters, {"documents": ["a"]})
    assert context.restore_state_snapshot({"documents": ["b"], "limit": 9}, untrusted=True) == ["documents"]


def test_nan_is_refused() -> None:
    class Score(BaseModel):
        model_config = ConfigDict(ser_json_inf_nan="constants")
        value: float = float("nan")

    context = ToolContext()
    context.register("score", Score())
    with pytest.raises(InputError, match='namespace "score": NaN and infinity are not JSON'):
        context.build_state_snapshot()


# -- snapshots (H3)


def test_the_snapshot_is_flat_and_restoring_is_partial_and_in_place() -> None:
    context, notes, filters = two()
    snapshot = context.build_state_snapshot()
    assert snapshot == {
        "count": 0,
        "titles": [],
        "changed_at": "2026-01-01T00:00:00Z",
        "documents": [],
        "limit": 5,
    }
    assert sorted(context.restore_state_snapshot({"count": 2, "documents": ["a"], "foreign": 1})) == [
        "count",
        "documents",
    ]
    assert (notes.count, filters.documents, filters.limit) == (2, ["a"], 5)
    assert context.get("notes") is notes
    assert type(notes.changed_at) is datetime


def test_a_restore_with_one_bad_value_changes_nothing() -> None:
    context, _, _ = two()
    before = context.dump_namespaces()
    with pytest.raises(InputError, match=r"state\.limit: .*; nothing was changed"):
        context.restore_state_snapshot({"count": 2, "limit": 99})
    assert context.dump_namespaces() == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from(["count", "titles", "documents", "limit", "low", "high", "x"]), JSON) | JSON)
def test_no_input_leaves_a_half_restored_state(data: Any) -> None:
    context, *_ = two()
    context.register("both", Both(low=3, high=5))
    before = context.dump_namespaces()
    try:
        changed = context.restore_state_snapshot(data)
    except InputError:
        assert context.dump_namespaces() == before
    else:
        assert set(changed) <= set(data)
        both = context.get("both", Both)
        assert both is not None
        assert both.low <= both.high


def test_validators_over_two_fields_see_both_new_values() -> None:
    context = ToolContext()
    both = Both()
    context.register("both", both)
    context.restore_state_snapshot({"low": 20, "high": 30})
    assert (both.low, both.high) == (20, 30)
    with pytest.raises(InputError, match="low is above high"):
        context.restore_state_snapshot({"low": 40})
    assert both.low == 20


def test_a_client_may_write_only_what_is_declared() -> None:
    context, notes, filters = two()
    context.state_key = "app"
    assert context.state.keys() == {"app"}
    assert context.receive({"app": {"documents": ["a"], "limit": 50, "titles": ["forged"]}, "other": 1}) == [
        "documents"
    ]
    assert context.receive({"documents": ["b"], "count": 7}) == ["documents"]
    assert (filters.documents, filters.limit, notes.titles, notes.count) == (["b"], 5, [], 0)
    assert context.receive(None) == []
    with pytest.raises(InputError, match="state: expected an object, got list"):
        context.receive([])


def test_aliases_are_the_names_on_the_wire() -> None:
    class Camel(BaseModel):
        page_size: int = Field(default=1, serialization_alias="pageSize", validation_alias="pageSize")

    context = ToolContext()
    state = Camel()
    context.register("camel", state)
    assert context.build_state_snapshot() == {"pageSize": 1}
    context.restore_state_snapshot({"pageSize": 4})
    assert state.page_size == 4


def test_update_by_namespace_is_all_or_nothing() -> None:
    context, notes, _ = two()
    assert context.update({"notes": {"count": 4}, "filters": {"limit": 6}}) == ["count", "limit"]
    wrong: Any
    for wrong in ({"notes": {"count": 5}, "filters": {"limit": 0}}, {"nope": {}}, {"notes": {"cuont": 1}}):
        with pytest.raises(InputError):
            context.update(wrong)
    assert notes.count == 4


# -- deltas

MUTATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("count"), st.integers(0, 3)),
        st.tuples(st.just("titles"), st.lists(st.text("ab/~", max_size=2), max_size=3)),
        st.tuples(st.just("documents"), st.lists(st.text("ab/~", min_size=1, max_size=2), max_size=3)),
    ),
    max_size=12,
)


@settings(max_examples=50, deadline=None)
@given(MUTATIONS)
def test_every_delta_brings_the_client_to_the_servers_state(mutations: list[tuple[str, Any]]) -> None:
    context, *_ = two()
    context.state_key = "app"
    channel = StateChannel(context)
    client = copy.deepcopy(channel.snapshot().state)
    for name, value in mutations:
        context.restore_state_snapshot({name: value})
        change = channel.changes()
        if change is not None:
            assert isinstance(change, StateDelta)
            client = jsonpatch.apply_patch(client, json.loads(json.dumps(change.patch)))
        assert client == context.state
        assert channel.changes() is None


def test_a_number_that_becomes_a_boolean_is_a_change() -> None:
    class Loose(BaseModel):
        value: Any = 1

    context = ToolContext()
    state = Loose()
    context.register("loose", state)
    channel = StateChannel(context)
    channel.snapshot()
    state.value = True
    change = channel.changes()
    assert change == StateDelta(({"op": "replace", "path": "/value", "value": True},))


def patched(state: Any, delta: StateDelta) -> Any:
    steps: Any = list(delta.patch)
    return jsonpatch.apply_patch(state, steps)


# -- features (H4)


def registry() -> FeatureRegistry:
    made = FeatureRegistry()
    filters = FeatureNamespace("filters", Filters, client_writable=frozenset({"documents"}))
    made.add("search", filters, FeatureNamespace("log", Notes, expose=False))
    made.add("qa", filters, FeatureNamespace("both", Both))
    made.add("documents")
    return made


def test_features_register_what_they_need_once() -> None:
    context = ToolContext()
    prepare_context(context, ["search", "documents"], "app", registry=registry())
    assert context.namespaces == ["filters", "log"]
    filters = context.get("filters")
    prepare_context(context, ["qa", "search"], registry=registry())
    assert context.namespaces == ["filters", "log", "both"]
    assert context.get("filters") is filters
    assert context.state_key == "app"
    assert context.restore_state_snapshot({"documents": ["a"], "limit": 7}, untrusted=True) == ["documents"]


def test_an_unknown_feature_names_the_known_ones_and_registers_nothing() -> None:
    context = ToolContext()
    with pytest.raises(ValueError, match='unknown feature "sarch"; known: documents, qa, search'):
        prepare_context(context, ["qa", "sarch"], registry=registry())
    assert context.namespaces == []
    with pytest.raises(ValueError, match=r'write \["qa"\]'):
        prepare_context(context, "qa", registry=registry())


# -- contexts per thread (H5)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_contexts_expire_unused_and_not_in_use() -> None:
    clock = Clock()
    cache = ToolContextCache(ttl_seconds=10, clock=clock)
    first, is_new = cache.get_or_create("a")
    assert is_new
    clock.now = 9
    assert cache.get_or_create("a") == (first, False)
    clock.now = 18
    with cache.using("a") as (used, _):
        assert used is first
        assert cache.in_use("a")
        clock.now = 100
        assert cache.get_or_create("a") == (first, False)
    assert not cache.in_use("a")
    clock.now = 109
    assert cache.get_or_create("a") == (first, False)
    clock.now = 119
    again, is_new = cache.get_or_create("a")
    assert is_new
    assert again is not first
    cache.remove("a")
    cache.remove("a")
    cache.get_or_create("b")
    cache.clear()
    assert len(cache) == 0


def test_the_longest_unused_context_goes_first_and_one_in_use_never() -> None:
    cache = ToolContextCache(max_size=2)
    kept, _ = cache.get_or_create("a")
    with cache.using("a"):
        for name in ("b", "c", "d"):
            cache.get_or_create(name)
        assert len(cache) == 2
        assert cache.get_or_create("a") == (kept, False)
        assert cache.get_or_create("d")[1] is False
        assert cache.get_or_create("b")[1] is True
    with pytest.raises(ConfigError):
        ToolContextCache(max_size=0)


# -- in tools


async def test_a_function_gets_the_run_and_the_model_never_sees_that_parameter() -> None:
    seen: list[RunContext[str]] = []

    async def whoami(context: RunContext[str], shout: bool = False) -> str:
        """Says who asks."""
        seen.append(context)
        return context.deps.upper() if shout else context.deps

    def in_a_thread(context: RunContext) -> str:
        assert run_context().deps == context.deps
        return f"thread of {context.deps}"

    model = ScriptedModel([[call("whoami", shout=True), call("in_a_thread")], "ok"])
    async with Agent(model, tools=[whoami, in_a_thread]) as agent:
        session = agent.session(deps="ann")
        await session.ask("go", deps="bob")
        assert [result.text for result in results(session.messages)] == ["BOB", "thread of bob"]
    assert model.requests[0].tools[1].parameters["properties"].keys() == {"shout"}
    [context] = seen
    assert (context.call_id, context.tool_name, context.approved) == ("call_whoami", "whoami", False)
    assert context.run_id
    assert context.thread_id
    assert context.messages[0].text == "go"


def test_the_context_must_come_first() -> None:
    def late(name: str, context: RunContext[None]) -> None: ...

    with pytest.raises(ConfigError, match='tool "late": RunContext must be the first parameter'):
        function_tool(late)


async def test_a_return_with_state_and_events() -> None:
    context = ToolContext("app")
    notes = Notes()
    context.register("notes", notes)

    def note(title: str) -> ToolReturn:
        return ToolReturn(
            f"noted {title}",
            state={"notes": {"count": notes.count + 1, "titles": [*notes.titles, title]}},
            events=(CustomEvent("noted", title),),
        )

    events: list[Event] = []
    model = ScriptedModel([call("note", title="milk"), "ok", "again"])
    async with Agent(model, tools=[note], on_event=events.append) as agent:
        session = agent.session(tool_context=context)
        await session.ask("go")
        await session.ask("more")
        assert results(session.messages)[0].text == "noted milk"
    assert (notes.count, notes.titles) == (1, ["milk"])
    assert CustomEvent("noted", "milk") in events
    states = [event for event in events if isinstance(event, StateSnapshot | StateDelta)]
    first, delta, second = states
    assert isinstance(first, StateSnapshot)
    assert isinstance(delta, StateDelta)
    assert isinstance(second, StateSnapshot)
    assert patched(first.state, delta) == second.state == context.state


async def test_state_that_does_not_fit_is_an_error_of_the_tool_and_changes_nothing() -> None:
    context, notes, _ = two()

    def note() -> ToolReturn:
        return ToolReturn("done", state={"notes": {"count": 1}, "filters": {"limit": 0}})

    model = ScriptedModel([call("note"), "ok"])
    async with Agent(model, tools=[note]) as agent:
        session = agent.session(tool_context=context)
        await session.ask("go")
        [result] = results(session.messages)
    assert result.error == "failed"
    assert "state.limit" in result.text
    assert notes.count == 0


async def test_state_made_during_a_run_begins_with_a_snapshot() -> None:
    def count(context: RunContext[None]) -> int:
        notes = context.tool_context.get_or_create("notes", Notes)
        notes.count += 1
        return notes.count

    events: list[Event] = []
    model = ScriptedModel([call("count"), "ok"])
    async with Agent(model, tools=[count], on_event=events.append) as agent:
        await agent.ask("go")
    [snapshot] = [event for event in events if isinstance(event, StateSnapshot | StateDelta)]
    assert isinstance(snapshot, StateSnapshot)
    assert snapshot.state["count"] == 1


async def test_one_toolset_serves_fifty_runs_at_once_without_cross_talk() -> None:
    gate = asyncio.Barrier(50)

    async def mine(context: RunContext[int], key: str) -> str:
        await gate.wait()
        notes = context.tool_context.get_or_create("notes", Notes)
        notes.count += context.deps
        await asyncio.sleep(0)
        return f"{key}:{context.deps}:{notes.count}"

    toolset = FunctionToolset([mine])

    async def one(number: int) -> str:
        model = ScriptedModel([call("mine", key=f"k{number}"), "ok"])
        async with Agent(model, tools=[toolset]) as agent:
            await agent.ask("go", deps=number, tool_context=ToolContext())
            return results(agent.messages)[0].text

    answers = await asyncio.wait_for(asyncio.gather(*(one(number) for number in range(50))), 30)
    assert answers == [f"k{number}:{number}:{number}" for number in range(50)]


def test_namespaces_of_another_process_wait_for_their_models_and_misfits_change_nothing() -> None:
    before = ToolContext()
    before.get_or_create("notes", Notes).count = 7
    stored = before.dump_namespaces()
    late = ToolContext()
    assert late.restore_namespaces(stored) == []
    assert late.get_or_create("notes", Notes).count == 7
    early = ToolContext()
    early.get_or_create("notes", Notes)
    assert early.restore_namespaces(stored) == []
    assert early.get_or_create("notes", Notes).count == 7
    [problem] = early.restore_namespaces({"notes": {"count": "many"}})
    assert problem.startswith('namespace "notes"')
    assert early.get_or_create("notes", Notes).count == 7
    misfit = ToolContext()
    assert misfit.restore_namespaces({"notes": {"count": "many"}}) == []
    assert misfit.get_or_create("notes", Notes) == Notes()
