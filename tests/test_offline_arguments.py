"""How the offline model reads prompts: arguments from schemas of many shapes, dates, numbers, places, needs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent.models.offline.arguments import Filled, fill, fill_each
from mcpagent.models.offline.arithmetic import arithmetic
from mcpagent.models.offline.dates import find_dates, find_numbers, find_times
from mcpagent.models.offline.evidence import Evidence, split_payload
from mcpagent.models.offline.fitting import fits, matches_pattern, resolve
from mcpagent.models.offline.intent import need_of, search_query, small_talk, split_needs
from mcpagent.models.offline.signatures import schema_of_signature, search_results
from mcpagent.models.offline.zones import find_zones, zone_of
from mcpagent.validation import argument_problem

NOW = datetime(2026, 11, 22, 7, 30)
STRING: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
INTEGER: dict[str, Any] = {"type": "integer"}
ZONE = {**STRING, "description": "IANA timezone name (e.g. 'America/New_York')"}
LOCAL_ZONE = {**STRING, "description": "IANA timezone name. Use 'UTC' as local timezone if no timezone provided."}


def schema(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def filled(name: str, description: str, parameters: dict[str, Any], prompt: str) -> Filled:
    text, payload = split_payload(prompt)
    return fill(name, description, parameters, Evidence(text, NOW, payload))


TIME = ("get_current_time", "Get current time in a specific timezone", schema("timezone", timezone=LOCAL_ZONE))
CONVERT_TIME = (
    "convert_time",
    "Convert time between timezones",
    schema(
        "source_timezone",
        "time",
        "target_timezone",
        source_timezone=ZONE,
        time={**STRING, "description": "Time to convert in 24-hour format (HH:MM)"},
        target_timezone=ZONE,
    ),
)
GIT_LOG = (
    "git_log",
    "Shows the commit logs",
    schema(
        "repo_path",
        repo_path=STRING,
        max_count={**INTEGER, "default": 10},
        start_timestamp={"anyOf": [STRING, {"type": "null"}], "default": None},
    ),
)
FETCH = (
    "fetch",
    "Fetches a URL from the internet",
    schema("url", url={**STRING, "format": "uri"}, max_length={**INTEGER, "minimum": 1}, raw={"type": "boolean"}),
)
LIST_DIRECTORY = (
    "list_directory",
    "Get a listing of all files and directories in a path.",
    schema("path", path=STRING),
)
READ_FILE = (
    "read_text_file",
    "Read the complete contents of a file as text.",
    schema("path", path=STRING, head={**NUMBER, "description": "returns only the first N lines of the file"}),
)
WRITE_FILE = ("write_file", "Create a new file with content", schema("path", "content", path=STRING, content=STRING))
MOVE_FILE = (
    "move_file",
    "Move or rename files and directories.",
    schema("source", "destination", source=STRING, destination=STRING),
)
SEARCH_FILES = (
    "search_files",
    "Search for files matching a glob-style pattern like '*.ext'",
    schema("path", "pattern", path=STRING, pattern=STRING),
)
CREATE_ENTITIES = (
    "create_entities",
    "Create multiple new entities in the knowledge graph",
    schema(
        "entities",
        entities={
            "type": "array",
            "items": schema(
                "name",
                "entityType",
                "observations",
                name={**STRING, "description": "The name of the entity"},
                entityType={**STRING, "description": "The type of the entity"},
                observations={"type": "array", "items": STRING},
            ),
        },
    ),
)
CONVERT_UNITS = (
    "convert_units",
    "Convert a value between units",
    schema("value", "from_unit", "to_unit", value=NUMBER, from_unit=STRING, to_unit=STRING),
)
SPLIT_BILL = (
    "split_bill",
    "Split a restaurant bill",
    schema("total", "people", total=NUMBER, people={**INTEGER, "minimum": 1}, tip_percent={**NUMBER, "default": 0}),
)
WEATHER = (
    "get_weather",
    "Get the weather for a city",
    schema(
        "city",
        city=STRING,
        unit={"enum": ["celsius", "fahrenheit"], "default": "celsius"},
        days={**INTEGER, "description": "Number of days to forecast", "default": 1},
        hourly={"type": "boolean", "default": False},
    ),
)
EVENT = (
    "create_event",
    "Create a calendar event",
    schema(
        "title",
        "start",
        title=STRING,
        start={**STRING, "format": "date-time"},
        attendees={"type": "array", "items": {**STRING, "format": "email"}},
        all_day={"type": "boolean"},
    ),
)
DAYS_BETWEEN = (
    "days_between",
    "Count the days between two dates",
    schema("start_date", "end_date", start_date={**STRING, "format": "date"}, end_date={**STRING, "format": "date"}),
)


@pytest.mark.parametrize(
    ("tool", "prompt", "expected"),
    [
        (TIME, "what time is it in Tokyo", {"timezone": "Asia/Tokyo"}),
        (TIME, "what time is it in new york?", {"timezone": "America/New_York"}),
        (TIME, "the time in India please", {"timezone": "Asia/Kolkata"}),
        (TIME, "time at Europe/Paris", {"timezone": "Europe/Paris"}),
        (TIME, "what time is it", {"timezone": "UTC"}),
        (
            CONVERT_TIME,
            "convert 3pm from Tokyo to New York",
            {"source_timezone": "Asia/Tokyo", "time": "15:00", "target_timezone": "America/New_York"},
        ),
        (
            CONVERT_TIME,
            "What time is it in London when it is 9:00 in Tokyo?",
            {"source_timezone": "Asia/Tokyo", "time": "09:00", "target_timezone": "Europe/London"},
        ),
        (GIT_LOG, "show the last 5 commits in /repos/app", {"repo_path": "/repos/app", "max_count": 5}),
        (GIT_LOG, "the last three commits of this repo", {"repo_path": ".", "max_count": 3}),
        (FETCH, "fetch https://example.com/a?b=1.", {"url": "https://example.com/a?b=1"}),
        (FETCH, "get example.org raw", {"url": "https://example.org", "raw": True}),
        (FETCH, "fetch https://example.com without raw", {"url": "https://example.com", "raw": False}),
        (LIST_DIRECTORY, "list the files in docs", {"path": "docs"}),
        (LIST_DIRECTORY, "what files are in the src/app folder?", {"path": "src/app"}),
        (LIST_DIRECTORY, "list files", {"path": "."}),
        (LIST_DIRECTORY, "list the directory 'My Documents/2026'", {"path": "My Documents/2026"}),
        (READ_FILE, "show me the first 10 lines of docs/intro.md", {"path": "docs/intro.md", "head": 10}),
        (READ_FILE, "read ~/notes/README", {"path": "~/notes/README"}),
        (WRITE_FILE, 'write "hello world" to notes.txt', {"path": "notes.txt", "content": "hello world"}),
        (WRITE_FILE, "create a file a.txt containing good morning", {"path": "a.txt", "content": "good morning"}),
        (MOVE_FILE, "rename a.txt to b.txt", {"source": "a.txt", "destination": "b.txt"}),
        (MOVE_FILE, "move to lib/ the file src/a.py", {"source": "src/a.py", "destination": "lib/"}),
        (SEARCH_FILES, "find all *.py files in src", {"path": "src", "pattern": "*.py"}),
        (SEARCH_FILES, "find python files", {"path": ".", "pattern": "*.py"}),
        (
            CREATE_ENTITIES,
            "create an entity named Anna of type person with observation 'likes tea'",
            {"entities": [{"name": "Anna", "entityType": "person", "observations": ["likes tea"]}]},
        ),
        (CONVERT_UNITS, "convert 10 km to miles", {"value": 10, "from_unit": "km", "to_unit": "miles"}),
        (CONVERT_UNITS, "how many ounces are in a pound?", {"value": 1, "from_unit": "pound", "to_unit": "ounces"}),
        (CONVERT_UNITS, "what is 1,500 meters in feet", {"value": 1500, "from_unit": "meters", "to_unit": "feet"}),
        (CONVERT_UNITS, "5km in miles", {"value": 5, "from_unit": "km", "to_unit": "miles"}),
        (
            SPLIT_BILL,
            "split $120.50 between four people with a 18% tip",
            {"total": 120.5, "people": 4, "tip_percent": 18},
        ),
        (WEATHER, "weather in Oslo", {"city": "Oslo"}),
        (WEATHER, "what's the weather in san francisco in fahrenheit", {"city": "san francisco", "unit": "fahrenheit"}),
        (WEATHER, "hourly weather for Paris for 3 days", {"city": "Paris", "days": 3, "hourly": True}),
        (
            EVENT,
            'create the event "Stand-up" tomorrow at 9:30 with a@b.example and c@d.example',
            {"title": "Stand-up", "start": "2026-11-23T09:30:00", "attendees": ["a@b.example", "c@d.example"]},
        ),
        (
            DAYS_BETWEEN,
            "days between 2026-01-01 and 1 March 2026",
            {"start_date": "2026-01-01", "end_date": "2026-03-01"},
        ),
        (DAYS_BETWEEN, "how many days until Christmas?", {"start_date": "2026-11-22", "end_date": "2026-12-25"}),
        (DAYS_BETWEEN, "how many days since 2026-11-01?", {"start_date": "2026-11-01", "end_date": "2026-11-22"}),
    ],
)
def test_arguments(tool: tuple[str, str, dict[str, Any]], prompt: str, expected: dict[str, Any]) -> None:
    found = filled(*tool, prompt)
    assert found.arguments == expected
    assert found.missing == ()
    assert argument_problem(tool[2], found.arguments) == ""


@pytest.mark.parametrize(
    ("tool", "prompt", "missing"),
    [
        (FETCH, "download the page", ("url",)),
        (READ_FILE, "read it", ("path",)),
        (CONVERT_TIME, "convert 3pm", ("source_timezone", "target_timezone")),
        (SPLIT_BILL, "split the bill", ("total", "people")),
        (CREATE_ENTITIES, "remember that Anna likes tea", ("entities.entityType",)),
        (WEATHER, "delete everything", ("city",)),
    ],
)
def test_what_the_prompt_does_not_say_is_missing(
    tool: tuple[str, str, dict[str, Any]], prompt: str, missing: tuple[str, ...]
) -> None:
    assert filled(*tool, prompt).missing == missing


def test_references_branches_and_null_types_are_followed() -> None:
    parameters = {
        "type": "object",
        "required": ["options"],
        "properties": {
            "options": {"$ref": "#/$defs/Options"},
            "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
        },
        "$defs": {
            "Options": schema(
                "level", level={"allOf": [{"enum": ["low", "high"]}, STRING]}, size={"type": ["integer", "null"]}
            )
        },
    }
    found = filled("set_alarm", "Set the alarm", parameters, "set the alarm to high with size 3")
    assert found.arguments == {"options": {"level": "high", "size": 3}}


def test_patterns_of_a_schema_choose_the_word_that_fits() -> None:
    parameters = schema("code", code={**STRING, "pattern": r"^[A-Z]{3}-\d+$"})
    assert filled("get_item", "Get an item", parameters, "get the item ABC-12 now").arguments == {"code": "ABC-12"}
    assert filled("get_item", "Get an item", parameters, "get the item twelve now").missing == ("code",)


def test_a_slow_pattern_costs_no_time() -> None:
    assert not matches_pattern(r"^(a+)+$", "a" * 60 + "!")


def test_payload_is_the_text() -> None:
    count = ("count_words", "Count the words of a text", schema("text", text=STRING))
    body = "one two\n\nthree"
    assert filled(*count, f"count the words\n\n{body}").arguments == {"text": body}
    assert filled(*count, f"count the words\n\n```\n{body}\n```").arguments == {"text": body}
    assert filled(*count, f"count the words\n\nnotes.txt\n````text\n{body}\n````").arguments == {"text": body}


def test_one_call_for_each_place() -> None:
    evidence = Evidence("what time is it in Tokyo, Paris and New York?", NOW)
    first = fill(*TIME, evidence)
    zones = [one.arguments["timezone"] for one in fill_each(*TIME, evidence, first)]
    assert zones == ["Asia/Tokyo", "Europe/Paris", "America/New_York"]


def test_repeated_words_do_not_make_more_calls() -> None:
    evidence = Evidence("what time is it in Tokyo? I was in Paris last year", NOW)
    assert len(fill_each(*TIME, evidence, fill(*TIME, evidence))) == 1


# -- never an error, never a value that does not fit -----------------------------------------------------------------

_SAMPLES = """what is the time in Tokyo to from 3 12.5 -7 1,000 two "quoted text" 'single' https://a.example/x
me@b.example docs/a.md *.py tomorrow 2026-11-22 14:30 and , ? ! : ( ) red high true not without limit count name path
list [x] {"a":1} \\d+ (a+)+$ é 東京 \u202e #12 ABC-9 50% $5 between until all"""
_WORDS = st.sampled_from(_SAMPLES.split())
PROMPTS = st.lists(_WORDS, max_size=14).map(" ".join) | st.text(max_size=80)
_PROPERTY_NAMES = "timezone path url query text name count limit start_date end_date time email from_unit sql id type a"
_NAMES = st.sampled_from(_PROPERTY_NAMES.split())
_LEAVES = st.one_of(
    st.just(STRING),
    st.fixed_dictionaries({"type": st.just("string"), "minLength": st.integers(0, 5), "maxLength": st.integers(3, 30)}),
    st.fixed_dictionaries({"type": st.just("string"), "pattern": st.sampled_from([r"^\d+$", r"^(a+)+$", "[", "x{2"])}),
    st.fixed_dictionaries({"type": st.sampled_from(["integer", "number"]), "minimum": st.integers(-5, 5)}),
    st.fixed_dictionaries({"type": st.just("integer"), "multipleOf": st.integers(1, 5), "maximum": st.just(9)}),
    st.fixed_dictionaries({"enum": st.lists(st.sampled_from(["red", "high", 3, True, None]), min_size=1, max_size=4)}),
    st.fixed_dictionaries({"type": st.just("string"), "format": st.sampled_from(["uri", "email", "date"])}),
    st.just({"type": "boolean"}),
    st.just({"const": 5}),
    st.just({}),
    st.just({"$ref": "#/nowhere"}),
    st.just({"type": ["integer", "null"]}),
    st.just({"anyOf": [{"type": "null"}, {"type": "integer"}]}),
)
SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items, "maxItems": 3}, inner),
        st.builds(
            lambda properties, required: {"type": "object", "properties": properties, "required": required},
            st.dictionaries(_NAMES, inner, max_size=4),
            st.lists(_NAMES, max_size=3),
        ),
    ),
    max_leaves=6,
)
TOOLS = st.builds(
    lambda properties, required: {"type": "object", "properties": properties, "required": required},
    st.dictionaries(_NAMES, SCHEMAS, max_size=5),
    st.lists(_NAMES, max_size=4),
)


