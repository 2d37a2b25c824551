"""Stubs: what they say of a schema, that nothing in a definition breaks out of them, and the way back to the wire."""

from __future__ import annotations

import ast
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal, NotRequired

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from mcpagent import Agent, ScriptedModel, ToolCall
from mcpagent.code_mode.code_options import CodeMode
from mcpagent.code_mode.identifiers import BUILTINS, Places, identifier, identifiers
from mcpagent.code_mode.importable import result_schema
from mcpagent.code_mode.results import shape_of
from mcpagent.code_mode.sandbox import Sandbox
from mcpagent.code_mode.stubs import HEADER, Stub, stub_of
from mcpagent.code_mode.type_checks import Problem, certain
from mcpagent.models import ModelRequest
from mcpagent.toolsets.functions import function_tool
from mcpagent.values.messages import ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput
from tests.code_mode.values import some_arguments
from tests.tables import each_row
from tests.tool_search.test_catalog_real_servers import REAL, made_catalogues

pytestmark = pytest.mark.anyio


def stub(properties: dict[str, Any], *, required: tuple[str, ...] = (), **more: Any) -> Stub:
    about = {name: more.pop(name) for name in ("description", "output") if name in more}
    schema = {"type": "object", "properties": properties, "required": list(required), **more}
    return stub_of(ToolDefinition("do", about.get("description", ""), schema), "do", about.get("output"))


KINDS: list[tuple[dict[str, Any], str]] = [
    ({"type": "string"}, "str"),
    ({"type": "integer"}, "int"),
    ({"type": "number"}, "float"),
    ({"type": "boolean"}, "bool"),
    ({"type": "null"}, "None"),
    ({}, "Any"),
    ({"enum": ["a", "b"]}, "Literal['a', 'b']"),
    ({"enum": [1, None]}, "Literal[1, None]"),
    ({"enum": [1.5, 2]}, "float | int"),
    ({"const": "x"}, "Literal['x']"),
    ({"type": ["string", "null"]}, "str | None"),
    ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, "int | None"),
    ({"type": "array", "items": {"type": "string"}}, "list[str]"),
    ({"type": "array"}, "list[Any]"),
    ({"type": "object"}, "dict[str, Any]"),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
    ({"type": "object", "properties": {"a": {"type": "string"}}}, "DoValue"),
    ({"type": "array", "items": {"properties": {"a": {}}}}, "list[DoValue]"),
    ({"type": "what is this"}, "Any"),
    ({"$ref": "#/nowhere"}, "Any"),
    ({"$ref": "https://elsewhere.example/schema"}, "Any"),
    ({"allOf": [{"type": "string"}]}, "str"),
    ({"type": "object", "properties": {"a": {}}, "additionalProperties": {}}, "dict[str, Any]"),
    ({"type": "object", "properties": {"a": {}}, "patternProperties": {"^x": {}}}, "dict[str, Any]"),
    ({"type": "object", "properties": {"a": {}}, "allOf": [{"properties": {"b": {}}}]}, "dict[str, Any]"),
    ({"type": "object", "properties": {"a": {}}, "then": {"properties": {"b": {}}}}, "dict[str, Any]"),
    ({"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]}, "DoValue"),
    ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, "DoValue"),
    ({"$ref": "#/$defs/text", "properties": {"a": {}}}, "dict[str, Any]"),
    (
        {
            "type": "object",
            "patternProperties": {"^x": {"type": "integer"}},
            "additionalProperties": {"type": "string"},
        },
        "dict[str, Any]",
    ),
    ({"type": ["array"] * 9, "items": {"type": "string"}}, "list[str]"),
    ({"enum": [*range(99), "a"]}, "int | str"),
    # What a reference names.
    ({"$ref": "#/$defs/text"}, "str"),
    ({"$ref": "#/$defs/a%20b~1c"}, "bool"),
    ({"$ref": "#/$defs/either/anyOf/1"}, "int"),
    ({"$ref": "#/$defs/either/anyOf/2"}, "Any"),
    ({"$ref": "#text"}, "Any"),
    ({"$ref": "#/$defs/apart"}, "list[int]"),
    ({"$ref": "#/$defs/itself"}, "list[Any]"),
]
DEFINITIONS = {
    "text": {"$anchor": "text", "type": "string"},
    "a b/c": {"type": "boolean"},
    "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    "apart": {
        "$id": "https://elsewhere.example/apart",
        "type": "array",
        "items": {"$ref": "#/$defs/text"},
        "$defs": {"text": {"type": "integer"}},
    },
    "itself": {"type": "array", "items": {"$ref": "#/$defs/itself"}},
}


