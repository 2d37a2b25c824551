"""`/mcp` in the chat: the answers to names and verbs that are none, and to servers that are not there."""

from __future__ import annotations

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
}
"""Each line, and the first line of its answer."""


@each_row("line, answer", list(ANSWERS.items()))
async def test_a_line_is_answered_in_one_line(line: str, answer: str, tmp_path: Path) -> None:
    async with scene(tmp_path, "never asked") as chat:
        assert (await chat.run(line)).splitlines()[0] == answer
