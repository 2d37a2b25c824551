"""`mcpagent tools`: tokens, calls, checks of descriptions and of the search, the cache; and `/why` in the chat."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent import Agent, ToolSearch
from mcpagent.cli.chat.slash.slash_tools import why_lines
from mcpagent.cli.chat.trace import Trace
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.options import Options
from mcpagent.cli.oneshot.agent_options import search_history
from mcpagent.cli.screen.terminal import open_terminal
from mcpagent.cli.tools_command.examples_commands import add_example
from mcpagent.cli.tools_command.tool_commands import (
    call_tool,
    count_tokens,
    evaluate_search,
    lint_tools,
    list_tools,
    read_arguments,
    search_tools,
    show_learned,
)
from mcpagent.errors import InputError
from mcpagent.gateway.gateway_log import (
    NEXT_CALL_SECONDS,
    GatewayEvent,
    GatewayLog,
    log_folder,
)
from mcpagent.models import ScriptedModel
from mcpagent.values.events import Event
from mcpagent.values.messages import Document, Image, Text, ToolCall, ToolKey
from mcpagent.values.tools import ToolOutput
from tests.mcp.lists.test_shown_tools import SERVER as SMUGGLER
from tests.tables import each_row
from tests.terminal.process import SMALL_SERVER, server_option
from tests.terminal.warm import on_a_terminal, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX terminals")

Read = Callable[[], str]


@pytest.fixture
def out(capsys: pytest.CaptureFixture[str]) -> Read:
    return lambda: capsys.readouterr().out


def options(tmp_path: Path, mode: str = "good", **changes: Any) -> Options:
    server = (f"small='{sys.executable}' '{SMALL_SERVER}' {mode}",)
    environ = {"MCPAGENT_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    return replace(Options(server=server, environ=environ, folder=tmp_path), **changes)


def as_json(chosen: Options) -> Options:
    return replace(chosen, output="json")


# --- the cache --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_known_server_is_not_started_again(tmp_path: Path, out: Read) -> None:
    server = tmp_path / "server.py"
    server.write_text(SMALL_SERVER.read_text("utf-8"), "utf-8")
    chosen = options(tmp_path, server=(f"small='{sys.executable}' '{server}' good",))
    assert list_tools(chosen, "weather") == ExitCode.OK
    first = out()
    server.unlink()
    assert list_tools(chosen, "weather") == ExitCode.OK
    assert out() == first
    assert search_tools(chosen, "weather", 5, explain=True) == ExitCode.OK
    assert "get_weather" in out()
    refreshed = run(["tools", "--refresh", "--server", chosen.server[0]], tmp_path)
    assert refreshed.returncode == 5
    assert "small" in refreshed.stderr


# --- search -----------------------------------------------------------------------------------------------------------


def test_a_search_explains_itself(tmp_path: Path, out: Read) -> None:
    chosen = options(tmp_path)
    assert search_tools(chosen, "weather in Atlantis", 5, explain=True) == ExitCode.OK
    head = out().splitlines()[0]
    assert "4 tools, 1 server" in head
    assert "cached" not in head
    assert "not in any tool: atlantis" in head
    assert search_tools(chosen, "weather", 5, explain=True) == ExitCode.OK
    text = out()
    assert re.search(r"4 tools, 1 server, cached \d+ s ago", text)
    assert re.search(r"adding 1(-\d)? takes [\d,]+ tokens; all known tools: [\d,]+ tokens", text)
    assert "weather(name" in text


def test_a_search_that_finds_nothing_says_how_near_it_came(tmp_path: Path, out: Read) -> None:
    chosen = options(tmp_path)
    assert search_tools(chosen, "who wrote the Odyssey", 5, explain=False) == ExitCode.ERROR
    said = re.search(r"no confident match \(best (\d\.\d\d), needed (\d(\.\d+)?)\)", out())
    assert said is not None
    assert float(said[1]) < float(said[2])
    assert search_tools(as_json(chosen), "who wrote the Odyssey", 5, explain=False) == ExitCode.ERROR
    document = json.loads(out())
    assert document["strength"] < document["least"] == float(said[2])


def test_what_was_learned_is_shown_and_cleared(tmp_path: Path, out: Read) -> None:
    chosen = options(tmp_path)
    assert show_learned(chosen, clear=False) == ExitCode.OK
    assert "nothing learned yet" in out()
    assert not list((tmp_path / "home").rglob("*.sqlite3"))
    learned = [ToolKey("small", "get_weather")]
    search_history(chosen).record("who was the wisest of the city", added=learned, called=learned)
    assert search_tools(replace(chosen, learn=True), "who was the wisest of the city", 5, explain=True) == ExitCode.OK
    assert "served such a query" in out()
    assert search_tools(chosen, "who was the wisest of the city", 5, explain=True) == ExitCode.OK
    assert re.search(r"weak matches \(odds [01]\.\d\d, sure from 2\)", out())
    assert show_learned(chosen, clear=False) == ExitCode.OK
    assert re.search(r"s +1 +1 +small.get_weather +who was the wisest of the city", out())
    assert show_learned(as_json(chosen), clear=False) == ExitCode.OK
    (use,) = json.loads(out())["uses"]
    assert (use["query"], use["tool"], use["called"]) == ("who was the wisest of the city", "small.get_weather", 1)
    assert show_learned(chosen, clear=True) == ExitCode.OK
    assert out() == "forgot 1 use\n"
    assert search_history(chosen).uses() == []


def test_a_broken_history_is_one_line(tmp_path: Path) -> None:
    chosen = options(tmp_path)
    path = search_history(chosen).path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database, but long enough to be taken for one" * 20)
    with pytest.raises(InputError, match="delete the file"):
        show_learned(chosen, clear=True)


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_tokens_are_summed_by_server_or_tool(tmp_path: Path, out: Read) -> None:
    assert count_tokens(as_json(options(tmp_path)), "tool", 20) == ExitCode.OK
    by_tool = json.loads(out())
    assert set(by_tool["tokens"]) == {"get_weather", "hostile_text", "wait_seconds", "fail_always"}
    assert sum(by_tool["tokens"].values()) == by_tool["everything"]
    assert list(by_tool["tokens"].values()) == sorted(by_tool["tokens"].values(), reverse=True)
    assert count_tokens(as_json(options(tmp_path)), "server", 20) == ExitCode.OK
    assert json.loads(out())["tokens"] == {"small": by_tool["everything"]}
    assert count_tokens(options(tmp_path), "tool", 1) == ExitCode.OK
    assert "3 more" in out()


# --- calls ------------------------------------------------------------------------------------------------------------

SCHEMA = {
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "share": {"type": "number"},
        "loud": {"type": "boolean"},
    }
}


@each_row(
    "words, expected",
    [
        (["city=Tokyo"], {"city": "Tokyo"}),
        (["city=3"], {"city": "3"}),
        (["city=a=b", "other="], {"city": "a=b", "other": ""}),
        (["days=3"], {"days": 3}),
        (["days=3.5"], {"days": "3.5"}),
        (["days=true"], {"days": "true"}),
        (["share=3", "loud=true"], {"share": 3, "loud": True}),
        (["loud=yes"], {"loud": "yes"}),
        (['tags:=["a"]', "n:=null"], {"tags": ["a"], "n": None}),
    ],
)
def test_arguments_are_what_the_schema_says(words: list[str], expected: dict[str, Any]) -> None:
    assert read_arguments(words, SCHEMA) == expected


@given(st.text(), st.text())
def test_a_text_argument_arrives_as_it_was_typed(name: str, value: str) -> None:
    if name and "=" not in name and not name.endswith(":"):
        assert read_arguments([f"{name}={value}"], {}) == {name: value}


@each_row("words", [["city"], ["=x"], ["n:=[1"], [":=1"]])
def test_what_is_no_argument_is_told(words: list[str]) -> None:
    with pytest.raises(InputError):
        read_arguments(words, SCHEMA)


def test_words_are_added_to_a_whole_object() -> None:
    assert read_arguments(["days=2"], SCHEMA, '{"city": "Rome", "days": 1}') == {"city": "Rome", "days": 2}
    with pytest.raises(InputError, match="JSON object"):
        read_arguments([], SCHEMA, "[1]")


@each_row("whole", ["", " \n"])
def test_nothing_on_stdin_is_said_to_be_nothing(whole: str) -> None:
    with pytest.raises(InputError, match="the arguments: is empty; write JSON, "):
        read_arguments([], SCHEMA, whole)


def test_a_tool_is_called_without_a_model(tmp_path: Path, out: Read, capsys: pytest.CaptureFixture[str]) -> None:
    assert call_tool(options(tmp_path), "small.get_weather", ["city=Tokyo"], None) == ExitCode.OK
    assert out() == "Tokyo: 18 degrees\n"
    assert call_tool(as_json(options(tmp_path)), "get_weather", [], '{"city": "Rome"}') == ExitCode.OK
    assert json.loads(out()) == {"content": [{"type": "text", "text": "Rome: 18 degrees"}], "error": None}
    assert call_tool(options(tmp_path), "fail_always", [], None) == ExitCode.ERROR
    printed = capsys.readouterr()
    assert (printed.out, printed.err.splitlines()[0]) == ("", "line 0")
    with pytest.raises(InputError, match=r"'city' is a required property.*get_weather\(city: str\)"):
        call_tool(options(tmp_path), "get_weather", [], None)
    with pytest.raises(InputError, match="did you mean get_weather"):
        call_tool(options(tmp_path), "small.get_wether", [], None)
    with pytest.raises(TimeoutError, match=r"wait_seconds gave no answer within 0\.2 s"):
        call_tool(options(tmp_path, timeout=0.2), "wait_seconds", ["seconds=9"], None)


def test_what_a_tool_gave_moves_nothing_that_reads_the_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.json").write_text(
        json.dumps("a\x1b]8;;http://e\x07b\x9b2J\u202ec\u200bd 👩\u200d💻\r\n\te"), "utf-8"
    )
    server = f"odd='{sys.executable}' '{SMUGGLER}' '{tmp_path / 'text.json'}'"
    chosen = replace(options(tmp_path), server=(server,))
    assert call_tool(chosen, "odd.say", ["how=text"], None) == ExitCode.OK
    assert capsys.readouterr().out == "abcd 👩\u200d💻\r\n\te\n"
    assert call_tool(chosen, "odd.say", ["how=failed"], None) == ExitCode.ERROR
    assert not set("\x1b\x07\x9b\u202e\u200b") & set("".join(capsys.readouterr()))


@pytest.mark.slow
def test_arguments_that_cannot_be_checked_are_sent_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faulty = SMALL_SERVER.parents[1] / "servers" / "faulty_server.py"
    chosen = options(tmp_path, server=(f"faulty='{sys.executable}' '{faulty}' list-hostile-schemas",))
    assert call_tool(chosen, "remote", ["a=1"], None) == ExitCode.ERROR
    told = capsys.readouterr().err
    assert "arguments are not checked; the schema of remote: a reference leads out of it" in told
    assert "unknown tool remote" in told  # by the server, which was asked
    with pytest.raises(InputError, match="text: 'short' is too short"):
        call_tool(chosen, "bomb", ["text=short"], None)


def test_a_misspelt_parameter_is_named_with_the_right_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        InputError, match=r'no parameter "citty"; did you mean city\? signature: get_weather\(city: str'
    ):
        call_tool(options(tmp_path), "get_weather", ["citty=Oslo"], None)
    with pytest.raises(InputError, match="'city' is a required property"):
        call_tool(options(tmp_path), "get_weather", ["zzz=Oslo"], None)
    with pytest.raises(InputError, match="arguments are words of their own: mcpagent tools call get_weather city=Oslo"):
        call_tool(options(tmp_path), "get_weather(city=Oslo)", [], None)
    assert call_tool(options(tmp_path), "get_weather", ["city=Oslo", "zzz=1"], None) == ExitCode.OK
    assert capsys.readouterr().out == "Oslo: 18 degrees\n"


@pytest.mark.slow
def test_a_call_that_ctrl_c_or_the_time_limit_ends_may_have_run(tmp_path: Path) -> None:
    calling = ["tools", "call", "wait_seconds", "seconds=30", *server_option("good", "small")]
    with on_a_terminal(calling, tmp_path) as screen:
        screen.wait_for("calling wait_seconds")
        screen.type("\x03")
        screen.wait_for("! wait_seconds was under way when it was stopped: it may have run")
        assert screen.exit_code() == 130
    done = run([*calling, "--timeout", "0.1"], tmp_path)
    assert done.returncode == 124
    warned, error = done.stderr.splitlines()
    assert warned == "! wait_seconds was under way when it was stopped: it may have run"
    assert error.startswith("error: wait_seconds gave no answer within 0.1 s (--timeout)")


@pytest.mark.slow
def test_a_call_reads_its_arguments_from_stdin(tmp_path: Path) -> None:
    done = run(
        ["tools", "call", "small.get_weather", "-", *server_option("good", "small")],
        tmp_path,
        stdin='{"city": "Oslo"}',
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "Oslo: 18 degrees\n", "")


# --- checks -----------------------------------------------------------------------------------------------------------


def test_lint_without_a_finding_counts_the_tools(tmp_path: Path, out: Read) -> None:
    assert lint_tools(replace(options(tmp_path), server=(), folder=tmp_path)) == ExitCode.OK
    assert out() == "no findings in 83 tools\n"


def test_lint_names_what_cannot_be_found(tmp_path: Path, out: Read) -> None:
    assert lint_tools(as_json(options(tmp_path, "poor"))) == ExitCode.ERROR
    assert {(item["tool"], item["kind"]) for item in json.loads(out())} == {
        ("query", "vague"),
        ("query", "parameters"),
        ("blank", "empty"),
        ("first_twin", "twin"),
        ("second_twin", "twin"),
    }
    assert lint_tools(options(tmp_path)) == ExitCode.ERROR
    assert "wait_seconds  parameters: no text for seconds" in out()


def test_lint_proposes_examples_for_searches_that_found_nothing(tmp_path: Path, out: Read) -> None:
    chosen = options(tmp_path)
    log = GatewayLog(log_folder(chosen.environ))
    nothing: dict[str, Any] = {"kind": "search", "outcome": "nothing", "pid": 1}
    called: dict[str, Any] = {"kind": "call", "outcome": "answered", "pid": 1, "tool": "small__get_weather"}
    for event in (
        GatewayEvent(client="a", query="wwww $(qqqq) 'vvvv'", time=10.0, **nothing),
        GatewayEvent(client="b", query="zzzz xxxx", time=11.0, **nothing),
        GatewayEvent(client="a", query="wwww $(qqqq) 'vvvv'", time=12.0, **nothing),
        GatewayEvent(client="a", query="weather in a city", time=13.0, **nothing),
        GatewayEvent(client="a", time=20.0, **called),
        GatewayEvent(client="b", time=11.0 + NEXT_CALL_SECONDS + 1, **called),
    ):
        log.add(event)
    log.close()
    assert lint_tools(as_json(chosen)) == ExitCode.ERROR
    found = {item["text"].split(";")[0]: item for item in json.loads(out()) if item["kind"] == "unfound"}
    assert len(found) == 2  # the third is found by now
    first = next(item for about, item in found.items() if about.startswith("2 times"))
    assert first["tool"] == "get_weather"
    assert "it was called next" in first["text"]
    command = first["text"].partition("mcpagent tools ")[2]
    words = shlex.split(command)
    assert words == ["examples", "add", "get_weather", "wwww $(qqqq) 'vvvv'"]
    [other] = [item for item in found.values() if item is not first]
    assert "was called next" not in other["text"]
    add_example(chosen, *words[2:])
    out()
    assert lint_tools(as_json(chosen)) == ExitCode.ERROR
    assert "wwww" not in out()


def test_eval_measures_your_own_queries(tmp_path: Path, out: Read) -> None:
    file = tmp_path / "questions.jsonl"
    lines = [
        {"query": "weather in a city", "tools": ["small.get_weather"]},
        {"query": "wait", "tools": ["wait_seconds", "fail_always"]},
    ]
    file.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    chosen = replace(as_json(options(tmp_path)), search_strategy="bm25")
    assert evaluate_search(chosen, file, 3, 0.0) == ExitCode.OK
    data = json.loads(out())
    assert data["recall"] == {"at_1": 0.75, "at_3": 0.75}
    assert data["queries"][1]["places"] == {"wait_seconds": 1, "fail_always": None}
    chosen = replace(options(tmp_path), search_strategy="bm25")
    assert evaluate_search(chosen, file, 3, 0.8) == ExitCode.ERROR
    told = out()
    assert "✗ wait  not found: fail_always" in told
    assert "recall@3 0.750  over 2 queries" in told
    file.write_text(json.dumps(lines[:1]), "utf-8")
    assert evaluate_search(chosen, file, 1, 1.0) == ExitCode.OK


@each_row(
    "text, words",
    [
        ("", "is empty"),
        ("{", ":1: no JSON"),
        ("[1", "no JSON"),
        ('{"query": "x"}', ":1: expected"),
        ('{"query": "x", "tools": [1]}', ":1: expected"),
        ('\n{"query": "x", "tools": ["get_wether"]}', r":2: no tool \"get_wether\"; did you mean get_weather"),
    ],
)
def test_a_wrong_file_names_its_line(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "q"
    file.write_text(text, "utf-8")
    with pytest.raises(InputError, match=words):
        evaluate_search(options(tmp_path), file, 3, 0.0)


# --- why --------------------------------------------------------------------------------------------------------------


async def test_why_tells_what_the_searches_came_to() -> None:
    def book_train(city: str) -> str:
        """Book a train ticket to a city."""
        return city

    def cancel_train(ticket: str) -> str:
        """Cancel a train ticket."""
        return ticket

    def water_plants() -> str:
        """Water the plants."""
        return ""

    trace = Trace()

    def follow(event: Event) -> None:
        nonlocal trace
        trace = trace.after(event, agent)

    script = ScriptedModel(
        [
            ToolCall("", "search_tools", {"query": "train ticket city"}),
            ToolCall("", "add_tool", {"tool_names": ["book_train"]}),
            ToolCall("", "book_train", {"city": "Rome"}),
            "booked",
        ]
    )
    async with Agent(
        script,
        tools=[book_train, cancel_train, water_plants],
        tool_search=ToolSearch(max_results=1),
        on_event=follow,
    ) as agent:

        async def why(name: str) -> str:
            return "\n".join(line.plain for line in await why_lines(agent, trace, name))

        assert "it has to be found first" in await why("book_train")
        assert "has not searched yet" in await why("book_train")
        await agent.ask("book a train")
        booked = await why("book_train")
        assert "is offered since request 3, because the model added it" in booked
        assert 'search 1 (request 1) "train ticket city": place 1 of 2' in booked
        assert "called in request 3" in booked
        cancelled = await why("cancel_train")
        assert "place 2 of 2" in cancelled
        assert "below the 1 shown" in cancelled
        plants = await why("water_plants")
        assert "not among the 2 tools found" in plants
        assert "the best was book_train" in plants
        trace = Trace()
        assert "search 1" not in await why("water_plants")


@pytest.mark.slow
def test_why_in_the_chat(tmp_path: Path) -> None:
    arguments = ["-m", "offline", *server_option("good", "small"), *server_option("dies"), "--tool-search", "on"]
    with on_a_terminal(arguments, tmp_path) as screen:
        screen.wait_for("mcp 1 ok 1!")
        screen.type("/why not get_weather\r")
        screen.wait_for(r"get_weather is not offered: it has to be found first")
        screen.type("/why get_wether\r")
        screen.wait_for("did you mean get_weather")
        screen.wait_for(r"not searched: dies [^>]*GITHUB_TOKEN")  # over two lines while it is tried again
        screen.type("\x04")
        assert screen.exit_code() == 0


def test_files_in_a_result_are_named_by_their_kind_name_and_size(capsys: pytest.CaptureFixture[str]) -> None:
    from mcpagent.cli.tools_command.tool_commands import _write_content

    report = Document("application/pdf", "JVBERi0xLjQK", "report.pdf")
    content = (Text("two files"), report, Image("image/png", "iVBORw0KGgo="))
    _write_content(ToolOutput(content), open_terminal("never"))
    out, err = capsys.readouterr()
    assert out == "two files\n"
    assert err.splitlines() == [
        "document not shown: report.pdf, application/pdf, 9 bytes; --json has it",
        "image not shown: image/png, 8 bytes; --json has it",
    ]