@each_row("schema, kind", KINDS)
def test_what_a_schema_is_in_python(schema: dict[str, Any], kind: str) -> None:
    shown = stub({"value": schema}, required=("value",), **{"$defs": DEFINITIONS})
    assert shown.signature == f"async def do(*, value: {kind}) -> Any"


DEFAULTS: list[tuple[dict[str, Any], Any, str]] = [
    ({"type": "integer"}, 10**400, "int = ..."),
    ({"type": "integer"}, 10**5_000, "int = ..."),
    ({"type": "number"}, float("inf"), "float = ..."),
    ({"type": "number"}, 3, "float = 3"),
    ({"type": ["integer", "null"]}, 3, "int | None = 3"),
    ({"type": "integer"}, True, "int = ..."),
    ({"enum": ["True"]}, True, "Literal['True'] = ..."),
    ({"enum": ["a", "b"]}, "', '", "Literal['a', 'b'] = ..."),
    ({"enum": ["a]", "b"]}, "b", "Literal['a]', 'b'] = 'b'"),
    ({"enum": [1, 2, None]}, 2, "Literal[1, 2, None] = 2"),
    ({"type": "string"}, "x" * 10_000, "str = ..."),
    ({"type": "array"}, [[[]]], "list[Any] = ..."),
]


@each_row("schema, default, shown", DEFAULTS)
def test_a_default_is_shown_where_it_can_be_written(schema: dict[str, Any], default: Any, shown: str) -> None:
    assert stub({"value": {**schema, "default": default}}).signature == f"async def do(*, value: {shown}) -> Any"


def test_a_default_however_deep_breaks_nothing() -> None:
    deep: list[Any] = []
    for _ in range(50_000):
        deep = [deep]
    assert stub({"value": {"default": deep}}).signature == "async def do(*, value: Any = ...) -> Any"


def unions(depth: int) -> dict[str, Any]:
    """Small as a value, very much if it is written out."""
    one: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        one = {"anyOf": [one] * 9}
    return one


def arrays(depth: int) -> dict[str, Any]:
    one: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        one = {"type": ["array", "object"] * 500, "items": one, "additionalProperties": one}
    return one


@each_row("schema", [unions(6), arrays(6), unions(200), {"allOf": [arrays(5)]}])
def test_what_stands_for_very_much_takes_little(schema: dict[str, Any]) -> None:
    aliases = {f"a{number}": {"$ref": "#/$defs/much"} for number in range(500)}
    given = {name: {"$ref": f"#/$defs/{name}"} for name in aliases}
    more: dict[str, Any] = {"$defs": {"much": schema, **aliases}}
    shown = stub({"one": schema, **given}, **more)
    assert len(shown.declared) < 2_000_000


FREER: list[dict[str, Any]] = [
    {"patternProperties": {"^x-": {}}, "additionalProperties": False},
    {"additionalProperties": {}},
    {"allOf": [{"$ref": "#/$defs/more"}]},
    {"if": {"required": ["a"]}, "then": {"properties": {"b": {}}}},
    {"dependentSchemas": {"a": {"properties": {"b": {}}}}},
    {"unevaluatedProperties": {"type": "string"}},
]


PARTS: list[tuple[dict[str, Any], str]] = [
    ({"oneOf": [{"properties": {"b": {"type": "string"}}}, {"properties": {"c": {}}}]}, "a: str, b: str | None = None, "
     "c: Any = ..."),
    ({"anyOf": [{"properties": {"b": {"type": kind}}, "required": ["b"]} for kind in ("string", "null")]},
     "a: str, b: str | None"),
    ({"allOf": [{"properties": {"b": {"type": "integer"}}, "required": ["b"]}]}, "a: str, b: int"),
    ({"anyOf": [{"required": ["a"]}]}, "a: str"),
]  # fmt: skip


@each_row("more, shown", PARTS)
def test_arguments_of_the_branches_of_a_schema_have_names_and_types(more: dict[str, Any], shown: str) -> None:
    made = stub({"a": {"type": "string"}}, required=("a",), **more)
    assert made.signature == f"async def do(*, {shown}) -> Any"


