"""What functions give, as a model reads it: tables, bytes, dates, sets, iterators and all that Python code returns."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import io
import ipaddress
import json
import os
import pathlib
import subprocess
import sys
import threading
import types
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr
from pydantic.dataclasses import dataclass as pydantic_dataclass

from mcpagent import Image, RunContext, Text, ToolContext, ToolOutput, ToolReturn, function_tool
from mcpagent.run.agent_run import AgentRun
from mcpagent.toolsets.function_results import MAX_DIGITS, MAX_ITEMS, MAX_TABLE_CHARACTERS, tool_output
from tests.tables import each_row
from tests.toolsets.frames import RealPackages, StandIns

PNG, JPEG, GIF, WEBP = b"\x89PNG\r\n\x1a\n\0\0", b"\xff\xd8\xff\xe0", b"GIF89a\1\0\x80", b"RIFF\x1a\0\0\0WEBPVP8 \xff"


def text_of(value: object) -> str:
    [part] = tool_output(value).content
    assert isinstance(part, Text)
    return part.text


def png(data: bytes = PNG) -> Image:
    [part] = tool_output(data).content
    assert isinstance(part, Image)
    return part


# -- plain values


class Unit(enum.Enum):
    CELSIUS = "celsius"


class Word(str, enum.Enum):  # noqa: UP042 - whose str() is not its value
    HELLO = "hello"


class Level(enum.IntEnum):
    HIGH = 3


class Place(BaseModel):
    city: str
    seen: datetime.date | None = None
    key: SecretStr = SecretStr("s3cret")
    extra: Any = None


class Pair(NamedTuple):
    left: int
    right: set[str]


@dataclasses.dataclass
class Trip:
    to: pathlib.PurePath
    tags: frozenset[str]


@pydantic_dataclass
class Leg:
    start: datetime.date


class Silent:
    """No words of its own."""


class Spoken:
    def __str__(self) -> str:
        return "spoken"


@each_row(
    "value, text",
    [
        (pathlib.PurePosixPath("/a/b c.txt"), "/a/b c.txt"),
        (datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC), "2026-01-02T03:04:00Z"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.time(3, 4), "03:04:00"),
        (datetime.timedelta(hours=1, minutes=30), "PT1H30M"),
        (decimal.Decimal("1.10"), "1.10"),
        (fractions.Fraction(1, 3), "1/3"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (ipaddress.ip_network("10.0.0.0/30"), "10.0.0.0/30"),
        (Unit.CELSIUS, "celsius"),
        (Word.HELLO, "hello"),
        (Level.HIGH, "3"),
        (True, "true"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        ([1.5, float("nan"), None], '[1.5,"NaN",null]'),
        ({"b", "a", "c"}, '["a","b","c"]'),
        (frozenset({3, 1, 2}), "[1,2,3]"),
        ({"k": {Unit.CELSIUS, Word.HELLO}}, '{"k":["celsius","hello"]}'),
        ({1: "one", None: 2, (1, 2): 3, Word.HELLO: 4, datetime.date(2026, 1, 2): 5},
         '{"1":"one","null":2,"[1,2]":3,"hello":4,"2026-01-02":5}'),
        (Pair(1, {"b", "a"}), '{"left":1,"right":["a","b"]}'),
        (Trip(pathlib.PurePosixPath("/x"), frozenset({"b", "a"})), '{"to":"/x","tags":["a","b"]}'),
        (Leg(datetime.date(2026, 1, 2)), '{"start":"2026-01-02"}'),
        (Place(city="Rome"), '{"city":"Rome","seen":null,"key":"**********","extra":null}'),
        ([Place(city="Rome", extra=range(2))], '[{"city":"Rome","seen":null,"key":"**********","extra":[0,1]}]'),
        (collections.deque([1, 2]), "[1,2]"),
        (collections.Counter("aab"), '{"a":2,"b":1}'),
        (types.MappingProxyType({"a": 1}), '{"a":1}'),
        ({"b": 1, "a": 2}.keys(), '["b","a"]'),
        (range(3), "[0,1,2]"),
        (ValueError("too late"), "too late"),
        (Spoken(), "spoken"),
        ([Silent(), Silent], '["<tests.toolsets.test_function_results.Silent object>",'
                             '"<class \'tests.toolsets.test_function_results.Silent\'>"]'),
        ("a\ud800b", "a?b"),
        (["é\ud800"], '["é?"]'),
        ({"k\ud800": float("nan")}, '{"k?":"NaN"}'),
        ({"words": Text("é\ud800")}, '{"words":"é?"}'),
        ({"place": Place(city="\ud800")}, '{"place":{"city":"?","seen":null,"key":"**********","extra":null}}'),
        ([], "[]"),
        ({"words": Text("said")}, '{"words":"said"}'),
    ],
)  # fmt: skip
def test_a_value_is_text_or_json(value: object, text: str) -> None:
    assert text_of(value) == text


def test_what_holds_itself_is_said_in_one_line() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(ValueError, match="holds itself, or nests too deeply; return plain data") as caught:
        tool_output(ring)
    assert "\n" not in str(caught.value)


def test_the_same_set_is_the_same_text_in_every_process() -> None:
    code = (
        "import collections, pydantic\n"
        "from mcpagent.toolsets.function_results import tool_output\n"
        "some = {'alpha', 'beta', 'gamma', 'delta'}\n"
        "Row = pydantic.create_model('Row', tags=(set[str], ...))\n"
        "Table = pydantic.create_model('Table', rows=(list[Row], ...), by=(dict[str, frozenset[str]], ...))\n"
        "table = Table(rows=[Row(tags=some)], by={'x': some})\n"
        "print(tool_output({'k': some, 'o': object(), 'q': collections.deque([some]), 't': table}).content[0].text)"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2)
    }
    some = '["alpha","beta","delta","gamma"]'
    table = f'{{"rows":[{{"tags":{some}}}],"by":{{"x":{some}}}}}'
    assert texts == {f'{{"k":{some},"o":"<object object>","q":[{some}],"t":{table}}}\n'}


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | st.decimals() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.dates(), inner)
        | st.sets(st.text() | st.integers())
        | inner.map(lambda item: iter([item]))
    ),
    max_leaves=20,
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(JSON_LIKE, min_size=1))
def test_whatever_is_nested_in_a_list_is_valid_json(value: list[Any]) -> None:
    parts = tool_output(value).content
    assert isinstance(parts[0], Text)
    assert len(json.loads(parts[0].text)) == len(value)
    assert all(isinstance(part, Image) for part in parts[1:])


# -- bytes


@each_row(
    "data, media_type",
    [(PNG, "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp"), (b"GIF87a\0", "image/gif")],
)
def test_bytes_of_an_image_are_that_image(data: bytes, media_type: str) -> None:
    import base64

    for value in (data, bytearray(data), memoryview(data)):
        assert tool_output(value).content == (Image(media_type, base64.b64encode(data).decode()),)


@each_row(
    "data, text",
    [
        ("Grüße,\n\tWelt".encode(), "Grüße,\n\tWelt"),
        (b"", ""),
        (b"\xff\xfe\0", "(3 bytes, not text)"),
        (b"\0", "(1 byte, not text)"),
        (b"\x1b[31mred", "(8 bytes, not text)"),
    ],
)
def test_other_bytes_are_text_or_counted(data: bytes, text: str) -> None:
    assert text_of(data) == text


def test_images_inside_of_data_follow_it() -> None:
    shown = Image("image/png", "aGk=")
    output = tool_output({"before": PNG, "after": [shown, "x"], "raw": b"\0\1"})
    assert output.content == (
        Text('{"before":"(image 1)","after":["(image 2)","x"],"raw":"(2 bytes, not text)"}'),
        png(),
        shown,
    )
    assert tool_output("(image 1)").content == (Text("(image 1)"),)
    assert tool_output(iter([Text("a"), shown])).content == (Text("a"), shown)


# -- iterators


def count_up() -> Iterator[int]:
    try:
        number = 0
        while True:
            yield number
            number += 1
    finally:
        closed.append("sync")


closed: list[str] = []


def test_an_iterator_is_read_and_one_without_an_end_is_cut_and_closed() -> None:
    closed.clear()
    assert text_of(iter(["a", "b"])) == '["a","b"]'
    assert text_of({"squares": (item * item for item in range(3))}) == '{"squares":[0,1,4]}'
    assert json.loads(text_of(item for item in range(MAX_ITEMS))) == list(range(MAX_ITEMS))
    items = json.loads(text_of(count_up()))
    assert items == [*range(MAX_ITEMS), "(and more: only the first 1,000 are shown)"]
    assert closed == ["sync"]
    assert json.loads(text_of(io.StringIO("line\n" * 2_000)))[-1] == "(and more: only the first 1,000 are shown)"
    assert len(json.loads(text_of(map(str, range(5_000))))) == MAX_ITEMS + 1


async def run(function: Callable[..., Any]) -> ToolOutput:
    with AgentRun(RunContext(None, ToolContext())).entered():
        return await function_tool(function, name="give").run({})


async def test_generators_of_functions_run_where_the_function_does() -> None:
    seen: list[str] = []

    def lines() -> Iterator[str]:
        seen.append(threading.current_thread().name)
        yield "one"

    async def later() -> AsyncIterator[int]:
        try:
            for number in range(2_000):
                yield number
        finally:
            closed.append("async")

    async def two() -> AsyncIterator[str]:
        yield "a"
        yield "b"

    assert (await run(lines)).content == (Text('["one"]'),)
    assert seen != [threading.current_thread().name]
    closed.clear()
    [part] = (await run(later)).content
    assert isinstance(part, Text)
    assert json.loads(part.text)[-2:] == [MAX_ITEMS - 1, "(and more: only the first 1,000 are shown)"]
    assert closed == ["async"]
    assert (await run(two)).content == (Text('["a","b"]'),)


async def test_a_sync_function_may_give_something_to_await() -> None:
    async def answer() -> int:
        return 7

    class Words:
        """An async iterator that cannot be closed."""

        def __init__(self) -> None:
            self.left = ["b", "a"]

        def __aiter__(self) -> Words:
            return self

        async def __anext__(self) -> str:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

    assert (await run(lambda: answer())).content == (Text("7"),)
    assert (await run(lambda: Words())).content == (Text('["a","b"]'),)


async def test_what_comes_with_a_result_is_kept() -> None:
    output = await run(lambda: ToolReturn({"b", "a"}, metadata={"rows": 2}))
    assert (output.content, output.metadata) == ((Text('["a","b"]'),), {"rows": 2})
    given = ToolOutput.of_text("as it is")
    assert (await run(lambda: given)) is given


# -- tables


@pytest.fixture(params=["stand-ins", pytest.param("packages", marks=pytest.mark.slow)])
def make(request: pytest.FixtureRequest) -> Any:
    if request.param == "stand-ins":
        return StandIns()
    for package in ("pandas", "polars", "pyarrow"):
        pytest.importorskip(package, reason="pip install -e '.[test,tables]'")
    return RealPackages()


def test_a_frame_is_its_size_and_csv(make: Any) -> None:
    data = {
        "city": ["Rome", 'Oslo, "N"', None],
        "people": [2.8, float("nan"), 0.7],
        "since": [datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 2, 3), datetime.datetime(2026, 1, 3)],
        "tags": [["a", "b"], [], None],
    }
    expected = (
        "3 rows, 4 columns\n"
        "city,people,since,tags\n"
        'Rome,2.8,2026-01-01,"[""a"",""b""]"\n'
        '"Oslo, ""N""",,2026-01-02T03:00:00,[]\n'
        ",0.7,2026-01-03,"
    )
    assert text_of(make.pandas_frame(data)) == expected
    for table in (make.polars_frame(data), make.polars_lazy(data), make.arrow_table(data)):
        assert text_of(table) == expected


