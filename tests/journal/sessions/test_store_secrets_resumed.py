"""A session that is read again has `[redacted]` where a known secret was: the store never had it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpagent import Agent, ScriptedModel, ToolCall
from mcpagent.utilities.text.secrets import hide
from mcpagent.values.approval import CallsPendingError

SECRET = "kv7-Qm2xT9rLp4WzB8nd"


def said_to(model: ScriptedModel) -> str:
    return "\n".join(message.text for message in model.requests[-1].messages)


async def test_another_process_sends_redacted_where_a_secret_was_and_this_one_the_secret(tmp_path: Path) -> None:
    hide(SECRET)
    first = ScriptedModel(["noted", "as before"])
    async with Agent(first, sessions=tmp_path / "s.db") as agent:
        session = agent.session("a")
        await session.ask(f"The key is {SECRET}.")
        await session.ask("Which key?")
        assert f"The key is {SECRET}." in said_to(first)
    second = ScriptedModel(["gone"])
    async with Agent(second, sessions=tmp_path / "s.db") as agent:
        await agent.session("a").ask("Which key?")
    assert "The key is [redacted]." in said_to(second)
    assert SECRET not in said_to(second)


async def test_a_call_that_waits_with_a_secret_in_it_is_not_run_in_another_process(tmp_path: Path) -> None:
    hide(SECRET)
    ran: list[str] = []

    def log_in(key: str) -> str:
        """Log in."""
        ran.append(key)
        return "in"

    first = ScriptedModel([ToolCall("1", "log_in", {"key": SECRET})])
    async with Agent(first, tools=[log_in], approval=True, sessions=tmp_path / "s.db") as agent:
        with pytest.raises(CallsPendingError) as waiting:
            await agent.session("a").ask("Log in.")
        assert waiting.value.requests[0].arguments == {"key": SECRET}
    async with Agent(ScriptedModel(["ok"]), tools=[log_in], approval=True, sessions=tmp_path / "s.db") as agent:
        session = agent.session("a")
        assert session.pending == ()
        [told] = session.messages[-1].tool_results
        assert "its arguments hold a secret, which was not written down" in told.text
        await session.resume()
    assert ran == []