NULLS: list[tuple[dict[str, Any], str]] = [
    ({"anyOf": [{"enum": ["x", "y"]}, {"type": "null"}]}, "Literal['x', 'y'] | None = ..."),
    ({"type": "string", "nullable": True}, "str | None = ..."),
    ({"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}], "items": False, "nullable": True},
     "list[float | str] | None = ..."),
]  # fmt: skip


@each_row("schema, shown", NULLS)
def test_an_explicit_null_is_sent(schema: dict[str, Any], shown: str) -> None:
    made = stub({"a": schema})
    assert made.signature == f"async def do(*, a: {shown}) -> Any"
    assert made.wire_arguments({"a": None}) == {"a": None}


class Spot(TypedDict):
    """A place."""

    name: str
    kind: NotRequired[Literal["a", "b"]]


@dataclass
class Found:
    """Places with a total."""

    places: list[Spot]
    total: int | None


def find_spots() -> Found:
    """Find places."""
    return Found([], None)


def first_spot() -> Spot | None:
    """Find one place."""
    return None


async def spot_names() -> AsyncIterator[str]:
    """Return names one by one."""
    yield ""


RETURNS: list[tuple[Any, str]] = [(find_spots, "FResult"), (first_spot, "FSpot | None"), (spot_names, "Any")]


@each_row("function, kind", RETURNS)
def test_the_annotation_of_a_function_is_the_type_of_its_result(function: Any, kind: str) -> None:
    tool = function_tool(function)
    made = stub_of(tool.definition, "f", result_schema(tool))
    assert made.signature == f"async def f() -> {kind}"
    assert ("places: list[FSpot]" in made.declared) == (function is find_spots)


SHAPES: list[tuple[Any, str]] = [
    ([{"id": 1, "name": "a"}, {"id": 2, "name": None}], "list[{'id': int, 'name': str | None}]"),
    ([{"id": 1, "only": 2}, {"id": 2}], "list[{'id': int, ...}]"),
    ({"alice": 3, "bob": 5}, "dict[str, int]"),
    ({"total": 2, "rows": [{"x": 1}, {"x": 2}], "not a name": 1}, "{'total': int, 'rows': list[{'x': int}], ...}"),
    ({"Alice Smith": {"age": 3}, "Bob": {"age": 5}}, "dict[str, {'age': int}]"),
]


@each_row("value, shape", SHAPES)
def test_a_shape_has_fields_and_no_keys_that_are_data(value: Any, shape: str) -> None:
    assert shape_of(f"j{json.dumps(value)}") == shape


@each_row("more", FREER)
def test_what_other_keywords_allow_can_be_passed(more: dict[str, Any]) -> None:
    assert stub({"a": {"type": "string"}}, required=("a",), **more).signature == (
        "async def do(*, a: str, **arguments: Any) -> Any"
    )


def test_keys_of_one_type_and_what_is_required_without_words() -> None:
    extra = {"type": "integer"}
    assert stub({}, additionalProperties=extra).signature == "async def do(**arguments: int) -> Any"
    assert stub({"a": {}}, additionalProperties=False, anyOf=[{"required": ["a"]}]).signature.endswith(
        "*, a: Any = ...) -> Any"
    )
    inner = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]}
    assert stub({"v": inner}).classes == ("class DoV(TypedDict):\n    a: str\n    b: Any",)