def test_long_tables_are_cut_and_the_rest_is_counted(make: Any) -> None:
    data = {"n": list(range(101))}
    for table in (
        make.pandas_frame(data),
        make.polars_frame(data),
        make.arrow_table(data),
        make.polars_series("n", data["n"]),
    ):
        lines = text_of(table).splitlines()
        assert lines[:3] == ["101 rows, 1 column", "n", "0"]
        assert lines[-2:] == ["99", "and 1 more row"]
    wide = text_of(make.polars_frame({"words": ["x" * 1_000] * 3_000}))
    assert len(wide) < MAX_TABLE_CHARACTERS + 2_000
    assert wide.splitlines()[-1] == f"and {3_000 - (len(wide.splitlines()) - 3):,} more rows"


def test_the_index_of_a_pandas_frame_is_shown_where_it_says_something(make: Any) -> None:
    data = {"v": [1, 2]}
    assert text_of(make.pandas_frame(data)) == "2 rows, 1 column\nv\n1\n2"
    assert text_of(make.pandas_frame(data, [7, 9])) == "2 rows, 1 column\nv\n1\n2"
    assert text_of(make.pandas_frame(data, ["mean", "max"])) == "2 rows, 2 columns\nindex,v\nmean,1\nmax,2"
    assert text_of(make.pandas_frame(data, [7, 9], ["id"])) == "2 rows, 2 columns\nid,v\n7,1\n9,2"
    assert (
        text_of(make.pandas_frame(data, [("a", 1), ("b", 2)], ["x", None]))
        == "2 rows, 3 columns\nx,index,v\na,1,1\nb,2,2"
    )
    assert text_of(make.pandas_frame({("v", "sum"): [1], ("v", "max"): [2]})) == "1 row, 2 columns\nv sum,v max\n1,2"