@given(TOOLS, PROMPTS)
@settings(max_examples=80, deadline=None)
def test_what_is_filled_always_fits(parameters: dict[str, Any], prompt: str) -> None:
    found = filled("do_thing", "Does the thing", parameters, prompt)
    for name, value in found.arguments.items():
        assert argument_problem({"$defs": {}, **parameters["properties"][name]}, value) == "", (name, value)
    required = {name for name in parameters["required"] if name in parameters["properties"]}
    assert {path.partition(".")[0] for path in found.missing} | found.arguments.keys() >= required


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=8), _JSON, max_size=5), PROMPTS)
@settings(max_examples=50, deadline=None)
def test_no_schema_raises(parameters: dict[str, Any], prompt: str) -> None:
    filled("do_thing", "Does the thing", parameters, prompt)
    filled("do_thing", "", {"type": "object", "properties": parameters, "required": ["name"]}, prompt)


@given(PROMPTS)
@settings(max_examples=100, deadline=None)
def test_reading_a_prompt_never_raises(prompt: str) -> None:
    for piece in split_needs(prompt):
        need = need_of(Evidence(piece, NOW))
        assert len(search_query(need)) < 500


# -- pieces ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("on 2026-03-01", ["2026-03-01"]),
        ("1.3.2026", ["2026-03-01"]),
        ("March 1st, 2026", ["2026-03-01"]),
        ("the 1st of March", ["2026-03-01"]),
        ("12/31/2026", ["2026-12-31"]),
        ("31/12/2026", ["2026-12-31"]),
        ("today, tomorrow and yesterday", ["2026-11-22", "2026-11-23", "2026-11-21"]),
        ("next monday", ["2026-11-23"]),
        ("next sunday", ["2026-11-29"]),
        ("last sunday", ["2026-11-15"]),
        ("2026-13-40 and 30 February", []),
    ],
)
def test_dates(text: str, dates: list[str]) -> None:
    assert [value for _, _, value in find_dates(text, NOW)] == dates


