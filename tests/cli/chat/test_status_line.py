"""The line under the prompt: its fields, and which are dropped on a narrow terminal."""

from __future__ import annotations

from pathlib import Path

from mcpagent import Agent, ScriptedModel, Sessions
from mcpagent.cli.chat.status_line import Status, servers_field, short_model, status_document, status_line
from mcpagent.cli.screen.terminal import Glyphs
from mcpagent.mcp.server_status import ServerStatus


def test_the_status_line_drops_fields_from_the_right() -> None:
    servers = {
        **{f"s{n}": ServerStatus(f"s{n}", "ready") for n in range(61)},
        **{f"c{n}": ServerStatus(f"c{n}", "connecting") for n in range(8)},
        "f": ServerStatus("f", "failed"),
    }
    status = Status(
        "anthropic:claude-x",
        servers=servers,
        offered=3,
        known=527,
        offered_tokens=600,
        known_tokens=99_956,
        used=4_100,
    )
    whole = " claude-x │ ctx 4.1k │ tools 3/527 · 600 of 100k (-99%) │ mcp 61 ok 8.. 1! │ ask "
    assert status_line(status, Glyphs(), 100) == whole
    assert status_line(status, Glyphs(), 60).endswith("(-99%) ")
    assert status_line(status, Glyphs(), 25) == " claude-x │ ctx 4.1k "


async def test_a_resumed_conversation_knows_the_tools_that_have_come_since(tmp_path: Path) -> None:
    def old() -> str:
        return ""

    def new() -> str:
        return ""

    store = Sessions(tmp_path / "s.db")
    async with Agent(ScriptedModel(["one"]), tools=[old], sessions=store) as agent:
        await agent.session("it").ask("First?")
    async with Agent(ScriptedModel(["two", "three"]), tools=[old, new], sessions=store) as agent:
        await agent._runtime.go_on_with("it")
        for offered in (1, 2):
            status = Status.of(agent, "ask", 0, is_started=True)
            assert (status.offered, status.known) == (offered, 2)
            assert status.known_tokens > status.offered_tokens or offered == 2
            await agent.ask("Second?")
    store.close()


def test_before_anything_is_connected_the_status_says_so() -> None:
    assert servers_field(Status("x:y", servers={"a": ServerStatus("a", "connecting")})) == "mcp 1.."
    assert short_model("offline:rules") == "offline"
    assert short_model("ollama:qwen3") == "qwen3"


def test_a_server_that_the_user_declined_has_not_failed() -> None:
    servers = {name: ServerStatus(name, "failed") for name in ("down", "declined")} | {
        "up": ServerStatus("up", "ready")
    }
    status = Status("x:y", servers=servers, declined=frozenset(["declined"]))
    assert servers_field(status) == "mcp 1 ok 1! 1 declined"
    assert status_document(status, "/here")["mcp"] == {"ready": 1, "connecting": 0, "failed": 1, "declined": 1}