def test_optional_arguments_have_their_defaults() -> None:
    shown = stub(
        {
            "q": {"type": "string"},
            "limit": {"type": "integer", "default": 30},
            "sort": {"enum": ["up", "down"], "default": "up"},
            "since": {"type": ["string", "null"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "odd": {"type": "integer", "default": "many"},
        },
        required=("q",),
    )
    assert shown.signature == (
        "async def do(*, q: str, limit: int = 30, sort: Literal['up', 'down'] = 'up', since: str | None = ..., "
        "tags: list[str] | None = None, odd: int = ...) -> Any"
    )
    assert shown.wire_arguments({"q": "a", "tags": None, "since": None}) == {"q": "a", "since": None}


def test_objects_within_objects_and_those_that_hold_themselves() -> None:
    node = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        "required": ["name"],
    }
    shown = stub({"tree": {"$ref": "#/$defs/node"}}, required=("tree",), **{"$defs": {"node": node}})
    assert shown.classes == ("class DoNode(TypedDict):\n    name: str\n    kids: NotRequired[list[DoNode] | None]",)
    assert shown.signature == "async def do(*, tree: DoNode) -> Any"


def test_names_that_are_no_identifiers_come_back_to_the_wire() -> None:
    shown = stub(
        {"per-page": {"type": "integer"}, "class": {}, "per_page": {}, "名": {}, "2d": {}}, required=("per-page",)
    )
    assert set(shown.keywords.values()) == {"per-page", "class", "per_page", "名", "2d"}
    assert all(name.isidentifier() for name in shown.keywords)
    assert shown.keywords["per_page"] == "per_page"
    assert shown.keywords["class_"] == "class"
    assert "per-page" in shown.description
    back = {keyword: number for number, keyword in enumerate(shown.keywords)}
    assert set(shown.wire_arguments(back)) == {"per-page", "class", "per_page", "名", "2d"}


def test_what_a_result_promises() -> None:
    output = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    shown = stub({}, output=output)
    assert shown.signature == "async def do() -> DoResult"
    assert shown.classes == ("class DoResult(TypedDict):\n    id: int",)


HOSTILE = (
    '"""\nimport os\n',
    "\\",
    '\\"""',
    "'''",
    "\u202e\u2066x",
    "a\x00b",
    "# \r\nx = 1",
    "{f!r}",
    "\ud800",
    '"' * 9,
)


@each_row("text", HOSTILE)
def test_nothing_of_a_definition_breaks_out(text: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            text: {"type": "string", "default": text, "description": text},
            "mode": {"enum": [text, "b"]},
            "deep": {"type": "object", "properties": {text: {"const": text}}, "title": text},
        },
        "required": [text],
    }
    shown = stub_of(ToolDefinition("do", text, schema), "do", {"properties": {text: {}}})
    for source in (shown.declared, shown.shown(), shown.shown("seen: {'a': int}")):
        tree = ast.parse(HEADER + source)
        assert {type(node).__name__ for node in tree.body} <= {"ImportFrom", "ClassDef", "AsyncFunctionDef", "Assign"}
        assert len([node for node in tree.body if isinstance(node, ast.AsyncFunctionDef)]) == 1
        assert not {"\u202e", "\x00"} & set(source)


names = st.one_of(
    st.text(max_size=80), st.sampled_from(["class", "None", "a-b", "a_b", "a.b", "list", "", "__x", "x_"])
)


