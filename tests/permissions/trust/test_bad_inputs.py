"""The bad inputs B1 to B44 of the reliability design: each is one line that says where, what and how to fix it.

The rows are tried with the command line, in this process; what only a program can do wrong is tried in Python below.
B37 to B39 need an HTTP server of ours, which there is none of yet.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, Sessions, ToolSearch
from mcpagent.cli.app import run
from mcpagent.errors import AgentStateError, ConfigError, SessionStoreError
from mcpagent.models.base import ModelRequest
from mcpagent.models.scripted import ScriptedModel
from mcpagent.run.validation import argument_problem
from mcpagent.values.events import Event
from mcpagent.values.messages import ToolCall
from tests.scenes import CountedTools, call, results


def entry(**values: Any) -> dict[str, str | bytes | None]:
    """A file with one server, `git`."""
    return {"mcp.json": json.dumps({"mcpServers": {"git": values}})}


def named(name: str) -> dict[str, str | bytes | None]:
    return {"mcp.json": json.dumps({"mcpServers": {name: {"command": "x"}}})}


LIST = ("tools", "list", "--config", "mcp.json")
ASK = ("ask", "hi", "-m", "offline")
NAME = 'server name "{}" must be 1 to 64 of'
SECONDS = "timeout: expected seconds between 0.1 and 86400000, got {}"

MANY = json.dumps({"mcpServers": {f"s{number}": {"command": "x"} for number in range(1_001)}})

ROWS: list[tuple[int, tuple[str, ...], dict[str, str | bytes | None], int, str]] = [
    (1, ("tools", "list", "--config", "no.json"), {}, 3, "no.json: not found; create it or pass another file"),
    (2, ("tools", "list", "--config", "d"), {"d": None}, 3, "d: is a directory; give the JSON file inside it"),
    (2, LIST, {"mcp.json": b" " * 6_000_000}, 3, "mcp.json: larger than 1 MB"),
    (3, LIST, {"mcp.json": '{"mcpServers": {"a": 1 2}}'}, 3, "mcp.json:1:24: expecting ',' delimiter"),
    (4, LIST, {"mcp.json": '\ufeff{// hi\n"mcpServers": {},}'}, 1, ""),
    (5, LIST, {"mcp.json": "[]"}, 3, 'expected an object with "mcpServers", got a list'),
    (5, LIST, {"mcp.json": '{"mcpServers": []}'}, 3, "mcpServers: expected an object of name -> server, got a list"),
    (6, LIST, entry(commnad="x"), 3, 'mcpServers.git.commnad: unknown key "commnad"; did you mean "command"?'),
    (7, LIST, entry(command="x", url="http://a"), 3, 'has both "command" and "url"; give exactly one of them'),
    (7, LIST, entry(), 3, 'has neither "command" nor "url"; give exactly one of them'),
    (8, LIST, entry(command="x", args="y"), 3, 'git.args: expected a list of strings, got "y"'),
    (9, LIST, entry(command="x", env={"PORT": 8080}), 3, 'env.PORT: expected a string, got 8080 (write "8080")'),
    (9, LIST, entry(command="x", env={"PORT": None}), 3, "git.env.PORT: expected a string, got null"),
    (
        10,
        LIST,
        entry(command="x", env={"T": "${B10_MISSING}"}),
        5,
        "environment variable B10_MISSING is not",
    ),
    (11, LIST, entry(command="pythn3"), 5, '"pythn3" is not on PATH; did you mean "python3"?'),
    (11, LIST, entry(command="npx -y 'a b'"), 5, 'line; write "command": "npx", "args": ["-y", "a b"]'),
    (12, LIST, {**entry(command="./x"), "x": "a"}, 5, '"./x" is not executable; fix "command"'),
    (12, LIST, {**entry(command="./x"), "x": None}, 5, '"./x" is a directory; fix "command"'),
    (13, LIST, entry(command="a\0b"), 3, "git.command: contains a NUL character; remove it"),
    (14, LIST, entry(command=sys.executable, cwd="/nope"), 5, 'the folder "/nope" does not exist; fix "cwd"'),
    (15, LIST, entry(url="ftp://a"), 3, 'git.url: only http and https URLs, got "ftp"'),
    (15, LIST, entry(url="localhost:80"), 3, "git.url: write http://localhost:80"),
    (15, LIST, entry(url="http://"), 3, "git.url: has no host; write https://host/path"),
    (15, LIST, entry(url="http://user:hunter22@127.0.0.1:1/"), 5, "git: cannot be reached"),
    (16, LIST, entry(url="http://a", headers={"X": "abc\r\nb"}), 3, "git.headers.X: control character at position 3"),
    (17, LIST, {"mcp.json": '{"mcpServers": {"a.b": {"command": "x"}, "a_b": {"command": "x"}}}'}, 3, 'prefix "a_b"'),
    *((18, LIST, named(name), 3, NAME.format(name)) for name in ("", "x" * 65, "../x", "\U0001f600")),
    *(
        (19, LIST, entry(command="x", timeout=value), 3, "git.timeout: expected seconds")
        for value in (-1, 0, "30s", 1e9)
    ),
    (19, LIST, {"mcp.json": '{"mcpServers":{"git":{"command":"x","timeout":NaN}}}'}, 3, SECONDS.format("nan")),
    (19, LIST, entry(command="x", timeout=True), 3, SECONDS.format("true")),
    (20, LIST, entry(url="http://a", transport="websocket"), 3, 'transport "websocket" is not one of auto, stdio'),
    (
        21,
        LIST,
        {"mcp.json": MANY},
        3,
        "is 1000",
    ),
    (22, ("-p", "hi", "-m", "opnai:gpt-5"), {}, 3, 'no provider for "opnai:gpt-5"; known prefixes: anthropic:'),
    (23, ("-p", "hi", "-m", "openai:gpt-5"), {}, 4, "OPENAI_API_KEY is not set; export OPENAI_API_KEY="),
    (24, ("-p", "  ", "-m", "offline"), {}, 2, "there is no question; write mcpagent -p"),
    (25, ("sessions", "show", "nope"), {}, 2, "no conversation is kept in"),
    (26, (*ASK, "--session", "x" * 1_000_000), {}, 2, "session id: expected 1 to 200 printable characters, got"),
    (
        28,
        ("sessions", "list", "--set", "session_db=s.db"),
        {"s.db": "no database" * 99},
        8,
        "s.db: is no file of sessions",
    ),
    (40, ("ask", "hi", "--modle", "x"), {}, 2, "no such option: --modle; did you mean --model"),
    (40, ("ask", "hi", "--model"), {}, 2, "option '--model' requires an argument"),
    (42, (*ASK, "--json-schema", "s.json"), {"s.json": '{"$ref": "http://x/y"}'}, 3, "http://x/y"),
    (42, (*ASK, "--json-schema", "s.json"), {"s.json": '{"type": "nope"}'}, 3, "nope"),
]


@pytest.fixture
def type_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Runs a command line in a folder with these files; the exit code, and what stood on stderr."""

    def typed(arguments: tuple[str, ...], files: dict[str, str | bytes | None]) -> tuple[int, str]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("MCPAGENT_HOME", str(folder / "home"))
        for name, content in files.items():
            if content is None:
                (folder / name).mkdir()
            else:
                (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        capsys.readouterr()
        code = run(list(arguments))
        return code, capsys.readouterr().err

    return typed


@pytest.mark.parametrize("number", sorted({row[0] for row in ROWS}), ids=lambda number: f"B{number}")
def test_a_bad_input_is_one_line(
    number: int, type_in: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "B10_MISSING", "MCPAGENT_MODEL", "MCPAGENT_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    problems: list[str] = []
    for _, arguments, files, code, words in (row for row in ROWS if row[0] == number):
        found, err = type_in(arguments, files)
        is_one_line = not words or any(words in line for line in err.splitlines())
        if found != code or not is_one_line or "Traceback" in err or "hunter22" in err:
            problems.append(f"{arguments} {str(files)[:100]}: {found} {err[:400]}")
    assert problems == []


def test_b23_a_key_with_a_line_break_or_without_a_value(
    type_in: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, words in (
        ("a\nb", "contains a line break; check your .env"),
        ("", "is empty; export OPENAI_API_KEY="),
    ):
        monkeypatch.setenv("OPENAI_API_KEY", value)
        code, err = type_in(("-p", "hi", "-m", "openai:gpt-5"), {})
        assert (code, f"OPENAI_API_KEY {words}" in err) == (4, True), err


@pytest.mark.slow
def test_b26_an_id_like_a_path_touches_nothing_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    for name in ("../../etc", "/etc/passwd"):
        assert run([*ASK, "-q", "--session", name]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"home"}
    with closing(Sessions(tmp_path / "home" / "data" / "sessions.db")) as store:
        assert sorted(one.id for one in store.sessions()) == ["../../etc", "/etc/passwd"]


@pytest.mark.slow
def test_b24_a_prompt_of_more_than_anybody_reads(type_in: Callable[..., tuple[int, str]]) -> None:
    code, err = type_in(("-p", "x" * 10_000_001, "-m", "offline"), {})
    assert code == 2
    assert "prompt is 10,000,001 characters; the limit is 10,000,000" in err


def test_b27_a_store_of_a_newer_version_is_left_as_it_is(tmp_path: Path) -> None:
    import sqlite3

    with closing(Sessions(tmp_path / "s.db")) as store:
        store.open("a")
        store.release("a")
    with sqlite3.connect(tmp_path / "s.db") as database:
        [(version,)] = database.execute("PRAGMA user_version")
        database.execute(f"PRAGMA user_version = {version + 7}")
    database.close()
    before = (tmp_path / "s.db").read_bytes()
    with pytest.raises(SessionStoreError, match="newer mcpagent"), closing(Sessions(tmp_path / "s.db")) as store:
        store.open("b")
    assert (tmp_path / "s.db").read_bytes() == before


async def refused(*calls: ToolCall, **options: Any) -> list[str]:
    """The results of calls that ran nothing."""
    tools = CountedTools("git_commit", "git_push")
    model = ScriptedModel([list(calls), "ok"])
    async with Agent(model, tools=[tools], **options) as agent:
        await agent.ask("go")
        found = results(agent.messages)
    assert tools.ran == []
    return [result.text for result in found]


async def test_b29_arguments_that_are_no_object_are_not_run() -> None:
    [text] = await refused(ToolCall("1", "git_commit", {}, malformed='{"path": "a'))
    assert "not one complete JSON object" in text


async def test_b30_arguments_that_do_not_fit_are_told_by_path() -> None:
    missing, wrong, large = await refused(
        call("git_commit", "a"), call("git_commit", "b", path=3), call("git_commit", "c", path="x" * 1_100_000)
    )
    assert "path" in missing
    assert "path: 3 is not of type 'string'" in wrong
    assert "larger than" in large


def test_b31_arguments_that_nest_deep_or_are_many_are_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"a": deep}
    assert "deeper than 64" in argument_problem({"type": "object"}, deep)
    assert "larger than" in argument_problem({"type": "object"}, dict.fromkeys(map(str, range(150_000))))


async def test_b32_an_unknown_tool_is_told_with_what_was_meant() -> None:
    near, unknown = await refused(call("git_comit", "a"), call("zzz", "b"))
    assert 'There is no tool "git_comit"' in near
    assert "Did you mean git_commit" in near
    assert 'There is no tool "zzz"' in unknown


@pytest.mark.slow
async def test_b33_a_query_that_cannot_be_searched_is_told() -> None:
    empty, broken, evil, long = await refused(
        call("search_tools", "a", query=""),
        call("search_tools", "b", query="git_(commit"),
        call("search_tools", "c", query="(a+)+$"),
        call("search_tools", "d", query="pay " * 3_000),
        tool_search=ToolSearch(),
    )
    assert "query is empty; pass a few words" in empty
    assert "invalid regex pattern: missing closing )" in broken
    assert '"name": "git_commit"' in broken, "it is searched as words"
    assert '"found": 0' in evil
    assert "only the first 256 words were searched" in long


async def test_b34_add_tool_names_each_of_what_it_was_given() -> None:
    nothing, many, mixed = await refused(
        call("add_tool", "a", tool_names=[]),
        call("add_tool", "b", tool_names=[f"t{number}" for number in range(1_000)]),
        call("add_tool", "c", tool_names=["git_commit", "git_commit", "zzz"]),
        tool_search=ToolSearch(),
    )
    assert "Pass tool_names as an array of texts" in nothing
    assert "1000 tools at once is over the limit of 50" in many
    assert mixed == "Added tools: git_commit\nNot found: zzz"


async def read(**arguments: Any) -> str:
    """The answer to one reading of a large output of a hundred lines, under its own handle if none is given."""

    def get_log() -> str:
        """Return the log."""
        return "\n".join(f"{number} {'x' * 900}" for number in range(1, 101))

    def reading(request: ModelRequest) -> ToolCall:
        told = "".join(part.text for message in request.messages for part in message.tool_results)
        handle = re.search(r"out_\w{12}", told)
        assert handle is not None
        return ToolCall("2", "read_large_output", {"handle": handle[0], **arguments})

    model = ScriptedModel([ToolCall("1", "get_log", {}), reading, "ok"])
    async with Agent(model, tools=[get_log]) as agent:
        await agent.ask("go")
        return results(agent.messages)[-1].text


async def test_b35_an_output_of_another_name_or_place_is_not_read() -> None:
    for handle in ("out_000000000000", "../../etc/passwd", "/etc/passwd", "out_1/../x", ""):
        answer = await read(handle=handle)
        assert answer.startswith("There is no output ")
        assert "root:" not in answer


async def test_b36_a_range_that_is_none_is_told() -> None:
    for arguments, words in (
        ({"start_line": 9, "end_line": 3}, "the start comes first"),
        ({"start_line": 10**9}, "it has 100 lines"),
        ({"start_line": -1}, "Lines 100 to 100 of 100"),
        ({"start_char": "soon"}, "start_char"),
    ):
        assert words in await read(**arguments), arguments


async def test_b43_an_agent_outside_of_its_life_says_so() -> None:
    agent = Agent(ScriptedModel(["ok"]))
    with pytest.raises(AgentStateError, match="async with"):
        await agent.ask("hi")
    async with agent:
        assert await agent.ask("hi") == "ok"
    await agent.aclose()
    await agent.aclose()
    with pytest.raises(AgentStateError, match="not started"):
        await agent.ask("hi")


async def test_b44_a_callback_that_fails_is_logged_and_the_run_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: Event) -> None:
        raise RuntimeError("mine")

    with caplog.at_level(logging.ERROR, "mcpagent"):
        async with Agent(ScriptedModel(["ok"]), on_event=broken) as agent:
            assert await agent.ask("hi") == "ok"
    assert any("broken" in record.getMessage() or "listener" in record.getMessage() for record in caplog.records)
    with pytest.raises(ConfigError, match="on_event"):
        Agent(ScriptedModel([]), on_event=3)  # type: ignore[arg-type]
