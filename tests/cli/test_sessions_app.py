"""`mcpagent sessions`, and questions asked in one with -p: what is kept, found, copied, forgotten, and refused."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mcpagent import Agent, ScriptedModel, Sessions, approval_required
from mcpagent.cli.app import run as run_here
from mcpagent.cli.chat.session_picker import Choice
from mcpagent.cli.chat.session_rows import session_rows
from mcpagent.cli.common.options import Options
from mcpagent.cli.common.stored_sessions import resume_words, session_to_ask, short_id
from mcpagent.cli.sessions_command.sessions_changed import seconds_of
from mcpagent.errors import InputError
from mcpagent.journal.sessions import SessionInfo
from mcpagent.permissions.approval_policy import ApprovalPolicy
from mcpagent.values.approval import CallAnswer, PendingCall
from tests.cli.event_schema import DOCUMENTS
from tests.scenes import call
from tests.tables import each_row

OURS = "0123456789abcdef" * 2


class Home:
    """A user's folders with some conversations, and the command in this process."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.file = folder / "home" / "data" / "sessions.db"

    def store(self) -> Sessions:
        return Sessions(self.file)

    def say(self, session: str, *said: str, title: str = "") -> None:
        """A conversation of questions and answers."""

        async def converse() -> None:
            store = self.store()
            async with Agent(ScriptedModel([*said[1::2]]), sessions=store) as agent:
                for question in said[::2]:
                    await agent.session(session).ask(question)
            if title:
                store.rename(session, title)
            store.close()

        asyncio.run(converse())

    def run(self, *words: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        self._capsys.readouterr()
        code = run_here(words)
        out, err = self._capsys.readouterr()
        return code, out, err

    def infos(self) -> dict[str, SessionInfo]:
        store = self.store()
        infos = {info.id: info for info in store.sessions()}
        store.close()
        return infos


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Home:
    for name in [name for name in os.environ if name.startswith("MCPAGENT_") or name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    (tmp_path / "none.json").write_text('{"mcpServers": {}}', "utf-8")  # not even the bundled server is started
    monkeypatch.setenv("MCPAGENT_CONFIG", "none.json")
    monkeypatch.chdir(tmp_path)
    return Home(tmp_path, capsys)


def test_looking_makes_no_store(home: Home) -> None:
    assert home.run("sessions")[:2] == (0, f"no conversation is kept in {home.file.relative_to(home.folder)}\n")
    assert home.run("sessions", "list", "--json")[1] == "[]\n"
    assert home.run("sessions", "search", "x")[0] == 1
    assert home.run("sessions", "doctor")[0] == 0
    assert home.run("sessions", "prune", "1d", "--yes")[0] == 0
    for command in ("show", "export", "fork", "delete"):
        code, _, err = home.run("sessions", command, "x")
        assert code == 2
        assert "no conversation is kept in" in err
    assert not home.file.exists()


def test_list_show_search(home: Home) -> None:
    home.say(OURS, "How many lamps are there?", "Twelve lamps.")
    home.say("desks", "How many desks are there?", "Seven \x1b[31mdesks.", title="about \x1b[2J desks")
    code, out, _ = home.run("sessions", "list")
    assert code == 0
    rows = out.splitlines()
    assert [row.split()[0] for row in rows] == ["desks", OURS[:8]]
    assert "about" in rows[0]
    assert "scripted" not in rows[0]
    assert "1 turn" in rows[1]
    assert "\x1b" not in out
    assert [info["id"] for info in json.loads(home.run("sessions", "list", "lamps", "--json")[1])] == [OURS]
    assert home.run("sessions", "list", "-k", "1")[2].strip() == "1 more; -k 2 shows all"

    for wanted in (OURS, OURS[:6], "lamps", "twelve lamps"):
        code, out, _ = home.run("sessions", "show", wanted)
        assert code == 0
        assert OURS in out
        assert "> How many lamps are there?" in out
        assert "Twelve lamps." in out
        assert f"mcpagent --resume {OURS[:8]}" in out
    document = json.loads(home.run("sessions", "show", "desks", "--json")[1])
    assert (document["id"], document["turns"], len(document["history"])) == ("desks", 1, 2)

    code, out, err = home.run("sessions", "show", "a")
    assert code == 2
    assert "means 2 conversations; name one by its id" in err
    assert len(err.splitlines()) == 3

    code, out, err = home.run("sessions", "search", "seven")
    assert code == 0
    assert out.splitlines()[0].startswith("desks  about")
    assert "Seven [31mdesks." in out.splitlines()[1]
    assert "mcpagent --resume desks goes on with the first" in err
    [found] = json.loads(home.run("sessions", "search", "seven", "--json")[1])
    assert (found["session"]["id"], found["place"]) == ("desks", 1)
    assert home.run("sessions", "search", "nothing like it")[0] == 1


def test_of_this_folder(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.say("there", "There?", "Yes.")
    (home.folder / "other").mkdir()
    monkeypatch.chdir(home.folder / "other")
    home.say("here", "Here?", "Yes.")
    assert [line.split()[0] for line in home.run("sessions", "list", "--here")[1].splitlines()] == ["here"]
    row = next(line for line in home.run("sessions", "list")[1].splitlines() if line.startswith("there"))
    assert home.folder.name in row


MINUTE = r"\d\d:\d\d UTC"
"""When an export was made: a minute may begin between two of them."""


def test_rename_fork_export(home: Home) -> None:
    home.say(OURS, "How many lamps are there?", "Twelve.", "And desks?", "Seven.")
    assert home.run("sessions", "rename", "lamps", "the", "stock")[0] == 0
    assert home.infos()[OURS].title == "the stock"
    code, out, _ = home.run("sessions", "fork", "stock", "a", "copy")
    assert code == 0
    (copy,) = [info for info in home.infos().values() if info.id != OURS]
    assert (copy.title, copy.messages) == ("a copy", 4)
    assert f"mcpagent --resume {copy.id[:8]}" in out
    code, out, _ = home.run("sessions", "export", OURS)
    assert out.startswith("# ")
    assert "scripted:test" in out
    assert "Twelve." in out
    document = json.loads(home.run("sessions", "export", OURS, "-o", "json")[1])
    assert [message["role"] for message in document["messages"]] == ["user", "assistant"] * 2
    assert home.run("sessions", "export", OURS, "x.html")[0] == 0
    assert stat.S_IMODE((home.folder / "x.html").stat().st_mode) == 0o600
    code, _, err = home.run("sessions", "export", OURS, "x.html")
    assert code == 2
    assert "there is such a file already" in err
    assert home.run("sessions", "export", OURS, "x.txt")[0] == 0
    written = (home.folder / "x.txt").read_text("utf-8")
    assert re.sub(MINUTE, "", written) == re.sub(MINUTE, "", out)
    code, _, err = home.run("sessions", "export", OURS, "x.pdf")
    assert (code, err.splitlines()) == (
        2,
        ["error: x.pdf: no format .pdf; name a .md, .txt, .json or .html file, or the format with -o"],
    )
    assert not (home.folder / "x.pdf").exists()
    assert home.run("sessions", "export", OURS, "x.pdf", "-o", "md")[0] == 0


def test_show_marks_calls_that_were_declined_or_failed(home: Home) -> None:
    def read(path: str) -> str:
        raise OSError(f"no disk for {path}")

    def write(path: str) -> str:
        return f"{path} written"

    def look() -> str:
        return "lamps"

    async def decide(request: PendingCall) -> CallAnswer:
        return request.deny("not now")

    async def converse() -> None:
        store = home.store()
        policy = ApprovalPolicy(decide=decide)
        model = ScriptedModel([[call("read", path="a"), call("write", path="b"), call("look")], "Done."])

        async with Agent(
            model, tools=[read, approval_required([write]), look], approval=policy, sessions=store
        ) as agent:
            await agent.session(OURS).ask("Copy a to b")
        store.close()

    asyncio.run(converse())
    shown = home.run("sessions", "show", OURS)[1].splitlines()
    assert [line.strip() for line in shown if "path=" in line or "look" in line] == [
        "✗ read  path=a  failed",
        "✗ write  path=b  denied",
        "● look",
    ]


def test_delete_and_prune_ask(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for session in ("old", "older", "new"):
        home.say(session, f"Something {session}?", "Yes.")
    with closing(sqlite3.connect(home.file)) as connection, connection:
        connection.execute(
            "UPDATE entries SET data = json_set(data, '$.updated', json_extract(data, '$.updated') - 40 * 86400)"
            " WHERE key = 'info/summary' AND session LIKE 'old%'"
        )
    for words in (("delete", "new"), ("prune", "30d")):
        code, _, err = home.run("sessions", *words)
        assert code == 2
        assert "--yes deletes without a question" in err
    assert len(home.infos()) == 3
    code, out, err = home.run("sessions", "prune", "30d", "--yes")
    assert (code, out) == (0, "✓ deleted 2 conversations\n")
    assert "Something older?" in err
    assert list(home.infos()) == ["new"]
    assert home.run("sessions", "delete", "new", "--yes")[0] == 0
    assert not home.infos()
    assert home.run("sessions", "prune", "soon", "--yes")[0] == 2


def test_one_that_is_open_elsewhere_is_copied_up_to_where_it_is_finished_and_not_deleted(home: Home) -> None:
    home.say("open", "First?", "One.")
    code = (
        "import asyncio, sys\n"
        "from mcpagent import Agent, ScriptedModel, Sessions\n"
        "def model(request):\n"
        "    print('asked', flush=True)\n"
        "    sys.stdin.readline()\n"
        "    return 'Two.'\n"
        "async def main():\n"
        f"    store = Sessions({str(home.file)!r})\n"
        "    async with Agent(ScriptedModel([model]), sessions=store) as agent:\n"
        "        await agent.session('open').ask('Second?')\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        assert "(open)" in home.run("sessions")[1]
        code_, _, err = home.run("sessions", "delete", "open", "--yes")
        assert code_ == 8
        assert f"process {process.pid} on " in err
        code_, out, _ = home.run("sessions", "fork", "open", "copy")
        assert code_ == 0
        assert "without the question that is being answered there" in out
        code_, out, _ = home.run("-p", "hello", "--session", "open", "-m", "offline", "-o", "json")
        document = json.loads(out)
        assert code_ == 8
        assert document["error"]["kind"] == "session"
        assert f"process {process.pid} on " in document["error"]["message"]
    finally:
        process.communicate("\n", timeout=60)
    assert {info.title: info.messages for info in home.infos().values()} == {"First?": 4, "copy": 2}


@pytest.mark.parametrize("what", ["newer", "damaged", "a folder"])
def test_a_store_that_cannot_be_used_is_one_line_and_an_exit_code(home: Home, what: str) -> None:
    file = home.folder / f"{what}.db"
    if what == "newer":
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA user_version = 99")
    elif what == "damaged":
        file.write_bytes(b"no database" * 500)
    else:
        file.mkdir()
    for words in (("sessions", "list"), ("sessions", "search", "x"), ("-p", "hi", "--session", "a", "-m", "offline")):
        code, out, err = home.run(
            *words, "--set", f"session_db={file.name}", *(() if words[0] == "sessions" else ("-q",))
        )
        assert (code, out) == (8, "")
        assert err.startswith(f"error: {file}: ")
        assert len(err.splitlines()) == 1
    code, out, _ = home.run("sessions", "doctor", "--set", f"session_db={file.name}")
    assert code == 8
    assert len(out.splitlines()) == 1
    assert json.loads(home.run("sessions", "doctor", "--set", f"session_db={file.name}", "--json")[1])["wrong"]


def test_doctor_says_that_all_is_well(home: Home) -> None:
    home.say("a", "One?", "Yes.")
    code, out, _ = home.run("sessions", "doctor")
    assert code == 0
    assert "1 conversation, whole" in out


def test_doctor_counts_what_was_set_aside(home: Home) -> None:
    home.say("a", "One?", "Yes.")
    store = home.store()
    store.open("a")
    store.put_output("a", "out_1", {"tool": "get", "output": "x" * 5_000, "images": "[]"}).result(30)
    store.close()
    assert "1 conversation, whole; 1 large result set aside, 5,040 characters" in home.run("sessions", "doctor")[1]
    assert json.loads(home.run("sessions", "doctor", "--json")[1])["large_results"] == 1


# -- one question in a session ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_question_is_kept_only_when_asked_for(home: Home) -> None:
    code, out, _ = home.run("-p", "6 times 7", "-m", "offline", "-o", "json")
    assert code == 0
    assert json.loads(out)["session_id"] is None
    assert not home.file.exists()
    code, out, _ = home.run("ask", "6 times 7", "--session", "job", "-m", "offline", "-o", "json")
    assert code == 0
    assert json.loads(out)["session_id"] == "job"
    assert home.infos()["job"].turns == 1
    assert stat.S_IMODE(home.file.stat().st_mode) == 0o600
    code, out, _ = home.run("-p", "5 times 5", "--session", "job", "-m", "offline", "-o", "json")
    assert json.loads(out)["session_id"] == "job"
    assert home.infos()["job"].turns == 2
    code, out, _ = home.run("-p", "4 times 4", "--continue", "-m", "offline", "-o", "json")
    assert json.loads(out)["session_id"] == "job"
    assert home.infos()["job"].turns == 3
    assert "session_id" in DOCUMENTS["result"].names


def test_continue_begins_one_where_there_is_none_and_says_so(home: Home) -> None:
    code, out, err = home.run("-p", "6 times 7", "-c", "-m", "offline", "-o", "json")
    assert code == 0
    assert "no conversation of this folder is kept; a new one begins" in err
    assert list(home.infos()) == [json.loads(out)["session_id"]]


def test_a_conversation_stays_in_its_folder_and_elsewhere_one_line_reports_that(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.say("job", "First?", "Yes.")
    elsewhere = home.folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("MCPAGENT_CONFIG", str(home.folder / "none.json"))
    monkeypatch.chdir(elsewhere)
    line = "where -c finds it; files, servers and approvals here are those of this folder"
    code, _, err = home.run("-p", "5 times 5", "--session", "job", "-m", "offline")
    assert code == 0
    assert f"begun in {home.folder}, {line}" in err
    assert home.infos()["job"].folder == str(home.folder)
    assert home.infos()["job"].turns == 2
    assert line not in home.run("-p", "6 times 6", "--session", "job", "-m", "offline", "-q")[2]
    monkeypatch.chdir(home.folder)
    code, out, err = home.run("-p", "4 times 4", "--continue", "-m", "offline", "-o", "json")
    assert json.loads(out)["session_id"] == "job"
    assert line not in err


def test_what_cannot_be_a_session_is_an_error(home: Home) -> None:
    for words in (("--session", ""), ("--session", "a\nb"), ("--session", "x", "--continue")):
        code, out, _ = home.run("-p", "hello", *words, "-m", "offline", "-q")
        assert (code, out) == (2, "")


def test_a_project_cannot_say_where_conversations_are_kept(home: Home) -> None:
    (home.folder / ".mcpagent.toml").write_text('session_db = "stolen.db"\nsessions = true\n', "utf-8")
    code, _, err = home.run("-p", "6 times 7", "--session", "job", "-m", "offline")
    assert code == 0
    assert "session_db counts only in your own config.toml" in err
    assert not (home.folder / "stolen.db").exists()
    assert "job" in home.infos()


def test_the_users_own_settings_say_where(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    (home.folder / "home" / "config").mkdir(parents=True)
    (home.folder / "home" / "config" / "config.toml").write_text('session_db = "mine.db"\n', "utf-8")
    assert home.run("-p", "6 times 7", "--session", "job", "-m", "offline")[0] == 0
    assert home.run("sessions")[1].startswith("job")
    assert (home.folder / "mine.db").exists()
    monkeypatch.setenv("MCPAGENT_SESSION_DB", "other.db")
    assert home.run("sessions")[1] == "no conversation is kept in other.db\n"


def test_the_password_of_a_database_is_not_shown(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPAGENT_SESSION_DB", "postgresql://me:hunter2@host/db")
    for words in (("config", "show"), ("config", "show", "--json")):
        code, out, _ = home.run(*words)
        assert code == 0
        assert "postgresql://" in out
        assert "hunter2" not in out


# -- which one is meant, and how it is shown ---------------------------------------------------------------------------


def test_the_beginning_of_an_id_of_ours_will_do_for_a_question_and_a_new_one_is_new(home: Home) -> None:
    home.say(OURS, "One?", "Yes.")
    home.say("build-10", "Two?", "Yes.")
    store, told = home.store(), list[str]()

    def meant(session: str) -> str | None:
        return session_to_ask(Options(session=session, session_db=str(home.file)), store, told.append)

    assert meant(OURS[:8]) == OURS
    assert meant(OURS[:7]) == OURS[:7]
    assert meant("build-1") == "build-1"
    assert meant("fedcba98") == "fedcba98"
    store.close()


def info(session: str, title: str = "", **values: object) -> SessionInfo:
    return SessionInfo(session, title, created=0.0, updated=0.0, **values)  # type: ignore[arg-type]


@each_row("width", [40, 60, 80, 100, 200])
def test_rows_fit_and_hold_nothing_hostile(width: int) -> None:
    infos = [
        info(OURS, "a \x1b[2J title\nwith much in it " * 4, folder="/home/x/" + "deep/" * 20, model="anthropic:claude"),
        info("b", "漢字" * 40, model="\x1b[31mx", turns=1_000, dollars=12.0, cost_known=False),
        info("c"),
    ]
    rows = session_rows(infos, [short_id(item.id) for item in infos], Path("/work"), width, now=3_600.0)
    for row in rows:
        assert row.cell_len < width
        assert "\x1b" not in row.plain
        assert "\n" not in row.plain
    assert "(no words)" in rows[2].plain
    assert "1 h ago" in rows[0].plain


def test_a_number_chooses_and_words_filter() -> None:
    infos = [info(str(at), title) for at, title in enumerate(["lamps", "desks 2", "chairs", "more lamps"])]
    choice = Choice(infos)
    choice.move(-1)
    assert choice.chosen is infos[0]
    choice.move(9)
    assert choice.chosen is infos[3]
    choice.type("2")
    assert choice.chosen is infos[1]
    assert len(choice.shown) == 4
    choice.type("LAMPS")
    assert choice.shown == [infos[0], infos[3]]
    choice.move(1)
    assert choice.chosen is infos[3]
    choice.type("")
    assert list(choice.window(3)) == [0, 1, 2]
    choice.move(3)
    assert list(choice.window(3)) == [1, 2, 3]
    choice.type("lamps nothing")
    choice.move(1)
    assert len(choice.window(10)) == 0
    assert not choice.chosen


def test_the_command_that_goes_on_can_be_pasted(tmp_path: Path) -> None:
    options = Options(environ={"MCPAGENT_HOME": str(tmp_path)}, folder=tmp_path)
    assert resume_words(options, OURS) == f"mcpagent --resume {OURS[:8]}"
    assert resume_words(options, "two words; rm") == "mcpagent --resume 'two words; rm'"
    assert resume_words(options, "-x") == "mcpagent --resume=-x"
    own = Options(environ={}, session_db="my chats.db", card=Path("team"))
    assert resume_words(own, "a") == "mcpagent --resume a --set 'session_db=my chats.db' --card team"
    secret = Options(environ={}, session_db="postgresql://me:secret@host/db")
    assert "secret" not in resume_words(secret, "a")


@each_row("age, seconds", [("30d", 2_592_000), ("12 h", 43_200), ("1W", 604_800), ("1y", 31_536_000)])
def test_ages(age: str, seconds: int) -> None:
    assert seconds_of(age) == seconds


@each_row("age", ["", "d", "30", "-1d", "1.5d", "30 days ago", "9999999d"])
def test_what_is_no_age(age: str) -> None:
    with pytest.raises(InputError, match="write 30d"):
        seconds_of(age)