def test_times_and_numbers() -> None:
    assert [value for _, _, value in find_times("at 9:05, 3pm, 12 am, noon, 7 o'clock, 25:00")] == [
        "09:05",
        "15:00",
        "00:00",
        "12:00",
        "07:00",
    ]
    assert [value for _, _, value in find_numbers("1,000 and -2.5, twenty-one, 3 million, 2d6")] == [
        1000,
        -2.5,
        21,
        3_000_000,
        2,
        6,
    ]


def test_places() -> None:
    assert [zone for _, _, zone in find_zones("from Rio de Janeiro to tokyo via America/New_York")] == [
        "America/Sao_Paulo",
        "Asia/Tokyo",
        "America/New_York",
    ]
    assert zone_of("Atlantis") is None


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("what is 12 * (3 + 4)?", "12 * (3 + 4)"),
        ("3 plus four", None),
        ("7 times 8", "7 * 8"),
        ("2 to the power of 10", "2 ** 10"),
        ("the square root of 144", "sqrt(144)"),
        ("15% of 80", "15 / 100 * 80"),
        ("between 2026-01-01 and 2026-02-01", None),
        ("no sums here", None),
    ],
)
def test_arithmetic(text: str, expression: str | None) -> None:
    found = arithmetic(text)
    assert (found.value if found else None) == expression


