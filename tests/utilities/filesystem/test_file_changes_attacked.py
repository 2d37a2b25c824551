"""Files that we write where others may write too: links and pipes that wait there, two writers, and kills."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mcpagent import Agent, Recorder, Replay, RunOptions, ScriptedModel
from mcpagent.cli.common.user_programs import edited
from mcpagent.cli.screen.input import StoredHistory
from mcpagent.config import ServerConfig
from mcpagent.errors import ConfigError, InputError
from mcpagent.mcp.lists.list_cache import CachedServer, ListCache
from mcpagent.mcp.lists.pins import PinStore
from mcpagent.permissions.stored_approvals import StoredApprovals
from mcpagent.search.learning import SearchHistory
from mcpagent.utilities.filesystem.file_changes import write_whole
from mcpagent.values.messages import ToolDefinition, ToolKey
from tests.cli.chat.slash.test_slash_table import answer, scene
from tests.permissions.judging import PRINTS, is_stored
from tests.permissions.trust.canary import fifo
from tests.tables import each_row
from tests.terminal.process import ROOT, environment, run
from tests.utilities.filesystem.test_bounded_files_planted import ONLY_ROOT, SOMEBODY

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX")

SECONDS = 60


async def recorded(path: Path, question: str = "how warm?") -> str:
    async with (
        asyncio.timeout(SECONDS),
        Agent(ScriptedModel(["18"]), options=RunOptions(wrappers=[Recorder(path)])) as agent,
    ):
        return await agent.ask(question)


# -- links, pipes and other people's files where something is to be written --------------------------------------------


async def test_a_recording_empties_no_file_that_a_link_leads_to(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("all my work")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    for name, target in (("run.jsonl", precious), ("dangling.jsonl", tmp_path / "made-by-us.txt")):
        (shared / name).symlink_to(target)
        with pytest.raises(ConfigError, match="is a link; name the file that it leads to, or remove the link"):
            await recorded(shared / name)
    assert precious.read_text() == "all my work"
    assert not (tmp_path / "made-by-us.txt").exists()


@pytest.mark.slow
def test_a_recording_through_a_link_is_refused_in_one_line(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("all my work")
    (tmp_path / "run.jsonl").symlink_to(precious)
    done = run(["-p", "hello", "-m", "offline", "--record", "run.jsonl"], tmp_path)
    assert done.returncode == 3
    assert "is a link; name the file" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert precious.read_text() == "all my work"


async def test_a_recording_waits_for_no_pipe_and_takes_one_that_is_read(tmp_path: Path) -> None:
    path = fifo(tmp_path / "run.jsonl")
    with pytest.raises(ConfigError, match="cannot be written"):
        await recorded(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    assert await recorded(path) == "18"
    first = json.loads(os.read(reader, 65_536).splitlines()[0])
    os.close(reader)
    assert first["type"] == "start"
    assert await recorded(Path(os.devnull)) == "18"


@ONLY_ROOT
async def test_a_recording_goes_into_no_file_of_another_user(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("theirs")
    path.chmod(0o666)
    os.chown(path, SOMEBODY, SOMEBODY)
    with pytest.raises(ConfigError, match="belongs to another user; name another file"):
        await recorded(path)
    assert path.read_text() == "theirs"


async def test_what_is_saved_goes_through_no_link_and_is_never_open_to_others(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("all my work")
    (tmp_path / "talk.json").symlink_to(precious)
    (tmp_path / "here.md").symlink_to(tmp_path / "nothing.txt")
    fifo(tmp_path / "pipe.html")
    before = os.umask(0)
    try:
        async with scene(tmp_path, answer("hello")) as at:
            await at.ask("go", "go")
            assert "saved as" in await at.run("/save talk.json")
            assert "saved as here-2.md" in await at.run("/export md here.md")
            assert "saved as" in await at.run("/export html pipe.html")
            assert "saved as" in await at.run("/save kept")
    finally:
        os.umask(before)
    assert precious.read_text() == "all my work"
    assert not (tmp_path / "nothing.txt").exists()
    kept = tmp_path / "home" / "data" / "exports" / "kept.json"
    for path, mode in [(tmp_path / "talk-2.json", 0o600), (tmp_path / "pipe-2.html", 0o600), (kept, 0o600)]:
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE(kept.parent.stat().st_mode) == stat.S_IMODE(kept.parent.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "swap",
    ["mkfifo", "ln -s /dev/zero", pytest.param("foreign", marks=ONLY_ROOT)],
)
async def test_what_takes_the_place_of_the_edited_file_is_not_read(swap: str, tmp_path: Path) -> None:
    """In a temporary folder without the sticky bit somebody else can do what this editor does."""
    editor = tmp_path / "editor"
    change = f"{swap} $1" if swap != "foreign" else f"echo rm > $1; chown {SOMEBODY} $1"
    editor.write_text(f"#!/bin/sh\nrm $1\n{change}\n")
    editor.chmod(0o700)
    with pytest.raises((InputError, OSError)):
        async with asyncio.timeout(SECONDS):
            await edited("my words", {**os.environ, "EDITOR": str(editor), "VISUAL": ""})


def test_t13_a_planted_link_in_our_folder_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("all my work")
    path = tmp_path / "state" / "pins.json"
    path.parent.mkdir()
    path.symlink_to(precious)
    write_whole(path, "{}")
    assert precious.read_text() == "all my work"
    assert not path.is_symlink()


@each_row("what", ["pipe", "/dev/zero", "folder"])
def test_what_is_replayed_is_a_file(what: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    if what == "pipe":
        fifo(path)
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to(what)
    with pytest.raises(ConfigError, match=r"cannot be read: is (no regular file|a directory)"):
        Replay(path)


# -- two writers -------------------------------------------------------------------------------------------------------

SERVER = ServerConfig("git", command="x")


def tool(name: str) -> ToolDefinition:
    return ToolDefinition(name, f"Does {name}.", {"type": "object"}, "git", name)


KINDS = ("learned", "typed", "pins", "approvals", "lists")


def write(kind: str, who: str, number: int, folder: Path) -> None:
    """Keeps one thing of this kind; it is acknowledged when this returns."""
    name = f"{who}{number}"
    match kind:
        case "learned":
            SearchHistory(folder / "s.sqlite3").record(f"{who} words {number}", [], [ToolKey("git", name)])
        case "typed":
            StoredHistory(str(folder / "history")).store_string(name)
        case "pins":
            PinStore(folder).accept(SERVER, tool(name))
        case "approvals":
            StoredApprovals(folder / "a.json", PRINTS).add(tool(name), "tool", {}, always=True)
        case _:
            ListCache(folder).save(SERVER, CachedServer(instructions=f"{name} " * 1_000))


PROGRAM = """
import sqlite3, sys
from pathlib import Path
from tests.utilities.filesystem.test_file_changes_attacked import write

