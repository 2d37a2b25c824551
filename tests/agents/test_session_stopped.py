"""The words of an answer that a person stopped: stored with the session, shown to people, never sent to a model."""

from __future__ import annotations

from pathlib import Path

from mcpagent import Agent
from mcpagent.journal.sessions import Sessions
from mcpagent.models.scripted import ScriptedModel


async def test_the_words_of_a_stopped_answer_are_there_after_a_resume_and_leave_with_their_question(
    tmp_path: Path,
) -> None:
    file = tmp_path / "sessions.db"
    async with Agent(ScriptedModel(["one"]), sessions=Sessions(file)) as agent:
        session = agent.session("ann")
        await session.ask("first")
        session._runtime.add_stopped("On the")
        session._runtime.add_stopped("On the other hand")
    model = ScriptedModel(["two"])
    async with Agent(model, sessions=Sessions(file)) as agent:
        session = agent.session("ann")
        assert session._runtime.stopped_after(2) == ["On the", "On the other hand"]
        await session.ask("second")
        assert "other hand" not in str(model.requests[-1].messages)
        session._runtime.rewind(0)
        assert session._runtime.stopped_after(2) == []
    store = Sessions(file)
    assert not store.read("ann").values.get("stopped")
