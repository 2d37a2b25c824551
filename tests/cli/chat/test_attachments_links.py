"""A file that is a link shows where it leads, before it is sent."""

from __future__ import annotations

from pathlib import Path

from mcpagent import Agent
from mcpagent.cli.chat.attachments import with_attachments


async def test_a_link_shows_where_it_leads(tmp_path: Path) -> None:
    work, private = tmp_path / "work", tmp_path / "private"
    work.mkdir()
    private.mkdir()
    (private / "key.txt").write_text("k")
    (work / "notes.txt").write_text("n")
    (work / "link.txt").symlink_to(private / "key.txt")
    (work / "folder").symlink_to(private)
    (tmp_path / "here").symlink_to(work)
    async with Agent("offline") as agent:
        for folder in (work, tmp_path / "here"):
            _, told = await with_attachments("see @notes.txt @link.txt @folder/key.txt", agent, folder)
            assert told[0].startswith("notes.txt  ")
            assert told[1].startswith(f"link.txt -> {private / 'key.txt'}  ")
            assert told[2].startswith(f"folder/key.txt -> {private / 'key.txt'}  ")
