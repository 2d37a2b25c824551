"""Chats that last, on a real pseudo-terminal: killed and taken up again, open twice, chosen, not kept at all."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("pty", reason="pseudo-terminals are POSIX")

from mcpagent import Agent, CallsPendingError, ScriptedModel, Sessions, ToolCall
from tests.terminal.process import SMALL_SERVER, Screen, server_option
from tests.terminal.warm import on_a_terminal, run

PROMPT = r"(?m)^>"
BARE = ["-m", "offline", *server_option("good", "small")]
GOOD = [*BARE, "--allow", "small.*"]


def store_in(folder: Path) -> Sessions:
    return Sessions(folder / "home" / "data" / "sessions.db")


def ask(screen: Screen, question: str, answer: str) -> None:
    screen.type(f"{question}\r")
    screen.wait_for(answer)
    screen.wait_for(r"\d requests?")
    screen.wait_for(PROMPT)


def leave(screen: Screen) -> str:
    screen.type("\x04")
    assert screen.exit_code() == 0
    return screen.text


@pytest.mark.slow
def test_a_chat_that_is_killed_in_a_call_goes_on(tmp_path: Path) -> None:
    with on_a_terminal(GOOD, tmp_path) as screen:
        screen.wait_for("connected in")
        ask(screen, "what is the weather in Tokyo?", "Tokyo: 18 degrees")
        screen.type("wait 30 seconds\r")
        screen.wait_for("running wait_seconds")
        os.kill(screen.pid, signal.SIGKILL)
        assert screen.exit_code() == -signal.SIGKILL
    with on_a_terminal([*GOOD, "--continue"], tmp_path) as screen:
        screen.wait_for(r"\+ what is the weather in Tokyo\?")
        screen.wait_for("> wait 30 seconds")
        screen.wait_for("wait_seconds: under way when it ended, so it may have run; it is not made again")
        screen.wait_for(r"this question was not finished; \[Enter\] goes on")
        screen.wait_for(PROMPT)
        screen.type("\r")
        screen.wait_for("Its outcome is\\s+unknown: it may have run")
        screen.wait_for(r"\d requests")
        screen.wait_for(PROMPT)
        screen.type("\r/cost\r")
        screen.wait_for("4 requests in this conversation")
        screen.wait_for("this conversation, since it began: in ")
        screen.wait_for("since this start: in ")
        screen.type("/why get_weather\r")
        screen.wait_for("called in request 1")
        screen.type("/undo\r")
        screen.wait_for("taken back: wait 30 seconds")
        text = leave(screen)
    assert text.count("running wait_seconds") == 0
    session = re.search(r"to go on: mcpagent --resume ([0-9a-f]{8})\n", text)
    assert session is not None
    store = store_in(tmp_path)
    (info,) = store.sessions()
    assert info.id.startswith(session[1])
    assert (info.turns, info.messages) == (1, 4)
    assert "Tokyo: 18 degrees" in store.read(info.id).messages[3].text
    store.close()
    assert stat.S_IMODE((tmp_path / "home" / "data" / "sessions.db").stat().st_mode) == 0o600


@pytest.mark.slow
def test_two_chats_on_one_conversation(tmp_path: Path) -> None:
    with on_a_terminal(GOOD, tmp_path) as first:
        first.wait_for("connected in")
        ask(first, "what is the weather in Tokyo?", "Tokyo: 18 degrees")
        first.type("wait 30 seconds\r")
        first.wait_for("running wait_seconds")
        with on_a_terminal([*GOOD, "-c"], tmp_path) as second:
            second.wait_for(rf'"what is the weather in Tokyo\?" is open in process {first.pid} on ')
            second.wait_for("go on in a copy of it")
            second.type("y\r")
            second.wait_for("this is a copy, without the question that is being answered there")
            second.wait_for("1 turn")
            second.wait_for(PROMPT)
            ask(second, "what is the weather in Rome?", "Rome: 18 degrees")
            leave(second)
        with on_a_terminal([*GOOD, "--resume", "what is the weather"], tmp_path) as third:
            third.wait_for("which one")
            third.wait_for(r"\(open\)")
            third.type("2")
            third.wait_for(r"> 2")
            third.type("\r")
            third.wait_for("is open in process")
            third.wait_for("go on in a copy of it")
            third.type("\r")
            third.wait_for("it was left there; this is a new conversation")
            leave(third)
            assert "to go on" not in third.text
    store = store_in(tmp_path)
    assert sorted(info.turns for info in store.sessions()) == [1, 2]
    store.close()


def test_one_is_chosen_by_typing_and_left_by_esc(tmp_path: Path) -> None:
    store = store_in(tmp_path)

    async def two() -> None:
        async with Agent(ScriptedModel(["12", "7"]), sessions=store) as agent:
            await agent.session().ask("How many lamps are there?")
            await agent.session().ask("How many desks are there?")

    asyncio.run(two())
    store.close()
    with on_a_terminal([*BARE, "-r"], tmp_path) as screen:
        screen.wait_for("2 conversations; arrows or a number")
        screen.type("\x1b")
        assert screen.exit_code() == 0
    with on_a_terminal([*BARE, "-r"], tmp_path) as screen:
        screen.wait_for("2 conversations; arrows or a number")
        screen.type("lamps")
        screen.wait_for("1 conversation;")
        screen.type("\r")
        screen.wait_for(r"\+ How many lamps are there\?")
        screen.wait_for("│ 12")
        screen.wait_for(r"so far with scripted:test; /model scripted:test goes on with it")
        screen.wait_for(PROMPT)
        screen.type("/resume desks\r")
        screen.wait_for(r"\+ How many desks are there\?")
        screen.type("/new\r")
        screen.wait_for(r"new conversation; /resume [0-9a-f]{8} goes back")
        leave(screen)
    with on_a_terminal([*BARE, "-r"], tmp_path, env={"TERM": "dumb"}) as screen:
        screen.wait_for("which one")
        screen.type("lamps\r")
        screen.wait_for(r"\+ How many lamps are there\?")
        screen.type("\x04")
        assert screen.exit_code() == 0
        assert "\x1b" not in screen.raw


@pytest.mark.slow
def test_a_terminal_that_closes_at_a_question_says_no_to_nothing_and_a_stopped_answer_goes_on(tmp_path: Path) -> None:
    with on_a_terminal(BARE, tmp_path) as screen:
        screen.wait_for("connected in")
        screen.type("what is the weather in Tokyo?\r")
        screen.wait_for("run it")
        screen.hang_up()
        assert screen.ended() == 129
    with on_a_terminal([*GOOD, "-c"], tmp_path) as screen:
        screen.wait_for(r"this question was not finished")
        screen.wait_for(PROMPT)
        screen.type("wait 30 seconds\r")
        screen.wait_for("running wait_seconds")
        screen.type("\x03")
        screen.wait_for("stopped; the conversation can go on; /continue goes on with this question")
        screen.wait_for(PROMPT)
        screen.type("/continue\r")
        screen.wait_for(r"cancelled before it (ended|began)")  # on a busy machine it may not have begun
        screen.wait_for(r"\d requests?")
        screen.type("/continue\r")
        screen.wait_for("nothing is unfinished here")
        leave(screen)
    store = store_in(tmp_path)
    (info,) = store.sessions()
    errors = [result.error for message in store.read(info.id).messages for result in message.tool_results]
    store.close()
    assert errors
    assert "denied" not in errors


@pytest.mark.slow
@pytest.mark.parametrize("how", ["option", "variable", "settings"])
def test_nothing_is_kept_if_that_is_asked_for(how: str, tmp_path: Path) -> None:
    if how == "settings":
        (tmp_path / "home" / "config").mkdir(parents=True)
        (tmp_path / "home" / "config" / "config.toml").write_text("sessions = false\n", "utf-8")
    arguments = [*BARE, "--no-session"] if how == "option" else BARE
    with on_a_terminal(arguments, tmp_path, env={"MCPAGENT_SESSIONS": "0"} if how == "variable" else {}) as screen:
        screen.wait_for("connected in")
        screen.type("hello\r")
        screen.wait_for(r"\d request")
        screen.type("/sessions\r")
        screen.wait_for("nothing of this chat is kept")
        assert "to go on" not in leave(screen)
    assert not (tmp_path / "home" / "data" / "sessions.db").exists()
    assert not (tmp_path / "home" / "state" / "history").exists()


@pytest.mark.slow
def test_nothing_is_opened_before_something_is_said(tmp_path: Path) -> None:
    with on_a_terminal(BARE, tmp_path) as screen:
        screen.wait_for("connected in")
        screen.type("/help\r")
        screen.wait_for("/rename TITLE")
        assert "to go on" not in leave(screen)
    assert not (tmp_path / "home" / "data" / "sessions.db").exists()


def test_calls_that_wait_come_up_again_and_are_never_approved_by_themselves(tmp_path: Path) -> None:
    server = {"command": sys.executable, "args": [str(SMALL_SERVER), "good"]}
    store = store_in(tmp_path)

    async def waiting() -> None:
        calls = [ToolCall("1", "get_weather", {"city": "Tokyo"}), ToolCall("2", "wait_seconds", {"seconds": 1})]
        config = {"mcpServers": {"small": server}}
        async with Agent(ScriptedModel([calls]), mcp_config=config, approval=True, sessions=store) as agent:
            with pytest.raises(CallsPendingError):
                await agent.session("pending").ask("The weather, please.")

    asyncio.run(waiting())
    store.close()
    with on_a_terminal([*GOOD, "--resume", "pending"], tmp_path) as screen:  # though rules would let them run
        screen.wait_for("small.get_weather wants to run")
        screen.wait_for("run it")
        screen.type("y\r")
        screen.wait_for("small.wait_seconds wants to run")
        screen.wait_for("run it")
        screen.type("not today\r")
        screen.wait_for("Tokyo: 18 degrees")
        screen.wait_for("not today")
        screen.wait_for(r"\d request")
        leave(screen)
    store = store_in(tmp_path)
    kept = store.read("pending")
    store.close()
    assert not kept.values.get("pending")
    assert [result.error for message in kept.messages for result in message.tool_results] == [None, "denied"]


@pytest.mark.parametrize(
    "what",
    ["damaged", *(pytest.param(what, marks=pytest.mark.slow) for what in ("newer", "folder", "full"))],
)
def test_a_store_that_cannot_be_used_costs_no_question(what: str, tmp_path: Path) -> None:
    file, env = tmp_path / "s.db", dict[str, str]()
    if what == "newer":
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA user_version = 99")
    elif what == "damaged":
        file.write_bytes(b"no database" * 500)
    elif what == "folder":
        file.mkdir()
    else:  # no file takes a byte: what `ulimit -f 0` sets
        (tmp_path / "starts").mkdir()
        limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        (tmp_path / "starts" / "sitecustomize.py").write_text(limit)
        env = {"PYTHONPATH": os.pathsep.join((str(tmp_path / "starts"), str(SMALL_SERVER.parents[2])))}
    arguments = [*GOOD, "--set", f"session_db={file}"]
    with on_a_terminal(arguments, tmp_path, columns=300, env=env) as screen:
        screen.wait_for("connected in")
        screen.type("what is the weather in Tokyo?\r")
        told = screen.wait_for("the chat goes on in memory: what is said from here on is not kept")
        assert "s.db: " in told
        screen.wait_for("Tokyo: 18 degrees")
        ask(screen, "what is the weather in Rome?", "Rome: 18 degrees")
        screen.type("/undo\r")
        screen.wait_for("taken back: what is the weather in Rome")
        screen.type("/new\r")
        screen.wait_for("new conversation")
        text = leave(screen)
    assert text.count("the chat goes on in memory") == 1
    assert "Traceback" not in text
    assert "to go on" not in text


def test_one_that_cannot_be_read_is_told_and_a_new_one_begins(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_bytes(b"no database" * 500)
    with on_a_terminal([*BARE, "--set", "session_db=s.db", "--resume"], tmp_path, columns=300) as screen:
        screen.wait_for(r"s\.db: is no file of sessions.*; a new conversation begins")
        screen.wait_for(PROMPT)
        leave(screen)
    with on_a_terminal([*BARE, "-c"], tmp_path) as screen:
        screen.wait_for("no conversation of this folder is kept; a new one begins")
        screen.wait_for(PROMPT)
        leave(screen)


def test_without_a_terminal_there_is_a_list_and_an_error(tmp_path: Path) -> None:
    store = store_in(tmp_path)

    async def two() -> None:
        async with Agent(ScriptedModel(["12", "7"]), sessions=store) as agent:
            await agent.session("a").ask("How many lamps are there?")
            await agent.session("b").ask("How many desks are there?")

    asyncio.run(two())
    store.close()
    done = run([*BARE, "--resume"], tmp_path, stdin="And now?")
    assert done.returncode == 2
    assert "How many lamps are there?" in done.stderr
    assert "there are 2 conversations; name one by its id" in done.stderr
    done = run([*BARE, "--resume", "lamps"], tmp_path, stdin="hello")
    assert done.returncode == 0
    document = json.loads(run(["sessions", "show", "a", "--json"], tmp_path).stdout)
    assert (document["id"], document["turns"]) == ("a", 2)
