"""Nothing that mcpagent knows to be secret is in a store, and nobody else may read its files."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpagent import (
    Agent,
    McpServer,
    Recorder,
    RunOptions,
    ScriptedModel,
    Sessions,
    ToolCall,
    ToolContext,
    function_tool,
)
from mcpagent.utilities.text.secrets import hide
from tests.journal.sessions.conftest import Place
from tests.tables import each_row

HEADER, VARIABLE, KEYED, HIDDEN, GIVEN = (f"{name}-0123456789abcdef" for name in ("hdr", "var", "env", "hid", "giv"))
SHAPED = "sk-" + "Q1w2E3r4T5y6" * 3
SECRETS = (HEADER, VARIABLE, KEYED, HIDDEN, GIVEN, SHAPED)


def everything(place: Place) -> str:
    """All bytes of the files, or all rows of the tables."""
    if place.server is None:
        files = sorted(Path(place.where).parent.rglob("*"))
        return "\n".join(file.read_bytes().decode("latin-1") for file in files if file.is_file())
    tables = ("entries", "words", "leases", "holders", "keys")
    return "\n".join(str(row) for table in tables for row in place.run(f"SELECT t::text FROM {table} t"))


@pytest.mark.parametrize("recorded", [False, True])
async def test_no_secret_is_written(
    place: Place, recorded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pydantic import BaseModel

    class Notes(BaseModel):
        text: str = ""
        by_name: dict[str, str] = {}

    monkeypatch.setenv("SOME_API_KEY", KEYED)
    monkeypatch.setenv("PWD", str(tmp_path))
    hide(HIDDEN)
    all_of_them = " ".join(SECRETS)
    notes = Notes()

    def tell(what: str) -> str:
        """Tells it."""
        notes.text, notes.by_name = all_of_them, {secret: secret for secret in SECRETS}
        return f"line\n{all_of_them}\n{json.dumps(SECRETS)}"

    def fail(what: str) -> str:
        """Fails."""
        raise ValueError(all_of_them)

    server = McpServer("there", command=sys.executable, args=["-c", "pass"], env={"TOKEN": VARIABLE})
    remote = McpServer("remote", url="http://127.0.0.1:9/mcp", headers={"Authorization": f"Bearer {HEADER}"})
    store = place.open(secrets=[GIVEN])
    context = ToolContext()
    context.register("notes", notes)
    model = ScriptedModel(
        [
            [ToolCall(f"1-{SHAPED}", "tell", {"what": all_of_them}), ToolCall("2", "fail", {"what": all_of_them})],
            [ToolCall("3", "pay", {"to": all_of_them})],
        ]
    )

    def pay(to: str) -> str:
        """Pays."""
        return to

    wrappers = [Recorder(tmp_path / "run.jsonl")] if recorded else []
    async with Agent(
        model,
        instructions=f"Know that {all_of_them}",
        tools=[tell, fail, function_tool(pay), server, remote],
        approval=lambda context, definition, arguments: definition.name == "pay",
        sessions=store,
        options=RunOptions(wrappers=wrappers),
    ) as agent:
        session = agent.session("a", tool_context=context)
        result = await session.run(all_of_them)
        assert result.pending
        store.flush().result(30)
        while_open = everything(place)
    store.rename("a", f"about {SHAPED}")
    for text in (while_open, everything(place)):
        assert "[redacted]" in text
        for secret in SECRETS:
            assert secret not in text
            assert secret[4:] not in text
    kept = store.read("a")
    assert str(tmp_path) not in all_of_them
    assert kept.info.folder == os.getcwd()


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(sys.platform == "win32", reason="rights of POSIX")
@each_row("umask", [0o000, 0o022, 0o077, 0o777])
async def test_files_are_their_users_only(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        path = tmp_path / "some" / "folder" / "s.db"
        store = Sessions(path)
        async with Agent(ScriptedModel(["hi"]), sessions=store) as agent:
            await agent.session("a").ask("hello")
            found: dict[str, Any] = {file.name: rights(file) for file in path.parent.rglob("*")}
            assert {"s.db", "s.db-wal", "s.db-shm", "s.db-holders"} <= found.keys()
            assert {rights(folder) for folder in (path.parent, path.parent.parent, path.parent / "s.db-holders")} == {
                0o700
            }
            assert {mode for name, mode in found.items() if name != "s.db-holders"} == {0o600}
        store.close()
        assert sorted(file.name for file in path.parent.iterdir()) == ["s.db", "s.db-holders"]
        assert list((path.parent / "s.db-holders").iterdir()) == []
    finally:
        os.umask(before)
