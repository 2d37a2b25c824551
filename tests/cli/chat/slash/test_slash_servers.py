"""`/mcp` in the chat: the answers to names and verbs that are none, and to servers that are not there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.cli.chat.slash.test_slash_table import scene
from tests.tables import each_row

ANSWERS = {
    "/mcp": "1 server from --server",
    "/mcp wbe": 'no server "wbe"; did you mean web?',
    "/mcp lgos": "/mcp has no lgos - did you mean /mcp logs NAME?",
    "/mcp off": "which server? /mcp off NAME",
    "/mcp off wbe": 'no server "wbe"; did you mean web?',
    "/mcp logs web": "web has written nothing to its standard error",
    "/mcp off web": 'no server "web" is enabled',
    "/mcp restart web": 'no server "web" is enabled',
    "/mcp add": "write /mcp add NAME -- COMMAND ARGS, or /mcp add NAME https://...",
    "/mcp add shop": "write /mcp add NAME -- COMMAND ARGS, or /mcp add NAME https://...",
}
"""Each line, and the first line of its answer."""


@each_row("line, answer", list(ANSWERS.items()))
async def test_a_line_is_answered_in_one_line(line: str, answer: str, tmp_path: Path) -> None:
    async with scene(tmp_path, "never asked") as chat:
        assert (await chat.run(line)).splitlines()[0] == answer


async def test_a_server_is_added_and_the_next_start_named(tmp_path: Path) -> None:
    async with scene(tmp_path, "never asked") as chat:
        chat.desk.options = replace(chat.desk.options, environ=chat.desk.environ, folder=tmp_path)
        shown = await chat.run("/mcp add shop -- python 'my server.py' --all")
        assert "it joins at the next start: /exit, then mcpagent" in shown
        again = await chat.run("/mcp add shop -- python other.py")
        assert 'server "shop" is there already' in again
    [written] = tmp_path.rglob("mcp.json")
    entry = json.loads(written.read_text("utf-8"))["mcpServers"]["shop"]
    assert (entry["command"], entry["args"]) == ("python", ["my server.py", "--all"])
