"""Files that providers generate, out of the blocks of their answers."""

from __future__ import annotations

from typing import Any

from mcpagent.history.intake.media_types import base64_text
from mcpagent.models.provider_tools.generated_files import generated_files
from mcpagent.values.messages import Document, FileId, Message, Origin, Part, ProviderBlock, Text
from tests.made_files import png
from tests.tables import each_row

PNG = base64_text(png(2, 2))
RESULT = {
    "type": "bash_code_execution_result",
    "content": [{"type": "bash_code_execution_output", "file_id": "file_9"}],
}
CITED = {"type": "container_file_citation", "file_id": "cfile_1", "container_id": "cntr_1", "filename": "sales.csv"}


@each_row(
    "part, found",
    [
        (
            ProviderBlock({"type": "image_generation_call", "id": "ig_1", "result": PNG, "output_format": "webp"}),
            Document("image/webp", PNG, "image-1.webp"),
        ),
        (ProviderBlock({"type": "image_generation_call", "id": "ig_1", "result": None}), None),
        (
            ProviderBlock({"images": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]}),
            Document("image/png", PNG, "image-1.png"),
        ),
        (ProviderBlock({"images": [{"image_url": {"url": "https://example.org/a.png"}}, 7]}), None),
        (
            ProviderBlock(
                {"type": "code_interpreter_call", "outputs": [{"type": "image", "url": f"data:image/png;base64,{PNG}"}]}
            ),
            Document("image/png", PNG, "image-1.png"),
        ),
        (ProviderBlock({"type": "bash_code_execution_tool_result", "content": RESULT}), FileId("file_9", "here")),
        (
            Text("See it.", {"content": {"type": "output_text", "annotations": [CITED, {"type": "other"}, 3]}}),
            FileId("cfile_1", "here", name="sales.csv", container="cntr_1"),
        ),
        (Text("nothing"), None),
    ],
)
def test_a_block_with_a_file_gives_it(part: Part, found: Any) -> None:
    said = Message("assistant", (part, part), Origin("here"))
    assert generated_files([said, said]) == ((found,) if found is not None else ())
    assert generated_files([Message("user", (part,))]) == ()


def test_several_files_are_numbered() -> None:
    pictures = [{"image_url": {"url": f"data:image/png;base64,{base64_text(png(side, 1))}"}} for side in (1, 2, 3)]
    found = generated_files([Message("assistant", (ProviderBlock({"images": pictures}),))])
    assert [file.name for file in found] == ["image-1.png", "image-2.png", "image-3.png"]
    assert isinstance(found[1], Document)
    assert found[1].content == png(2, 1)
