"""How the offline model fills arguments: from prompts to calls, over tools with schemas of many shapes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent.models import ModelRequest
from mcpagent.offline.turn import answer
from mcpagent.run.validation import argument_problem
from mcpagent.values.messages import Message, ToolDefinition, user_message
from tests.tables import each_row

NOW = datetime(2026, 11, 22, 7, 30)
STRING: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
INTEGER: dict[str, Any] = {"type": "integer"}
ZONE = {**STRING, "description": "IANA timezone name (e.g. 'America/New_York')"}
LOCAL_ZONE = {**STRING, "description": "IANA timezone name. Use 'UTC' as local timezone if no timezone provided."}

Described: TypeAlias = tuple[str, str, dict[str, Any]]


def schema(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def asked(prompt: str, *tools: Described) -> Message:
    """What the model says to a prompt where these tools, which only read, are offered."""
    offered = tuple(
        ToolDefinition(name, about, parameters, "server", name, read_only=True) for name, about, parameters in tools
    )
    return answer(ModelRequest("", (user_message(prompt),), offered), NOW)


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
CREATE_DIRECTORY = ("create_directory", "Create a new directory", schema("path", path=STRING))
GIT_SHOW = (
    "git_show",
    "Shows the contents of a commit of a repository",
    schema("repo_path", "revision", repo_path=STRING, revision=STRING),
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
PRIME_FACTORS = ("prime_factors", "Split a whole number into its prime factors.", schema("number", number=INTEGER))
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


@each_row(
    "tool, prompt, expected",
    [
        (TIME, "what time is it in Tokyo", {"timezone": "Asia/Tokyo"}),
        (TIME, "what time is it in new york?", {"timezone": "America/New_York"}),
        (TIME, "the time in India please", {"timezone": "Asia/Kolkata"}),
        (TIME, "time at Europe/Paris", {"timezone": "Europe/Paris"}),
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
        (FETCH, "fetch https://example.com/a?b=1.", {"url": "https://example.com/a?b=1"}),
        (LIST_DIRECTORY, "what files are in the src/app folder?", {"path": "src/app"}),
        (LIST_DIRECTORY, "list the directory 'My Documents/2026'", {"path": "My Documents/2026"}),
        (FETCH, "get example.org", {"url": "https://example.org"}),
        (LIST_DIRECTORY, "list the files in docs/", {"path": "docs/"}),
        (READ_FILE, "show me the first 10 lines of docs/intro.md", {"path": "docs/intro.md", "head": 10}),
        (READ_FILE, "read ~/notes/README", {"path": "~/notes/README"}),
        (WRITE_FILE, 'write "hello world" to notes.txt', {"path": "notes.txt", "content": "hello world"}),
        (WRITE_FILE, "create a file a.txt containing good morning", {"path": "a.txt", "content": "good morning"}),
        (MOVE_FILE, "rename a.txt to b.txt", {"source": "a.txt", "destination": "b.txt"}),
        (MOVE_FILE, "move to lib/ the file src/a.py", {"source": "src/a.py", "destination": "lib/"}),
        (CONVERT_UNITS, "convert 10 km to miles", {"value": 10, "from_unit": "km", "to_unit": "miles"}),
        (
            SEARCH_FILES,
            "find all files named *.txt in /srv/files",
            {"path": "/srv/files", "pattern": "*.txt"},
        ),
        (CREATE_DIRECTORY, "create a folder /srv/archive", {"path": "/srv/archive"}),
        (CONVERT_UNITS, "how many ounces are in a pound?", {"value": 1, "from_unit": "pound", "to_unit": "ounces"}),
        (CONVERT_UNITS, "what is 1,500 meters in feet", {"value": 1500, "from_unit": "meters", "to_unit": "feet"}),
        (CONVERT_UNITS, "5km in miles", {"value": 5, "from_unit": "km", "to_unit": "miles"}),
        (
            SPLIT_BILL,
            "split $120.50 between four people with a 18% tip",
            {"total": 120.5, "people": 4, "tip_percent": 18},
        ),
        (SPLIT_BILL, "split 120 between 5", {"total": 120, "people": 5}),
        (READ_FILE, "read the file @notes.txt", {"path": "notes.txt"}),
        (WEATHER, "weather in Oslo", {"city": "Oslo"}),
        (WEATHER, "what's the weather in san francisco in fahrenheit", {"city": "san francisco", "unit": "fahrenheit"}),
        (
            DAYS_BETWEEN,
            "days between 2026-01-01 and 1 March 2026",
            {"start_date": "2026-01-01", "end_date": "2026-03-01"},
        ),
        (DAYS_BETWEEN, "how many days until Christmas?", {"start_date": "2026-11-22", "end_date": "2026-12-25"}),
        (DAYS_BETWEEN, "how many days since 2026-11-01?", {"start_date": "2026-11-01", "end_date": "2026-11-22"}),
    ],
)
def test_arguments(tool: Described, prompt: str, expected: dict[str, Any]) -> None:
    [call] = asked(prompt, tool).tool_calls
    assert call.name == tool[0]
    assert call.arguments == expected
    assert list(call.arguments) == [name for name in tool[2]["properties"] if name in expected]
    assert argument_problem(tool[2], call.arguments) == ""


@each_row(
    "tool, prompt, says",
    [
        (FETCH, "fetch the page", "`url`"),
        (READ_FILE, "read the file", "`path`"),
        (CONVERT_TIME, "convert 3pm", "`source_timezone`"),
        (SPLIT_BILL, "split the bill", "`total`"),
        (SPLIT_BILL, "split by 3", "`total`"),
        (PRIME_FACTORS, "factors by 3", "`number`"),
        (CREATE_ENTITIES, "create an entity", "`entities`"),
        (TIME, "what time is it", "`timezone`"),
        (GIT_LOG, "show the last 5 commits", "`repo_path`"),
        (GIT_SHOW, "which branches does the repository /repos/app have?", "`revision`"),
        (SEARCH_FILES, "search the files in /srv/files", "`pattern`"),
        (FETCH, "fetch https://example.com raw", "“raw”"),
        (FETCH, "fetch https://example.com without raw", "“without”"),
        (LIST_DIRECTORY, "list the directory docs", "“docs”"),
        (WEATHER, "hourly weather for Paris", "“hourly”"),
        (SPLIT_BILL, "split 120 between 4 people and 3 dogs", "“3”"),
        (DAYS_BETWEEN, "days between 2026-02-30 and 2026-03-01", "`"),
        (CONVERT_UNITS, "convert 5 miles to km and kg", "“kg”"),
        (CONVERT_UNITS, "convert 5 to km", "`from_unit`"),
    ],
)
def test_what_the_prompt_does_not_say_for_certain_is_named_and_nothing_is_called(
    tool: Described, prompt: str, says: str
) -> None:
    message = asked(prompt, tool)
    assert message.tool_calls == ()
    assert f"`{tool[0]}`" in message.text
    assert says in message.text


NOTE_TOOLS = (
    ("read_note", "Read one note.", schema("title", title=STRING)),
    ("list_notes", "List the titles of all notes.", schema()),
)
FILE_TOOLS = (
    ("list_files", "List the files and folders in a directory.", schema(folder=STRING)),
    ("read_text_file", "Read the contents of a text file.", schema("path", path=STRING)),
)
GIT_TOOLS = (
    (
        "git_diff",
        "Shows differences between branches or commits",
        schema("repo_path", "target", repo_path=STRING, target=STRING),
    ),
)
WORD_TOOLS = (
    ("most_common_words", "Find the most frequent words of a text.", schema("text", text=STRING)),
    ("from_unix_timestamp", "Convert a Unix timestamp to a date and time.", schema("timestamp", timestamp=NUMBER)),
)


def test_a_word_of_the_request_is_no_value_for_a_tool_that_is_about_something_else() -> None:
    for prompt, tools, expected in (
        ("list my notes", NOTE_TOOLS, [("list_notes", {})]),
        ("read the note Groceries", NOTE_TOOLS, [("read_note", {"title": "Groceries"})]),
        ("show notes.txt", FILE_TOOLS, [("read_text_file", {"path": "notes.txt"})]),
        ("how many words are in notes.txt", FILE_TOOLS, []),
        ("spell hello backwards", WORD_TOOLS, []),
        ("most common words: red red blue", WORD_TOOLS, [("most_common_words", {"text": "red red blue"})]),
        ("what time will it be in 3 hours", WORD_TOOLS, []),
        ("what time is the timestamp 3", WORD_TOOLS, [("from_unix_timestamp", {"timestamp": 3})]),
        ("diff /srv/site against main", GIT_TOOLS, [("git_diff", {"repo_path": "/srv/site", "target": "main"})]),
    ):
        calls = [(call.name, call.arguments) for call in asked(prompt, *tools).tool_calls]
        assert calls == expected, prompt


def test_references_branches_and_null_types_are_followed() -> None:
    parameters = {
        "type": "object",
        "required": ["level", "size"],
        "properties": {
            "level": {"$ref": "#/$defs/Level"},
            "size": {"type": ["integer", "null"]},
            "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
        },
        "$defs": {"Level": {"allOf": [{"enum": ["low", "high"]}, STRING]}},
    }
    message = asked("show the alarm with level high and size 3", ("alarm", "Show the alarm", parameters))
    assert [call.arguments for call in message.tool_calls] == [{"level": "high", "size": 3}]


def test_the_number_of_an_invoice_or_ticket_may_have_letters() -> None:
    total = ("invoice_total", "The total of one invoice", schema("number", number=STRING))
    show = ("show_ticket", "Show one ticket", schema("key", key={**STRING, "description": "The key of the ticket"}))
    for tool, prompt, expected in (
        (total, "What is the total of invoice A-17?", {"number": "A-17"}),
        (total, "What is the total of invoice 17?", {"number": "17"}),
        (show, "Show the ticket OPS-1042", {"key": "OPS-1042"}),
    ):
        (called,) = asked(prompt, tool).tool_calls
        assert called.arguments == expected, prompt


def test_payload_is_the_text() -> None:
    count = ("count_words", "Count the words of a text", schema("text", text=STRING))
    body = "one two\n\nthree"
    for pasted in (body, f"```\n{body}\n```", f"notes.txt\n````text\n{body}\n````"):
        [call] = asked(f"count the words\n\n{pasted}", count).tool_calls
        assert call.arguments == {"text": body}


def test_one_call_for_each_place() -> None:
    calls = asked("what time is it in Tokyo, Paris and New York?", TIME).tool_calls
    zones = [call.arguments["timezone"] for call in calls]
    assert zones == ["Asia/Tokyo", "Europe/Paris", "America/New_York"]


def test_a_place_in_another_sentence_is_no_further_call() -> None:
    assert asked("what time is it in Tokyo? I was in Paris last year", TIME).tool_calls == ()


@each_row(
    "words, date",
    [
        ("2026-03-01", "2026-03-01"),
        ("1.3.2026", "2026-03-01"),
        ("March 1st, 2026", "2026-03-01"),
        ("12/31/2026", "2026-12-31"),
        ("31/12/2026", "2026-12-31"),
        ("the 1st of March 2027", "2027-03-01"),
        ("today", "2026-11-22"),
        ("tomorrow", "2026-11-23"),
        ("yesterday", "2026-11-21"),
        ("next monday", "2026-11-23"),
        ("last sunday", "2026-11-15"),
        ("90 days ago", "2026-08-24"),
        ("90 days after 2026-11-22", "2027-02-20"),
        ("2026-13-40", None),
        ("30 February 2026", None),
    ],
)
def test_dates_count_from_the_time_given(words: str, date: str | None) -> None:
    holidays = ("list_holidays", "List the holidays of a day", schema("date", date={**STRING, "format": "date"}))
    calls = asked(f"list the holidays of {words}", holidays).tool_calls
    assert [call.arguments for call in calls] == ([{"date": date}] if date else [])


@each_row(
    "words, time",
    [("9:05", "09:05"), ("3pm", "15:00"), ("12 am", "00:00"), ("noon", "12:00"), ("25:00", None)],
)
def test_times_of_day(words: str, time: str | None) -> None:
    alarm = ("show_alarm", "Show the alarm at a time", schema("time", time={**STRING, "description": "HH:MM"}))
    calls = asked(f"show the alarm at {words}", alarm).tool_calls
    assert [call.arguments for call in calls] == ([{"time": time}] if time else [])


@each_row(
    "words, number",
    [("1,000", 1000), ("-2.5", -2.5), ("twelve", 12), ("20 dollars", 20)],
)
def test_numbers(words: str, number: float) -> None:
    half = ("halve", "Halve a number", schema("number", number=NUMBER))
    assert [call.arguments for call in asked(f"halve {words}", half).tool_calls] == [{"number": number}]


@each_row(
    "place, zone",
    [
        ("Rio de Janeiro", "America/Sao_Paulo"),
        ("são paulo", "America/Sao_Paulo"),
        ("America/New_York", "America/New_York"),
        ("India", "Asia/Kolkata"),
        ("london's", "Europe/London"),
        ("Atlantis", None),
        ("the United States", None),
    ],
)
def test_places(place: str, zone: str | None) -> None:
    calls = asked(f"what is the time in {place}", TIME).tool_calls
    assert [call.arguments for call in calls] == ([{"timezone": zone}] if zone else [])


@each_row(
    "prompt, expression",
    [
        ("what is 12 * (3 + 4)?", "12 * (3 + 4)"),
        ("3 plus four", "3 + 4"),
        ("7 times 8", "7 * 8"),
        ("2 to the power of 10", "2 ** 10"),
        ("the square root of 144", "sqrt(144)"),
        ("square root of -4", "sqrt(-4)"),
        ("log(49, 7)", "log(49, 7)"),
        ("15% of 80", "15 / 100 * 80"),
        ("12 divided by 0", "12 / 0"),
        ("subtract 3 from 10", "10 - 3"),
        ("calculate 10/4", "10 / 4"),
        ("what is 5 plus", None),
        ("calculate 2026-01-01", None),
        ("no sums here", None),
        ("calculate the log of /srv/run-107/x-3", None),
        ("calculate https://example.org/a-1/b-2", None),
        ("what is 3 + 4 in roman numerals", None),
    ],
)
def test_sums(prompt: str, expression: str | None) -> None:
    calculate = ("calculate", "Calculate an arithmetic expression", schema("expression", expression=STRING))
    calls = asked(prompt, calculate).tool_calls
    assert [call.arguments for call in calls] == ([{"expression": expression}] if expression else [])


def test_a_unit_is_not_taken_for_what_it_is_converted_to() -> None:
    tools = [
        (f"convert_{one}_to_{two}", f"Convert a length from {one} to {two}.", schema("value", value=NUMBER))
        for one, two in (("miles", "kilometres"), ("kilometres", "miles"))
    ]
    for prompt in ("convert 42 kilometres to miles", "how many miles are 42 kilometres?"):
        assert [call.name for call in asked(prompt, *tools).tool_calls] == ["convert_kilometres_to_miles"]


def test_what_is_asked_for_is_not_what_a_tool_is_given() -> None:
    of_capital = ("country_of_capital", "Tell which country a capital belongs to", schema("capital", capital=STRING))
    facts = ("country_facts", "Get the capital and population of a country", schema("country", country=STRING))
    [call] = asked("what is the capital of France?", of_capital, facts).tool_calls
    assert (call.name, call.arguments) == ("country_facts", {"country": "France"})
    [call] = asked("which country has the capital Nairobi?", of_capital, facts).tool_calls
    assert (call.name, call.arguments) == ("country_of_capital", {"capital": "Nairobi"})


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


@pytest.mark.slow
@given(TOOLS, PROMPTS)
@settings(max_examples=80, deadline=None)
def test_no_tool_and_no_prompt_raises_and_calls_lack_nothing(parameters: dict[str, Any], prompt: str) -> None:
    message = asked(f"show the thing {prompt}", ("show_thing", "Show the thing", parameters))
    assert message.text or message.tool_calls
    for call in message.tool_calls:
        assert set(parameters["required"]) <= call.arguments.keys()


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=8), _JSON, max_size=5), PROMPTS)
@settings(max_examples=50, deadline=None)
def test_no_schema_raises(parameters: dict[str, Any], prompt: str) -> None:
    asked(f"show the thing {prompt}", ("show_thing", "Show the thing", parameters))
    asked(f"show the thing {prompt}", ("show_thing", "", {"properties": parameters, "required": ["name"]}))
