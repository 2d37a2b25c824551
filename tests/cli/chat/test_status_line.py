"""The line under the prompt: its fields, and which are dropped on a narrow terminal."""

from __future__ import annotations

from mcpagent.cli.chat.status_line import Status, servers_field, short_model, status_line
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


def test_before_anything_is_connected_the_status_says_so() -> None:
    assert servers_field(Status("x:y", servers={"a": ServerStatus("a", "connecting")})) == "mcp 1.."
    assert short_model("offline:rules") == "offline"
    assert short_model("ollama:qwen3") == "qwen3"
