"""A session's id is any text; what stores sessions makes names of files from it, a session alone does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpagent import Agent, ScriptedModel
from tests.tables import each_row


@each_row("odd", ["../../etc/passwd", "/etc/passwd", "a\0b", "x" * 1_000_000, "\ud800", "\x1b[2J"])
async def test_a_sessions_id_is_a_name_and_touches_no_file(
    odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))
    async with Agent(ScriptedModel(["done"])) as agent:
        session = agent.session(id=odd)
        assert await session.ask("go") == "done"
        assert session.id == odd
    assert list(tmp_path.rglob("*")) == []