kind, who, folder, count = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
for number in range(count):
    while True:
        try:
            write(kind, who, number, folder)
            break
        except sqlite3.OperationalError:  # the other one is writing
            pass
    print(number, flush=True)
"""


def writer(kind: str, who: str, folder: Path, count: int) -> subprocess.Popen[str]:
    """A program that keeps so many things one after the other, and prints the number of each when it is kept."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind, who, str(folder), str(count)],
        cwd=ROOT,
        env=environment(folder / "home"),
        stdout=subprocess.PIPE,
        text=True,
    )


def found(kind: str, folder: Path, whos: Sequence[str], count: int) -> set[str]:
    """What of all that was written is there, by who wrote it and its number."""
    names = [f"{who}{number}" for who in whos for number in range(count)]
    if kind == "learned":
        return {use.tool.name for use in SearchHistory(folder / "s.sqlite3").uses()}
    if kind == "typed":
        return set(StoredHistory(str(folder / "history")).load_history_strings())
    if kind == "pins":
        changed = {name: ToolDefinition(name, "other", {}, "git", name) for name in names}
        return {name for name in names if PinStore(folder).check(SERVER, changed[name]) is not None}
    if kind == "approvals":
        kept = StoredApprovals(folder / "a.json", PRINTS)
        return {name for name in names if is_stored(kept, tool(name))}
    cached = ListCache(folder).load(SERVER)
    assert cached is not None
    [name] = set(cached.instructions.split())
    return {name}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_programs_that_write_lose_nothing_of_each_other(kind: str, tmp_path: Path) -> None:
    both = [writer(kind, who, tmp_path, 25) for who in ("ann", "bob")]
    for process in both:
        process.communicate(timeout=SECONDS)
        assert process.returncode == 0
    there = found(kind, tmp_path, ("ann", "bob"), 25)
    if kind == "lists":  # a cache: the last one counts, and it is whole
        assert there < {"ann24", "bob24"}
    else:
        assert there == {f"{who}{number}" for who in ("ann", "bob") for number in range(25)}


async def test_two_programs_do_not_record_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    async with Agent(ScriptedModel(["18", "19"]), options=RunOptions(wrappers=[Recorder(path)])) as agent:
        await agent.ask("how warm?")
        with pytest.raises(ConfigError, match="another program is recording into it; name another file"):
            await recorded(path)
        await agent.ask("and now?")
    async with Agent(options=RunOptions(wrappers=[Replay(path)])) as again:
        assert [await again.ask("how warm?"), await again.ask("and now?")] == ["18", "19"]
    assert await recorded(path) == "18"


# -- kills -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_t19_a_kill_loses_nothing_that_was_acknowledged(kind: str, tmp_path: Path) -> None:
    for kill in range(3):
        who = "abcde"[kill]
        with writer(kind, who, tmp_path, 100_000) as process:
            assert process.stdout is not None
            done = [int(process.stdout.readline()) for _ in range(3 + 7 * kill)]
            process.send_signal(signal.SIGKILL)
            done += map(int, process.stdout.read().split())
        there = found(kind, tmp_path, (who,), len(done) + 1)
        if kind == "lists":
            assert there <= {f"{who}{done[-1]}", f"{who}{done[-1] + 1}"}
        else:
            assert {f"{who}{n}" for n in done} <= there


RECORDING = """
import asyncio, sys
from mcpagent import Agent, Recorder, RunOptions, ScriptedModel
async def main():
    async with Agent(ScriptedModel(["18"] * 10_000), options=RunOptions(wrappers=[Recorder(sys.argv[1])])) as agent:
        for n in range(10_000):
            await agent.ask(f"how warm {n}?")
            print(n, flush=True)
asyncio.run(main())
"""


@pytest.mark.slow
def test_a_killed_recording_holds_every_answer_that_was_given(tmp_path: Path) -> None:
    for kill in range(3):
        path = tmp_path / f"{kill}.jsonl"
        command = [sys.executable, "-c", RECORDING, str(path)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            done = [int(process.stdout.readline()) for _ in range(1 + 5 * kill)]
            process.send_signal(signal.SIGKILL)
            done += map(int, process.stdout.read().split())
        with Agent(options=RunOptions(wrappers=[Replay(path)])) as again:
            assert [again.ask_sync(f"how warm {n}?") for n in done] == ["18"] * len(done)
