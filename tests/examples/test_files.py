"""The example of files as inputs, as a command and over real bodies of a provider."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from examples.files.ask import ask

from mcpagent.history.intake.media_types import base64_text
from mcpagent.models import OpenAIChatModel, OpenAIResponsesModel
from tests.made_files import pdf, png
from tests.wire.provider import PlayedProvider, chat_stream, message_item, responses_stream

ROOT = Path(__file__).resolve().parents[2]


def made(folder: Path) -> list[str]:
    (folder / "report.pdf").write_bytes(pdf("Sales grew."))
    (folder / "chart.png").write_bytes(png(4, 4))
    (folder / "notes.md").write_text("Ask for the margin.", encoding="utf-8")
    return [str(folder / name) for name in ("report.pdf", "chart.png", "notes.md")]


async def test_a_pdf_a_picture_and_a_text_go_along_and_a_generated_picture_is_saved(tmp_path: Path) -> None:
    files = made(tmp_path)
    drawn = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": base64_text(png(2, 2))}
    provider = PlayedProvider(responses_stream(drawn, message_item("Sales.")))
    model = OpenAIResponsesModel("gpt-5.5", api_key="k", http_client=provider.http_client)
    assert await ask(model, "What grew?", files, tmp_path) == "Sales."
    [sent] = provider.bodies
    kinds = [piece["type"] for piece in sent["input"][-1]["content"]]
    assert kinds == ["input_text", "input_file", "input_image", "input_text"]
    assert "Ask for the margin." in json.dumps(sent)
    assert (tmp_path / "image-1.png").read_bytes() == png(2, 2)


async def test_a_model_that_takes_no_pdf_gets_its_text_and_a_line_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pypdf", reason="pip install 'mcpagent[pdf]'")
    files = made(tmp_path)[:1]
    provider = PlayedProvider(chat_stream({"content": "Sales."}))
    url = "https://api.groq.com/openai/v1"
    model = OpenAIChatModel("m", provider="groq", base_url=url, api_key="k", http_client=provider.http_client)
    assert await ask(model, "What grew?", files, tmp_path) == "Sales."
    assert "Sales grew." in json.dumps(provider.bodies)
    assert "report.pdf" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "examples/files/ask.py", "offline", "What grew?", str(tmp_path / "none.pdf")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "none.pdf" in done.stderr
    assert done.stderr.count("\n") == 1
