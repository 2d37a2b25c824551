"""Files of answers are saved under new names, and a line reports each."""

from __future__ import annotations

from pathlib import Path

from mcpagent.cli.screen.saved_files import save_generated
from mcpagent.history.intake.files import saved
from mcpagent.history.intake.media_types import base64_text
from mcpagent.models.scripted import ScriptedModel
from mcpagent.values.messages import Message, Origin, ProviderBlock
from tests.made_files import png


async def test_pictures_are_saved_and_files_elsewhere_are_named(tmp_path: Path) -> None:
    picture = ProviderBlock({"type": "image_generation_call", "result": base64_text(png(2, 2))})
    broken = ProviderBlock({"type": "image_generation_call", "result": "@@@"})
    content = {"content": [{"file_id": "file_1"}]}
    stored = ProviderBlock({"type": "code_execution_tool_result", "content": content})
    answer = Message("assistant", (picture, stored, broken), Origin("anthropic"))
    size = len(png(2, 2))
    lines = await save_generated([answer], tmp_path, ScriptedModel([]))
    assert lines[:2] == [
        f"file image-1.png: saved, {size:,} bytes",
        "file without a name: stored at anthropic as file_1",
    ]
    again = await save_generated([answer], tmp_path, ScriptedModel([]))
    assert again[0] == f"file image-1-2.png: saved, {size:,} bytes"
    assert (tmp_path / "image-1.png").read_bytes() == (tmp_path / "image-1-2.png").read_bytes() == png(2, 2)


async def test_a_file_that_cannot_be_written_is_a_line(tmp_path: Path) -> None:
    picture = ProviderBlock({"type": "image_generation_call", "result": base64_text(png(2, 2))})
    [line] = await save_generated([Message("assistant", (picture,))], tmp_path / "missing", ScriptedModel([]))
    assert line.startswith("file image-1.png: cannot be saved: ")


def test_a_name_of_a_provider_stays_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in (
        "../../etc/passwd",
        "..\\..\\boot.ini",
        "/root/.ssh/authorized_keys",
        "..",
        ".bashrc",
        "",
        "a\x1b[2J\n.png",
    ):
        path = saved(folder, name, b"x")
        assert path.parent == folder
        assert not path.name.startswith(".")
        assert path.name.isprintable()
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
