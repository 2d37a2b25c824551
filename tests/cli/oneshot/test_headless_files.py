"""Files in a one-shot question and in its answer."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.options import Options
from mcpagent.cli.oneshot.headless import ask_once
from mcpagent.cli.screen.terminal import Glyphs, Terminal, make_console
from mcpagent.history.intake.media_types import base64_text
from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.models.scripted import ScriptedModel
from mcpagent.values.messages import Document, Message, ProviderBlock, Text, Usage
from tests.made_files import pdf, png
from tests.terminal.process import server_option
from tests.terminal.warm import run


def drawn(_: ModelRequest) -> Any:
    """An answer with a picture that the provider generated."""
    picture = ProviderBlock({"type": "image_generation_call", "id": "ig_1", "result": base64_text(png(2, 2))})
    return ModelResponse(Message("assistant", (picture, Text("Here it is."))), Usage(), "end")


def test_a_file_goes_along_and_a_generated_picture_is_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    err = io.StringIO()
    terminal = Terminal(make_console(io.StringIO(), "auto", {}), make_console(err, "auto", {}), Glyphs())
    options = Options(
        server=(server_option("good")[1],), environ={"MCPAGENT_HOME": str(tmp_path)}, folder=tmp_path, model="offline"
    )
    report = Document("application/pdf", base64_text(pdf()), "report.pdf")
    model = ScriptedModel([drawn])
    assert ask_once(options, "Draw it.", terminal, files=[report], model=model) == ExitCode.OK
    assert capsys.readouterr().out == "Here it is.\n"
    assert model.requests[0].messages[-1].parts == (Text("Draw it."), report)
    assert (tmp_path / "image-1.png").read_bytes() == png(2, 2)
    assert err.getvalue() == f"file image-1.png: saved, {len(png(2, 2))} bytes\n"


@pytest.mark.slow
def test_attach_takes_files_along(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a note", "utf-8")
    (tmp_path / "b.zip").write_bytes(b"PK\3\4\0\0")
    good = run(["ask", "hello", "--attach", "a.txt", "-m", "offline", *server_option("good")], tmp_path)
    assert good.returncode == 0
    missing = run(["ask", "hello", "--attach", "none.pdf", "-m", "offline", *server_option("good")], tmp_path)
    assert missing.returncode == 2
    assert 'no file "none.pdf"' in missing.stderr