@pytest.mark.parametrize(
    ("prompt", "needs"),
    [
        (
            "what time is it in Tokyo, and list the files in docs",
            ["what time is it in Tokyo", "list the files in docs"],
        ),
        ("Convert 10 km to miles and 5 kg to pounds", ["Convert 10 km to miles", "5 kg to pounds"]),
        ("add 5 and 7", ["add 5 and 7"]),
        ("how far is it between Paris and Rome?", ["how far is it between Paris and Rome?"]),
        ('write "find this, and list that" to a.txt', ['write "find this, and list that" to a.txt']),
        ("Hello! Roll a die; then flip a coin.", ["Roll a die", "flip a coin."]),
        ("read a.txt then show b.txt", ["read a.txt", "show b.txt"]),
        ("remember that Anna likes tea and Bob likes coffee", ["remember that Anna likes tea and Bob likes coffee"]),
    ],
)
def test_needs_of_a_prompt(prompt: str, needs: list[str]) -> None:
    assert split_needs(prompt) == needs


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("hello", "greeting"),
        ("Good morning!", "greeting"),
        ("thanks a lot", "thanks"),
        ("what can you do?", "ability"),
        ("who are you", "who"),
        ("hello, what time is it?", None),
        ("echo hello", None),
        ("", "greeting"),
    ],
)
def test_small_talk(prompt: str, kind: str | None) -> None:
    assert small_talk(prompt) == kind


