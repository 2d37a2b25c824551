"""The demo server: each theme's functions, and the whole of it over real stdio."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpagent import Agent, ToolDefinition
from mcpagent.demo import DemoToolError, demo_server_config
from mcpagent.demo import chance_tools as chance
from mcpagent.demo import clock_tools as clock
from mcpagent.demo import colour_tools as colours
from mcpagent.demo import file_tools as files
from mcpagent.demo import note_tools as notes
from mcpagent.demo import number_tools as numbers
from mcpagent.demo import place_tools as places
from mcpagent.demo import system_tools as system
from mcpagent.demo import text_tools as text
from mcpagent.demo import unit_tools as units
from mcpagent.demo.server import THEMES, build_server, tools_of
from mcpagent.models import OfflineModel, ScriptedModel
from mcpagent.models.scripted import Reply
from mcpagent.search import ToolIndex
from mcpagent.values.messages import ToolCall
from tests.tables import each_row


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "outside.txt").write_text("secret")
    inside = tmp_path / "inside"
    (inside / "docs").mkdir(parents=True)
    (inside / "README.md").write_text("# Title\nsecond line\n")
    (inside / "docs" / "plan.txt").write_text("Build a bridge.\n")
    (inside / "blob.bin").write_bytes(b"\0\1\2")
    (inside / "link.txt").symlink_to(tmp_path / "outside.txt")
    (inside / "up").symlink_to(tmp_path)
    before = Path.cwd()
    os.chdir(inside)
    yield inside
    os.chdir(before)


# -- as an MCP server ------------------------------------------------------------------------------------------------


async def test_every_tool_is_described_and_has_a_valid_schema() -> None:
    tools = await build_server().list_tools()
    assert len(tools) == sum(len(tools_of(theme)) for theme in THEMES) >= 60
    assert len({tool.name for tool in tools}) == len(tools)
    for tool in tools:
        assert tool.description
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        for name, schema in tool.input_schema["properties"].items():
            assert schema.get("description"), f"{tool.name}.{name} has no description"


async def test_only_notes_claim_to_change_something() -> None:
    changing = {tool.name for tool in await build_server().list_tools() if not _hints(tool)["readOnlyHint"]}
    assert changing == {function.__name__ for function in notes.WRITING}


def _hints(tool: Any) -> dict[str, Any]:
    hints: dict[str, Any] = tool.annotations.model_dump(by_alias=True)
    return hints


async def test_real_process_lists_calls_and_reports_errors(folder: Path) -> None:
    async with Agent(OfflineModel(), mcp_config=demo_server_config()) as agent:
        assert len(agent.known_tools) >= 60
        assert agent.servers["demo"].state == "ready"
        assert "10 kilometre = 6.21371 mile" in await agent.ask("convert 10 km to miles")
        assert "second line" in await agent.ask("read README.md")
        assert "unknown unit" in await agent.ask("convert 10 km to bananas")


@pytest.mark.slow
def test_module_in_the_users_folder_does_not_shadow_ours(tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "mcp.py").write_text("raise SystemExit('shadowed')")
    server = demo_server_config()["mcpServers"]["demo"]
    ended = subprocess.run(
        [server["command"], *server["args"]], cwd=tmp_path, input="", capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    assert "shadowed" not in ended.stderr


def test_config_needs_no_heavy_import() -> None:
    code = (
        "import sys; from mcpagent.demo import demo_server_config; demo_server_config();"
        "print([name for name in ('mcp', 'pydantic', 'anyio') if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.strip() == "[]"


@pytest.mark.slow
async def test_bad_argument_is_one_line_for_the_model() -> None:
    agent = Agent(OfflineModel(), mcp_config=demo_server_config())
    async with agent:
        tool = agent._runtime.tools.find("get_current_time")
        assert tool is not None
        output = await tool.run({"timezone": "Tokyo"})
    assert output.error == "failed"
    shown = "".join(getattr(part, "text", "") for part in output.content)
    assert "did you mean Asia/Tokyo?" in shown
    assert "Traceback" not in shown


# -- time and dates --------------------------------------------------------------------------------------------------


def test_zone_names_are_found_in_any_case() -> None:
    assert clock.get_current_time("europe/paris")["timezone"] == "Europe/Paris"
    with pytest.raises(DemoToolError, match="America/New_York"):
        clock.get_current_time("new york")


def test_current_time_says_zone_and_weekday() -> None:
    now = clock.get_current_time("Asia/Tokyo")
    assert now["timezone"] == "Asia/Tokyo"
    assert now["datetime"].endswith("+09:00")


def test_convert_time_between_zones_without_daylight_saving() -> None:
    converted = clock.convert_time("09:30", "Asia/Tokyo", "Asia/Kolkata")
    assert converted["source"]["datetime"][11:16] == "09:30"
    assert converted["target"]["datetime"][11:16] == "06:00"
    with pytest.raises(DemoToolError, match="not HH:MM"):
        clock.convert_time("25:99", "UTC", "UTC")


def test_time_difference_and_timestamps() -> None:
    assert clock.time_difference("UTC", "Asia/Tokyo") == "Asia/Tokyo is 9 hours ahead of UTC."
    assert clock.time_difference("Asia/Tokyo", "Asia/Tokyo").endswith("same time now.")
    assert clock.to_unix_timestamp("2001-09-09T01:46:40") == 1_000_000_000
    assert clock.from_unix_timestamp(1_000_000_000)["datetime"] == "2001-09-09T01:46:40+00:00"
    assert clock.list_timezones("tokyo") == ["Asia/Tokyo"]
    for bad in ("yesterday", ""):
        with pytest.raises(DemoToolError):
            clock.to_unix_timestamp(bad)
    with pytest.raises(DemoToolError, match="outside the years"):
        clock.from_unix_timestamp(1e30)


def test_dates() -> None:
    assert clock.date_info("2024-12-31") == {
        "date": "2024-12-31",
        "weekday": "Tuesday",
        "iso_week": 1,
        "day_of_year": 366,
        "leap_year": True,
    }
    assert clock.days_between("2026-11-22", "2026-12-25").startswith("33 days")
    assert clock.add_to_date("2026-01-31", months=1)["date"] == "2026-02-28"
    assert clock.add_to_date("2024-02-29", years=1, days=1)["date"] == "2025-03-01"
    assert clock.next_weekday("Monday", "2026-11-23").endswith("2026-11-30.")
    assert clock.age_in_years("2000-11-23", "2026-11-22").startswith("25 years")
    assert "February 2028" in clock.month_calendar(2028, 2)
    assert clock.is_leap_year(1900) == "1900 is not a leap year."
    for broken in (lambda: clock.date_info("31.12.2024"), lambda: clock.age_in_years("2030-01-01", "2026-01-01")):
        with pytest.raises(DemoToolError):
            broken()
    with pytest.raises(DemoToolError, match="outside the years"):
        clock.add_to_date("2026-01-01", years=9000)


# -- numbers and units -----------------------------------------------------------------------------------------------


@each_row(
    "expression, expected",
    [
        ("12 * (3 + 4)", "84"),
        ("2 ^ 10", "1024"),
        ("0.1 + 0.2", "0.3"),
        ("sqrt(144) - -1", "13"),
        ("7 // 2 + 7 % 2", "4"),
        ("factorial(5)", "120"),
        ("10 ÷ 4 × 2 =", "5"),
    ],
)
def test_calculate(expression: str, expected: str) -> None:
    assert numbers.calculate(expression).endswith(f"= {expected}")


@each_row(
    "expression",
    [
        "__import__('os')",
        "().__class__",
        "9**9**9**9",
        "factorial(10**6)",
        "1/0",
        "(-1) ** 0.5",
        "2 +",
        "x + 1",
        "[1]*9",
        "'a'*9",
        "True + 1",
        "sqrt(-1)",
        "(" * 200,
    ],
)
def test_calculate_refuses_what_is_not_arithmetic(expression: str) -> None:
    with pytest.raises(DemoToolError):
        numbers.calculate(expression)


def test_number_tools() -> None:
    assert numbers.add_numbers([0.1, 0.2]) == "0.3"
    assert numbers.describe_statistics([3, 5, 10])["average"] == 6
    assert numbers.percent_of(15, 80) == "15 % of 80 is 12"
    assert numbers.percentage_change(80, 100) == "+25 %"
    assert numbers.prime_factors(360) == "360 = 2 × 2 × 2 × 3 × 3 × 5"
    assert numbers.is_prime(97) == "97 is a prime number."
    assert "7 divides it" in numbers.is_prime(91)
    assert numbers.greatest_common_divisor(12, 18) == {"greatest_common_divisor": 6, "least_common_multiple": 36}
    assert numbers.fibonacci_numbers(8) == [0, 1, 1, 2, 3, 5, 8, 13]
    assert numbers.convert_number_base("255", 16) == "255 is ff in base 16"
    assert numbers.convert_number_base("-0b101", 10) == "-0b101 is -5 in base 10"
    assert numbers.number_to_words(1234) == "one thousand two hundred thirty-four"
    assert numbers.split_bill(120, 4, 18) == {"total_with_tip": 141.6, "each_pays": 35.4}
    assert numbers.loan_payment(1200, 0, 1) == {"monthly_payment": 100.0, "total_interest": 0.0}
    assert numbers.loan_payment(200_000, 6, 30)["monthly_payment"] == 1199.10
    with pytest.raises(DemoToolError, match="not a whole number in base 2"):
        numbers.convert_number_base("12", 10, 2)


@given(st.integers(1, 3999))
def test_roman_numerals_round_trip(number: int) -> None:
    assert numbers.from_roman_numeral(numbers.to_roman_numeral(number).split()[-1]).endswith(f"is {number}")


@each_row("numeral", ["IIII", "VX", "IC", "MMMM", "", "ABC"])
def test_wrong_roman_numerals_are_refused(numeral: str) -> None:
    with pytest.raises(DemoToolError):
        numbers.from_roman_numeral(numeral)


@given(st.integers(2, 10**9))
@settings(max_examples=30)
def test_prime_factors_multiply_to_the_number(number: int) -> None:
    _, factors = numbers.prime_factors(number).split(" = ")
    product = 1
    for factor in factors.split(" × "):
        product *= int(factor)
    assert product == number


@each_row(
    "value, source, target, expected",
    [
        (10, "km", "miles", "6.21371 mile"),
        (100, "°F", "celsius", "37.7778 celsius"),
        (0, "celsius", "K", "273.15 kelvin"),
        (1, "pound", "ounces", "16 ounce"),
        (6, "feet", "meters", "1.8288 metre"),
        (60, "miles per hour", "km/h", "96.5606 kilometre per hour"),
        (2, "GB", "MiB", "1907.35 mebibyte"),
        (3, "Liters", "ml", "3000 millilitre"),
    ],
)
def test_convert_units(value: float, source: str, target: str, expected: str) -> None:
    assert units.convert_units(value, source, target).endswith(f"= {expected}")


@each_row("value, unit", [(-500, "celsius"), (-460, "F"), (-0.1, "kelvin")])
def test_nothing_is_colder_than_absolute_zero(value: float, unit: str) -> None:
    with pytest.raises(DemoToolError, match="below absolute zero"):
        units.convert_units(value, unit, "celsius")
    assert units.convert_units(-459.67, "fahrenheit", "kelvin") == "-459.67 fahrenheit = 0 kelvin"


def test_units_that_do_not_go_together() -> None:
    with pytest.raises(DemoToolError, match="measures length and kilogram measures mass"):
        units.convert_units(1, "metre", "kg")
    with pytest.raises(DemoToolError, match="unknown unit 'parsnip'"):
        units.convert_units(1, "parsnip", "kg")


@each_row("quantity", ["length", "mass", "volume", "area", "speed", "duration", "data", "temperature"])
def test_every_listed_unit_converts_to_itself(quantity: units.Quantity) -> None:
    for unit in units.list_units(quantity):
        assert units.convert_units(5, unit, unit) == f"5 {unit} = 5 {unit}"


# -- text ------------------------------------------------------------------------------------------------------------


def test_text_tools() -> None:
    assert text.count_words("a b\nc") == {"words": 3, "characters": 5, "lines": 2}
    assert text.most_common_words("b a b", 1) == {"b": 2}
    assert text.slugify("Crème Brûlée, twice!") == "creme-brulee-twice"
    assert text.change_case("Hello bigWorld 2", "snake") == "hello_big_world_2"
    assert text.change_case("hello big world", "camel") == "helloBigWorld"
    assert text.change_case("hello", "upper") == "HELLO"
    assert text.reverse_text("stressed") == "desserts"
    assert text.is_palindrome("A man, a plan, a canal: Panama").endswith("is a palindrome.")
    assert text.sort_lines("b\nA\nc", "descending") == "c\nb\nA"
    assert "-old" in text.compare_texts("old", "new")
    assert text.compare_texts("same", "same") == "The texts are the same."
    assert text.extract_links("see https://a.example/x?y=1 or mail me@b.example") == {
        "urls": ["https://a.example/x?y=1"],
        "emails": ["me@b.example"],
    }
    assert text.hash_text("hello").startswith("2cf24dba5fb0a30e")
    assert text.hash_text("hello", "md5") == "5d41402abc4b2a76b9719d911017c592"
    assert text.rot13(text.rot13("Hello")) == "Hello"
    assert text.from_morse_code("... --- ... / ...-") == "SOS V"
    with pytest.raises(DemoToolError, match="'sos' is not Morse code"):
        text.from_morse_code("sos")
    assert json.loads(text.format_json('{"b":[1]}')) == {"b": [1]}
    assert text.query_json('{"users": [{"name": "Ada"}]}', "users[0].name") == "Ada"


def test_text_errors_say_what_would_be_right() -> None:
    with pytest.raises(DemoToolError, match="keys a, b"):
        text.query_json('{"a": 1, "b": 2}', "c")
    with pytest.raises(DemoToolError, match="not JSON"):
        text.format_json("{")
    with pytest.raises(DemoToolError, match="not Base64"):
        text.decode_base64("***")


@given(st.text())
def test_encodings_round_trip(sample: str) -> None:
    sample = sample.encode("utf-8", "ignore").decode()
    assert text.decode_base64(text.encode_base64(sample)) == sample
    assert text.decode_url(text.encode_url(sample)) == sample


@given(st.from_regex(r"[A-Z0-9]{1,6}( [A-Z0-9]{1,6}){0,3}", fullmatch=True))
@settings(max_examples=50)
def test_morse_round_trips(sample: str) -> None:
    assert text.from_morse_code(text.to_morse_code(sample)) == sample


# -- notes -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_notes_and_tasks_live_as_long_as_the_server(folder: Path) -> None:
    """By a model that makes the calls: the stand-in runs by itself only what reads."""
    steps: list[tuple[str, dict[str, Any], str]] = [
        ("add_note", {"title": "Anna", "text": "Anna likes tea"}, "Anna"),
        ("search_notes", {"query": "tea"}, "Anna likes tea"),
        ("delete_note", {"title": "Anna"}, "Deleted note 'Anna'"),
        ("add_todo", {"task": "buy milk"}, "buy milk"),
        ("list_todos", {}, "buy milk"),
        ("complete_todo", {"task": "buy milk"}, "Done: buy milk"),
    ]
    script: list[Reply] = [ToolCall("", name, arguments) for name, arguments, _ in steps]
    async with Agent(ScriptedModel([*script, "done"]), mcp_config=demo_server_config()) as agent:
        await agent.ask("go")
        told = [result for message in agent.messages for result in message.tool_results]
    assert [result.error for result in told] == [None] * len(steps)
    for result, (_, _, expected) in zip(told, steps, strict=True):
        assert expected in result.text


def test_unknown_notes_and_tasks_are_named() -> None:
    with pytest.raises(DemoToolError, match="no note 'nothing here'"):
        notes.read_note("nothing here")
    with pytest.raises(DemoToolError, match="0 todo entries match"):
        notes.complete_todo("nothing here")


# -- files -----------------------------------------------------------------------------------------------------------


def test_files_of_the_folder_are_read(folder: Path) -> None:
    assert files.list_files().splitlines() == ["docs/", "up/", "README.md", "blob.bin", "link.txt"]
    assert files.read_text_file("README.md", 1) == "# Title\n... 1 more lines"
    assert files.search_in_files("BRIDGE") == "docs/plan.txt:1: Build a bridge."
    assert files.find_files("*.txt") == "docs/plan.txt"
    assert files.file_info("README.md")["bytes"] == 20
    assert files.count_lines("README.md") == "README.md: 2 lines, 4 words"
    assert files.folder_size()["files"] == 3


@pytest.mark.parametrize(
    "path", ["../outside.txt", "/etc/passwd", "link.txt", "up/outside.txt", "docs/../../outside.txt"]
)
def test_nothing_outside_the_folder_is_read(folder: Path, path: str) -> None:
    for read in (files.read_text_file, files.file_info, files.count_lines):
        with pytest.raises(DemoToolError, match="outside the working directory"):
            read(path)


def test_links_are_not_searched(folder: Path) -> None:
    assert "contains 'secret'" in files.search_in_files("secret")
    with pytest.raises(DemoToolError, match="outside"):
        files.list_files("up")


@pytest.mark.parametrize("path", ["blob.bin", "docs", "missing.txt", "a\0b", ""])
def test_what_is_no_text_file_is_said(folder: Path, path: str) -> None:
    with pytest.raises(DemoToolError):
        files.read_text_file(path)


def test_patterns_that_could_be_slow_are_refused(folder: Path) -> None:
    with pytest.raises(DemoToolError, match="more than four"):
        files.find_files("*a*a*a*a*a*b")


# -- the rest --------------------------------------------------------------------------------------------------------


def test_chance_stays_in_bounds() -> None:
    assert all(5 <= chance.random_number(5, 7) <= 7 for _ in range(50))
    assert re.fullmatch(r"\d \+ \d = \d+", chance.roll_dice(2))
    assert chance.flip_coin() in ("heads", "tails")
    assert chance.pick_random(["tea"]) == "tea"
    assert sorted(chance.shuffle_list(["b", "a", "c"])) == ["a", "b", "c"]
    assert re.fullmatch(r"[0-9a-f-]{36}", chance.generate_uuid())
    assert re.fullmatch(r"[A-Za-z0-9]{20}", chance.generate_password(20, symbols=False))
    with pytest.raises(DemoToolError, match="larger than"):
        chance.random_number(2, 1)


def test_colours() -> None:
    assert colours.describe_colour("#1e90ff")["nearest_name"] == "dodgerblue"
    assert colours.describe_colour("teal")["hsl"] == "hsl(180, 100%, 25%)"
    assert colours.describe_colour("#fff")["rgb"] == "rgb(255, 255, 255)"
    assert colours.describe_colour("rgb(1, 2, 3)")["rgb"] == "rgb(1, 2, 3)"
    assert colours.mix_colours("black", "white").startswith("black and white mixed: #808080")
    assert colours.contrast_ratio("black", "white") == "21.00:1, passes AAA"
    assert colours.invert_colour("white") == "#000000"
    for bad in ("#12", "rgb(1,2,300)", "blurple"):
        with pytest.raises(DemoToolError, match="unknown colour"):
            colours.describe_colour(bad)


def test_places() -> None:
    assert places.country_facts("france")["capital"] == "Paris"
    assert places.country_facts("the UK")["country"] == "United Kingdom"
    assert places.country_of_capital("kyiv") == "Kyiv is the capital of Ukraine."
    assert places.list_countries("Oceania", "population").startswith("Australia")
    kilometres = int(
        re.sub(r".*about ([\d,]+) km.*", r"\1", places.distance_between_capitals("Paris", "Rome")).replace(",", "")
    )
    assert 1090 < kilometres < 1120
    with pytest.raises(DemoToolError, match="did you mean Germany"):
        places.country_facts("Germny")


def test_every_country_has_sane_facts() -> None:
    assert len({country.name for country in places.COUNTRIES}) == len(places.COUNTRIES) >= 60
    for country in places.COUNTRIES:
        assert -90 <= country.latitude <= 90
        assert -180 <= country.longitude <= 180
        assert 0 < country.population_millions < 1600
        assert country.capital
        assert country.currency


def test_system_tells_no_names(folder: Path) -> None:
    assert set(system.system_info()) == {"operating_system", "machine", "cpus", "python"}
    assert system.disk_space()["total"].endswith("GB")
    assert system.working_directory() == str(folder.resolve())


@each_row(
    "query, name",
    [
        ("what time is it in Tokyo", "get_current_time"),
        ("what's the time in Paris?", "get_current_time"),
        ("how many days are left until Christmas", "days_between"),
        ("is 97 prime", "is_prime"),
        ("what is the capital of France", "country_of_capital"),
    ],
)
def test_everyday_questions_find_their_tool_by_words_alone(query: str, name: str) -> None:
    assert name in [match.tool.name for match in searched().search(query).matches]


@cache
def searched() -> ToolIndex:
    tools = [
        ToolDefinition(tool.name, tool.description or "", tool.input_schema, "demo", tool.name)
        for tool in asyncio.run(build_server().list_tools())
    ]
    index = ToolIndex("bm25")
    index.replace("demo", tools)
    return index
