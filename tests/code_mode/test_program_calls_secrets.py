"""Programs that meet secrets: tools get them unchanged, and no file or export has one, in any spelling."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from mcpagent import Agent, CodeMode, Recorder, RunOptions, ScriptedModel, Sessions, ToolCall
from mcpagent.journal.sessions import exported
from mcpagent.journal.sessions.export import FORMS

pytestmark = pytest.mark.slow

CANARIES = {
    "API_TOKEN": "q7Zk2mX9Lw4Tn8Rb6Vc1",
    "DB_PASSWORD_PROD": "winter-canary-7!",
    "OTHER_SECRET": 'pa"ss\\wo/rd é7x <b>',
    "PLAIN": "ghp_" + "a1B2" * 9,
}
IMPORTS = "from tools.functions import leak, rows, send, boom\nimport json\n"
PROGRAMS = (
    "x = await leak(name='{0}')\nprint(x)\nawait send(text=x)\nx",
    "found = await rows(name='{0}')\nprint(found, json.dumps(found))\nfound",
    "try:\n    await boom(name='{0}')\nexcept Exception as error:\n    print(repr(error))\n    y = str(error)",
    "await boom(name='{0}')",
    "z = await leak(name='{0}')\nraise ValueError(z)",
)


def spellings(secret: str) -> Iterator[str]:
    yield from (secret, json.dumps(secret)[1:-1], json.dumps(json.dumps(secret))[3:-3], repr(secret)[1:-1])
    yield from (html.escape(secret), quote(secret), json.dumps(repr(secret))[2:-2])


async def test_no_file_has_a_secret_of_a_program_and_tools_get_it_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    for name, secret in CANARIES.items():
        monkeypatch.setenv(name, secret)
    sent: list[str] = []

    def leak(name: str) -> str:
        """Return a value."""
        return CANARIES[name]

    def rows(name: str) -> list[dict[str, str]]:
        """Return rows."""
        return [{CANARIES[name]: "a", "b": CANARIES[name]}]

    def send(text: str) -> str:
        """Send a text."""
        sent.append(text)
        return "sent"

    def boom(name: str) -> str:
        """Fail."""
        raise RuntimeError(f"no {CANARIES[name]} there")

    programs = [IMPORTS + program.format(name) for name in CANARIES for program in PROGRAMS]
    programs += [f"v = {secret!r}\nprint(v)" for secret in CANARIES.values()]
    search = ToolCall("", "search_tools", {"query": "select:leak,rows,send,boom"})
    calls = [ToolCall("", "run_code", {"code": program}) for program in programs]
    recorder = Recorder(tmp_path / "run.jsonl")
    store = Sessions(tmp_path / "sessions.db")
    async with Agent(
        ScriptedModel([search, *calls, "done"]),
        tools=[leak, rows, send, boom],
        code_mode=CodeMode(),
        sessions=store,
        options=RunOptions(wrappers=[recorder]),
    ) as agent:
        session = agent.session("it")
        assert await session.ask("go") == "done"
        for form in FORMS:
            (tmp_path / f"out.{form}").write_text(exported(session.snapshot(), form), "utf-8")
        results = [one.text for message in session.messages for one in message.tool_results if one.name == "run_code"]
    store.close()
    assert sent == list(CANARIES.values())
    assert not any("not run" in text for text in results)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"run.jsonl", "sessions.db", "out.md", "out.html", "out.json"} <= {path.name for path in files}
    assert [
        (path.name, name)
        for path in files
        for name, secret in CANARIES.items()
        if any(text.encode() in path.read_bytes() for text in spellings(secret))
    ] == []