@settings(max_examples=60)
@given(st.lists(names, unique=True, max_size=12))
def test_identifiers_are_legal_and_each_is_one_name(texts: list[str]) -> None:
    found = identifiers(texts, reserved=BUILTINS)
    assert list(found) == texts
    assert len(set(found.values())) == len(texts)
    for text, name in found.items():
        assert name.isascii()
        assert name.isidentifier()
        ast.parse(f"{name} = 1")
        assert name not in BUILTINS
        assert len(name) <= 62
        assert name == text or identifier(text) != text or text in BUILTINS
    assert identifiers(reversed(texts), reserved=BUILTINS) == found


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(["a", "b-c", "b_c", "functions", None]), names), unique=True, max_size=12))
def test_places_stay_whatever_joins(keys: list[tuple[str | None, str]]) -> None:
    tools = [ToolDefinition(name or "x", "", {}, server, name) for server, name in keys]
    places = Places()
    places.add(tools[: len(tools) // 2])
    before = dict(places.by_key)
    places.add(tools)
    assert before.items() <= places.by_key.items()
    assert len({place.path for place in places.by_key.values()}) == len(places.by_key)


def catalogues() -> dict[str, dict[str, Any]]:
    if not REAL.is_dir():
        return made_catalogues()
    loaded = (json.loads(Path(path).read_text("utf-8")) for path in sorted(REAL.glob("*.json")))
    return {item["server"]: item for item in loaded}


def definitions(server: str, catalogue: dict[str, Any]) -> list[ToolDefinition]:
    return [
        ToolDefinition(tool["name"], tool.get("description") or "", tool["inputSchema"], server, tool["name"])
        for tool in catalogue["tools"]
    ]


def as_source(value: Any) -> str:
    return ascii(value)


def calls_of(tools: list[ToolDefinition], places: Places, chance: Random) -> tuple[str, list[str]]:
    """A module's stub, and calls by it with random arguments, each of which comes back to these arguments: written as
    they are, and as variables."""
    declared, calls = [], []
    for tool in tools:
        name = places.by_key[tool.key].function
        shown = stub_of(tool, name)
        arguments = some_arguments(tool.parameters, tool.parameters, chance)
        keywords = {wire: keyword for keyword, wire in shown.keywords.items()}
        written = {keywords[wire]: value for wire, value in arguments.items()}
        kept = {
            wire: value
            for wire, value in arguments.items()
            if value is not None or keywords[wire] not in shown.droppable
        }
        assert shown.wire_arguments(json.loads(json.dumps(written))) == kept
        assert shown.class_names == tuple(dict.fromkeys(shown.class_names))
        ast.parse(shown.shown())
        declared.append(shown.declared)
        calls.append(f"await {name}({', '.join(f'{key}={as_source(value)}' for key, value in written.items())})")
        variables = "".join(f"v{place} = {as_source(value)}; " for place, value in enumerate(written.values()))
        calls.append(f"{variables}await {name}({', '.join(f'{key}=v{place}' for place, key in enumerate(written))})")
    return HEADER + "\n".join(declared) + "\n", calls


@settings(max_examples=20)
@given(st.randoms(use_true_random=False))
def test_a_call_by_the_stub_is_the_same_call_on_the_wire(chance: Random) -> None:
    server, catalogue = chance.choice(list(made_catalogues().items()))
    tools, places = definitions(server, catalogue)[:4], Places()
    places.add(tools)
    assert len(calls_of(tools, places, chance)[1]) == 8


async def certain_problems(sandbox: Sandbox, source: str, stubs: dict[str, str]) -> list[Problem]:
    """Return the problems that refuse a program."""

    async def check(text: str) -> list[Problem]:
        return await sandbox.check(text, stubs)

    return await certain(check, source, 0, await check(source), stubs)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_stubs_of_whole_catalogues_type_check_and_map_back(seed: int) -> None:
    """All 1,220 tools of the catalogues where these lie beside the repository: no false alarm, none lost."""
    chance, checked, alarms = Random(seed), 0, list[str]()
    for server, catalogue in catalogues().items():
        tools, places = definitions(server, catalogue), Places()
        places.add(tools)
        module = next(iter(places.by_key.values())).module
        text, calls = calls_of(tools, places, chance)
        names = ", ".join(place.function for place in places.by_key.values())
        source = "\n".join([f"from tools.{module} import {names}", *calls])
        async with Sandbox(CodeMode(seconds=60, memory_mb=512)) as sandbox:
            found = await certain_problems(sandbox, source, {module: text})
        alarms += [f"{server} {problem.message}: {source.splitlines()[problem.line - 1][:200]}" for problem in found]
        checked += len(tools)
    assert not alarms, "\n".join(alarms[:20])
    assert checked >= 1_000


EVIL = (
    *("class", "None", "self", "TypedDict", "NotRequired", "Literal", "Any", "str", "print", "call", "tools", "import"),
    *("a b", "a_b", "a-b", "", "_", "__init__", "1a", "\N{CYRILLIC SMALL LETTER A}", "\u202e", "\N{COMBINING TILDE}"),
    *('"', "'", "\\", "x\n):\n  import os", '"""', "]", "T", "TItem", "Item", "T_item", "Titem", "typed", "dict"),
    *("not", "required", "typed_dict", "not_required"),
)


def evil_schema(chance: Random, depth: int = 0) -> dict[str, Any]:
    kind = chance.choice(["string", "integer", "enum", "object", "array", "any"] if depth < 3 else ["string", "enum"])
    match kind:
        case "enum":
            return {"enum": [*chance.sample(EVIL, 3), chance.choice([1, True, None, 10**400, -(2**63)])]}
        case "object":
            names = chance.sample(EVIL, chance.randint(1, 5))
            schema = {name: evil_schema(chance, depth + 1) for name in names}
            return {"type": "object", "properties": schema, "required": chance.sample([*names, *EVIL], 2)}
        case "array":
            return {"type": "array", "items": evil_schema(chance, depth + 1)}
        case "any":
            return {}
        case _:
            return {"type": kind, "default": chance.choice(EVIL), "description": chance.choice(EVIL)}


def evil_tool(name: str, chance: Random) -> Tool:
    async def run(_arguments: dict[str, Any]) -> ToolOutput:
        return ToolOutput(())

    names = chance.sample(EVIL, 4)
    properties = {one: evil_schema(chance) for one in names}
    schema = {"type": "object", "properties": properties, "required": chance.sample([*names, *EVIL], 3)}
    result = {"type": "object", "properties": {chance.choice(EVIL): evil_schema(chance)}}
    return Tool(ToolDefinition(name, chance.choice(EVIL) * 3, schema, original_name=name), run, output_schema=result)


async def test_no_name_or_value_of_a_schema_breaks_a_module() -> None:
    """Whatever servers write, its stubs can be read, and nothing of them is in the way of another function."""
    for seed in range(6):
        chance = Random(seed)
        legal = ["typed", "not", "T", "TItem", "class", "print", "list_items", "ListItems", "ListItemsItem", "T_item"]
        tools = [evil_tool(name, chance) for name in chance.sample(legal, 6)]

        def imports(request: ModelRequest) -> ToolCall:
            shown = request.messages[-1].tool_results[0].text
            line = next(line for line in shown.splitlines() if line.startswith("from tools.functions import"))
            used = line.partition("import ")[2]
            return ToolCall("", "run_code", {"code": f"{line}\nprint(len([{used}]))"})

        query = f"select:{','.join(tool.name for tool in tools)}"
        model = ScriptedModel([ToolCall("", "search_tools", {"query": query}), imports, "done"])
        async with Agent(model, tools=tools, code_mode=True) as agent:
            await agent.ask("go")
            shown, ran = [one.text for message in agent.messages for one in message.tool_results]
        assert ran == "6", f"{seed}: {ran}\n{shown}"
        ast.parse(shown)


A_TEXT = {"type": "string"}
OBJECT = {"type": "object", "properties": {"a": A_TEXT}, "required": ["a"]}


def takes(name: str, *properties: str, kind: dict[str, Any] = OBJECT, required: tuple[str, ...] = ()) -> Tool:
    async def run(arguments: dict[str, Any]) -> ToolOutput:
        return ToolOutput.of_text(json.dumps(arguments, sort_keys=True))

    schema = {"type": "object", "properties": dict.fromkeys(properties, kind), "required": [*required, *properties]}
    return Tool(ToolDefinition(name, "", schema, original_name=name), run)


CLASHES: list[tuple[list[Tool], str, list[str]]] = [
    # What a class would be called is what stubs are written with, or a function of the same module.
    ([takes("typed", "dict"), takes("other", "x")], "typed(dict={'a': 'x'}) other(x={'a': '1'})", ["dict", "x"]),
    ([takes("not", "required"), takes("o", "x")], "not_(required={'a': 'x'}) o(x={'a': '1'})", ["required", "x"]),
    (
        [takes("list_issues", "filter"), takes("ListIssuesFilter", "q", kind=A_TEXT)],
        "list_issues(filter={'a':'1'}) ListIssuesFilter(q='x')",
        ["filter", "q"],
    ),
    # An argument that is required and not described has the name that another one would get.
    ([takes("t", "a b", kind=A_TEXT, required=("a_b",))], "t(a_b='x',a_b_c868='y')", ["a b"]),
    ([takes("big", "n", kind={"enum": [10**400, 1]})], "big(n=1)", ["n"]),
]


@each_row("tools, calls, sent", CLASHES)
async def test_names_that_clash_keep_their_types(tools: list[Tool], calls: str, sent: list[str]) -> None:
    names = ", ".join(call.partition("(")[0] for call in calls.split(") "))
    made = "\n".join(f"print(await {call.rstrip(')')})" + ")" for call in calls.split(") "))
    model = ScriptedModel(
        [
            ToolCall("", "search_tools", {"query": f"select:{','.join(tool.name for tool in tools)}"}),
            ToolCall("", "run_code", {"code": f"from tools.functions import {names}\n{made}"}),
            ToolCall("", "run_code", {"code": f"await {names.split(',')[0]}(nonsense=1)"}),
            "done",
        ]
    )
    async with Agent(model, tools=tools, code_mode=True) as agent:
        await agent.ask("go")
        _, ran, wrong = [one for message in agent.messages for one in message.tool_results]
    assert ran.error is None, ran.text
    assert [name in line for name, line in zip(sent, ran.text.splitlines(), strict=True)] == [True] * len(sent)
    assert "was not run" in wrong.text
