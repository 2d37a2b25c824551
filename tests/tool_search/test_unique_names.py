"""Offered names: injective, legal, stable, whatever the order."""

import random
import re
import time
from collections.abc import Iterable

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcpagent.search.words import name_key
from mcpagent.tool_search.unique_names import NameMap, collision_warnings, offered_names
from mcpagent.values.messages import ToolKey
from tests.reference_work import reference_seconds

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
RESERVED = frozenset({"search_tools", "add_tool"})


def listed(keys: Iterable[ToolKey]) -> dict[ToolKey, str]:
    """Each tool listed under the name that its source has for it."""
    return {key: key.name for key in keys}


_servers = st.one_of(st.none(), st.text(max_size=40))
_tools = st.one_of(
    st.text(max_size=90),
    st.sampled_from(["search", "get_file", "get-file", "a__b", "b", "b__c", "search_tools", "x" * 70, "x" * 71]),
)
_keys = st.sets(st.builds(ToolKey, _servers, _tools), max_size=20)


@settings(max_examples=60)
@given(_keys)
def test_names_are_injective_and_legal(keys: set[ToolKey]) -> None:
    names = offered_names(listed(keys), reserved=RESERVED)
    assert names.keys() == keys
    assert len(set(names.values())) == len(keys)
    assert all(LEGAL.fullmatch(name) for name in names.values())
    assert RESERVED.isdisjoint(names.values())


@settings(max_examples=50)
@given(_keys, st.randoms(use_true_random=False))
def test_the_order_of_tools_changes_nothing(keys: set[ToolKey], order: random.Random) -> None:
    shuffled = list(keys)
    order.shuffle(shuffled)
    in_order = offered_names(listed(sorted(keys, key=str)), reserved=RESERVED)
    assert offered_names(listed(shuffled), reserved=RESERVED) == in_order


@settings(max_examples=50)
@given(_keys, _keys)
def test_a_newcomer_never_renames_what_was_offered(first: set[ToolKey], later: set[ToolKey]) -> None:
    before = offered_names(listed(first), reserved=RESERVED)
    after = offered_names(listed(first | later), sticky=before, reserved=RESERVED)
    assert {key: after[key] for key in first} == before
    assert len(set(after.values())) == len(after)
    assert all(LEGAL.fullmatch(name) for name in after.values())


@settings(max_examples=50)
@given(_keys)
def test_every_offered_name_resolves_to_itself(keys: set[ToolKey]) -> None:
    names = offered_names(listed(keys))
    resolver = NameMap(names, listed(names))
    assert all(resolver.resolve(name) == name for name in names.values())


def test_a_plain_name_where_unique_else_the_servers_prefix() -> None:
    keys = [ToolKey("github", "search"), ToolKey("gitlab", "search"), ToolKey("github", "get_issue")]
    assert offered_names(listed(keys)) == {
        ToolKey("github", "search"): "github__search",
        ToolKey("gitlab", "search"): "gitlab__search",
        ToolKey("github", "get_issue"): "get_issue",
    }


def test_a_local_function_keeps_its_plain_name() -> None:
    names = offered_names(listed([ToolKey(None, "search"), ToolKey("github", "search")]))
    assert names == {ToolKey(None, "search"): "search", ToolKey("github", "search"): "github__search"}


def test_prefixes_that_collide_all_get_a_hash() -> None:
    keys = [ToolKey("a", "b__c"), ToolKey("a__b", "c"), ToolKey("x", "b__c"), ToolKey("y", "c")]
    names = offered_names(listed(keys))
    assert names[ToolKey("a", "b__c")].startswith("a__b__c_")
    assert names[ToolKey("a__b", "c")].startswith("a__b__c_")
    assert names[ToolKey("x", "b__c")] == "x__b__c"


def test_a_collision_is_told_once_with_all_its_members() -> None:
    names = offered_names(listed([ToolKey("a", "b__c"), ToolKey("a__b", "c"), ToolKey("x", "b__c"), ToolKey("y", "c")]))
    first, second = names[ToolKey("a", "b__c")], names[ToolKey("a__b", "c")]
    assert collision_warnings(names, listed(names)) == [
        f"Tool names collide after namespacing: a__b__c <- ('a', 'b__c'), ('a__b', 'c'); exposed as {first}, {second}"
    ]


def test_forms_in_other_styles_resolve_where_they_mean_one_tool() -> None:
    names = {
        ToolKey("weather", "get_weather"): "get_weather",
        ToolKey("a", "search"): "a__search",
        ToolKey("b", "search"): "b__search",
    }
    resolver = NameMap(names, listed(names))
    for form in ("get_weather", "GetWeather", "get-weather", "weather__get_weather", "weather.get_weather"):
        assert resolver.resolve(form) == "get_weather"
    assert resolver.resolve("a.search") == "a__search"
    assert resolver.resolve("search") is None
    assert resolver.candidates("search") == ("a__search", "b__search")
    assert resolver.resolve("") is None


@given(st.text(max_size=60))
@example("℡")
@example("weather.Ångström")
def test_folding_is_idempotent(name: str) -> None:
    assert name_key(name_key(name)) == name_key(name)


def test_names_without_end_are_found_by_what_they_are_offered_as_alone() -> None:
    keys = [ToolKey("s", "a" + "\u200b" * length) for length in range(0, 3_000, 10)]
    keys.append(ToolKey("s", "b" * 100_000))
    names = offered_names(listed(keys))
    found = NameMap(names, listed(names))
    started = time.thread_time()
    assert found.resolve("go") is None
    assert time.thread_time() - started < 60 * reference_seconds()
    assert found.resolve(names[keys[-1]]) == names[keys[-1]]
    assert found.resolve("b" * 100_000) is None