def test_signatures_are_read_back() -> None:
    assert schema_of_signature("get_weather(location: str, unit?: celsius|fahrenheit, tags?: list[str], ...)") == {
        "type": "object",
        "properties": {
            "location": {"type": "string"},
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["location"],
    }
    assert schema_of_signature("nonsense") == {}


@pytest.mark.parametrize("answer", ["", "not JSON", "[]", '{"tools": 3}', '{"tools": [3, {"name": 4}]}', "[" * 5000])
def test_search_answers_of_any_shape(answer: str) -> None:
    assert search_results(answer) == []


def test_fits_checks_types_strictly() -> None:
    assert not fits(True, {"type": "integer"})
    assert not fits(1, {"enum": [True]})
    assert fits(2.5, {"type": "number", "multipleOf": 0.5})
    assert not fits("a", {"type": "array"})
    assert resolve({"$ref": "#"}, {"$ref": "#"}) == {}


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("show the log of /srv/run-107/x-3", None),
        ("open https://example.org/a-1/b-2", None),
        ("what is 12 / 4 - 1 in ./notes-2", "12 / 4 - 1"),
        ("calculate 10/4", "10/4"),
    ],
)
def test_digits_in_a_path_are_no_sum(text: str, expression: str | None) -> None:
    found = arithmetic(text)
    assert (found.value if found is not None else None) == expression
