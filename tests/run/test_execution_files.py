"""Files of tools on their way into a conversation, and of prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcpagent import Agent, Audio, Document, File, Image, ScriptedModel, Text, ToolCall
from mcpagent.history.intake.media_types import base64_text
from mcpagent.values.messages import ToolResult
from tests.made_files import pdf, png, wav


class SeesPdf(ScriptedModel):
    """A model that accepts pictures and PDFs."""

    def accepted_files(self) -> frozenset[str]:
        """Return them."""
        return frozenset({"image", "pdf"})


def report() -> dict[str, Any]:
    """Return a report with its files."""
    return {"about": "halls", "file": pdf(), "sound": wav(), "picture": png(2, 2)}


def result_of(agent: Agent[Any]) -> ToolResult:
    return next(result for message in agent.messages for result in message.tool_results)


async def test_a_function_returns_files_inside_of_data() -> None:
    async with Agent(SeesPdf([ToolCall("1", "report", {}), "read"]), tools=[report]) as agent:
        assert await agent.ask("go") == "read"
        result = result_of(agent)
    assert [part.type for part in result.content if not isinstance(part, Text)] == ["document", "image"]
    assert '"file":"(document 1)","sound":"(audio 2)","picture":"(image 3)"' in result.text
    assert "[audio: audio/wav, " in result.text
    assert result.set_aside is not None  # the recording


async def test_a_model_that_accepts_no_pdf_gets_its_text() -> None:
    async with Agent(ScriptedModel([ToolCall("1", "report", {}), "read"]), tools=[report]) as agent:
        await agent.ask("go")
        result = result_of(agent)
    assert "Hello from a PDF" in result.text
    assert [part.type for part in result.content if not isinstance(part, Text)] == ["image"]


async def test_files_of_a_prompt_are_read_when_it_is_asked(tmp_path: Path) -> None:
    (tmp_path / "report.pdf").write_bytes(pdf())
    (tmp_path / "a.png").write_bytes(png(2, 2))
    (tmp_path / "a.wav").write_bytes(wav())
    (tmp_path / "notes.md").write_text("# Notes\n", "utf-8")
    model = ScriptedModel(["fine"] * 3)
    async with Agent(model) as agent:
        names = ("report.pdf", "a.png", "a.wav", "notes.md")
        prompt: list[str | File] = ["Summarise", *(File(tmp_path / name) for name in names)]
        for ask in (agent.ask, agent.run, agent.session().ask):
            await ask(prompt)
    for request in model.requests:
        words, document, picture, sound, notes = request.messages[-1].parts
        assert words == Text("Summarise")
        assert document == Document("application/pdf", base64_text(pdf()), "report.pdf")
        assert picture == Image("image/png", base64_text(png(2, 2)))
        assert sound == Audio("audio/wav", base64_text(wav()), "a.wav")
        assert notes == Text(f"{tmp_path / 'notes.md'}:\n```\n# Notes\n```")


async def test_a_large_picture_in_a_prompt_is_scaled(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(1_500, 1_400, noise=True))
    model = ScriptedModel(["fine"])
    async with Agent(model) as agent:
        await agent.ask([File(tmp_path / "a.png")])
    note, picture = model.requests[0].messages[-1].parts
    assert isinstance(note, Text)
    assert isinstance(picture, Image)
    assert len(picture.data) <= 5_000_000