def test_a_series_is_a_table_of_one_column(make: Any) -> None:
    assert text_of(make.pandas_series([1, 2])) == "2 rows, 1 column\nvalue\n1\n2"
    assert text_of(make.pandas_series([1, 2], ["a", "b"], "n")) == "2 rows, 2 columns\nindex,n\na,1\nb,2"
    assert text_of(make.polars_series("", [1, None])) == '2 rows, 1 column\nvalue\n1\n""'
    assert text_of(make.arrow_array([1, 2])) == "2 rows, 1 column\nvalue\n1\n2"


def test_missing_values_of_tables(make: Any) -> None:
    assert text_of(make.missing_int) == "null"
    assert text_of([make.missing_int]) == "[null]"


def test_a_table_inside_of_data_is_columns_and_rows(make: Any) -> None:
    data = {"a": [1.0, float("nan")], "b": [PNG, b"text"]}
    output = tool_output({"found": make.polars_frame(data), "n": 2})
    assert output.content == (
        Text('{"found":{"columns":["a","b"],"rows":[[1.0,"(image 1)"],[null,"text"]]},"n":2}'),
        png(),
    )
    cut = json.loads(text_of([make.polars_frame({"a": list(range(250))})]))
    assert cut[0]["more_rows"] == 150
    assert len(cut[0]["rows"]) == 100
    assert tool_output(make.polars_frame(data)).content == (Text("2 rows, 2 columns\na,b\n1.0,(image 1)\n,text"), png())


def test_csv_takes_fewer_characters_than_json_or_markdown_would() -> None:
    rows = [{"city": f"City {number}", "people": number * 1_000, "country": "Norway"} for number in range(50)]
    table = StandIns().polars_frame({key: [row[key] for row in rows] for key in rows[0]})
    markdown = "\n".join("| " + " | ".join(str(cell) for cell in row.values()) + " |" for row in rows)
    assert len(text_of(table)) < len(markdown) < len(text_of(rows))


# -- numpy


def test_numbers_and_arrays_of_numpy() -> None:
    np = pytest.importorskip("numpy", reason="needs mcpagent[semantic]")
    values: list[tuple[Any, str]] = [
        (np.int64(3), "3"),
        (np.float32(0.1), "0.1"),
        (np.float64("nan"), "NaN"),
        (np.longdouble(1.5), "1.5"),
        (np.bool_(True), "true"),
        (np.str_("hi"), "hi"),
        (np.bytes_(b"hi"), "hi"),
        (np.complex64(1 + 2j), "(1+2j)"),
        (np.datetime64("2026-01-01T00:00:00.5"), "2026-01-01T00:00:00.500"),
        (np.datetime64("NaT", "s"), "null"),
        (np.timedelta64(5, "s"), "5 seconds"),
        (np.array(3), "3"),
        (np.arange(6).reshape(2, 3), "[[0,1,2],[3,4,5]]"),
        (np.array(["2026-01-01"], dtype="datetime64[D]"), '["2026-01-01"]'),
        (np.array([{"a": {2, 1}}], dtype=object), '[{"a":[1,2]}]'),
        (np.ma.array([1, 2], mask=[False, True]), "[1,null]"),
        (np.zeros((0, 4)), "[]"),
        (np.array([(1, "a")], dtype=[("n", "i4"), ("s", "U3")]), "1 row, 2 columns\nn,s\n1,a"),
        (np.zeros((600, 2), dtype="uint8")[:0], "[]"),
        ({"mean": np.float64(0.5), np.int64(3): np.int8(1)}, '{"mean":0.5,"3":1}'),
    ]
    assert [text_of(value) for value, _ in values] == [text for _, text in values]


def test_a_large_array_is_its_shape_and_its_first_rows() -> None:
    np = pytest.importorskip("numpy", reason="needs mcpagent[semantic]")
    cut = json.loads(text_of(np.zeros((600, 2), dtype="uint8")))
    assert (cut["shape"], cut["dtype"], len(cut["first"])) == ([600, 2], "uint8", 500)
    assert text_of(np.zeros((480, 640, 3))) == '{"shape":[480,640,3],"dtype":"float64","first":[]}'
    assert json.loads(text_of(np.zeros((5_000, 0)))) == {"shape": [5000, 0], "dtype": "float64", "first": [[]] * 1_000}


def test_an_integer_that_python_does_not_write_is_described() -> None:
    """To write it takes quadratic time, which no thread can be kept from."""
    longest = 10 ** (MAX_DIGITS - 1)
    assert text_of(longest) == str(longest)
    told = "(an integer of about 1,000,001 digits)"
    assert text_of(10**1_000_000) == told
    assert text_of(-(10**1_000_000)) == told
    assert text_of({"sizes": [1, 10**1_000_000]}) == json.dumps({"sizes": [1, told]}, separators=(",", ":"))
