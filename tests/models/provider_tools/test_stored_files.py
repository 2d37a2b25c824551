"""Files that a provider stores are downloaded through its files API, over the SDKs' own clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcpagent.cli.screen.saved_files import save_generated
from mcpagent.errors import ModelError
from mcpagent.models import AnthropicModel, FallbackModel, OpenAIChatModel, OpenAIResponsesModel
from mcpagent.models.base import download
from mcpagent.models.http_model import HttpModel
from mcpagent.models.provider_tools.stored_files import MOST_BYTES
from mcpagent.values.messages import FileId, Message, Origin, ProviderBlock, Text
from tests.tables import each_row

CSV = b"a,b\n" + b"1,2\n" * 30_000
"""More lines than one event of a stream may have."""

CONTAINER = "/v1/containers/cntr_1/files/cfile_1"
ROUTES: dict[str, Any] = {
    "/v1/files/file_9": {
        "id": "file_9",
        "type": "file",
        "filename": "sales.csv",
        "mime_type": "text/csv",
        "size_bytes": len(CSV),
        "created_at": "2026-01-01T00:00:00Z",
        "downloadable": True,
    },
    "/v1/files/file_9/content": CSV,
    "/v1/files/file_7": {"id": "file_7", "object": "file", "filename": "sums.csv", "bytes": 3, "purpose": "assistants"},
    "/v1/files/file_7/content": CSV,
    CONTAINER: {"id": "cfile_1", "object": "container.file", "path": "/mnt/data/sums.csv", "container_id": "cntr_1"},
    f"{CONTAINER}/content": CSV,
    "/v1/files/file_large": {"id": "file_large", "type": "file", "filename": "l", "mime_type": "text/csv"},
    "/v1/files/file_large/content": b"x" * (MOST_BYTES + 1),
}


def answered(request: httpx2.Request) -> httpx2.Response:
    found = ROUTES.get(request.url.path)
    if found is None:
        error = {"type": "not_found_error", "message": "File not found."}
        return httpx2.Response(404, json={"type": "error", "error": error})
    if isinstance(found, bytes):
        return httpx2.Response(200, headers={"content-type": "application/octet-stream"}, content=found)
    return httpx2.Response(200, json=found)


def made(kind: type[HttpModel], **more: Any) -> HttpModel:
    http_client = httpx2.AsyncClient(transport=httpx2.MockTransport(answered))
    return kind("m", api_key="k", http_client=http_client, **more)


def claude() -> HttpModel:
    return made(AnthropicModel)


def gpt() -> HttpModel:
    return made(OpenAIResponsesModel)


@each_row(
    "model, file, name",
    [
        (claude, FileId("file_9", "anthropic"), "sales.csv"),
        (gpt, FileId("file_7", "openai"), "sums.csv"),
        (gpt, FileId("cfile_1", "openai", container="cntr_1"), "sums.csv"),
        (gpt, FileId("cfile_1", "openai", name="mine.csv", container="cntr_1"), "mine.csv"),
        (lambda: FallbackModel([claude(), gpt()]), FileId("file_7", "openai"), "sums.csv"),
    ],
)
async def test_a_stored_file_is_downloaded_with_its_name(model: Any, file: FileId, name: str) -> None:
    found = await download(model(), file)
    assert found is not None
    assert (found.name, found.content) == (name, CSV)


@each_row(
    "model, file",
    [
        (claude, FileId("file_7", "openai")),
        (gpt, FileId("file_9", "anthropic")),
        (lambda: made(OpenAIChatModel, provider="groq", base_url="https://api.groq.com/v1"), FileId("x", "openai")),
    ],
)
async def test_a_file_of_another_provider_is_not_asked_for(model: Any, file: FileId) -> None:
    assert await download(model(), file) is None


@each_row(
    "model, file, why",
    [
        (claude, FileId("file_0", "anthropic"), "File not found"),
        (gpt, FileId("cfile_0", "openai", container="cntr_1"), "File not found"),
        (claude, FileId("file_large", "anthropic"), "a file of over 20 MiB"),
    ],
)
async def test_a_file_that_cannot_be_downloaded_is_one_line(model: Any, file: FileId, why: str) -> None:
    with pytest.raises(ModelError, match=why) as caught:
        await download(model(), file)
    assert "\n" not in str(caught.value)


async def test_a_cloud_without_a_files_api_says_so() -> None:
    from anthropic import AsyncAnthropicVertex

    client = AsyncAnthropicVertex(region="us-east5", project_id="mine", access_token="t")
    model = AnthropicModel("claude-opus-4-8", provider="vertex", client=client)
    with pytest.raises(ModelError, match="files cannot be downloaded from there"):
        await download(model, FileId("file_9", "vertex"))


async def test_the_terminal_saves_them_and_says_where_they_came_from(tmp_path: Path) -> None:
    content = {"type": "bash_code_execution_result", "content": [{"file_id": "file_9"}, {"file_id": "file_0"}]}
    run = ProviderBlock({"type": "bash_code_execution_tool_result", "content": content})
    lines = await save_generated([Message("assistant", (run,), Origin("anthropic"))], tmp_path, claude())
    assert lines[0] == f"file sales.csv: saved, {len(CSV):,} bytes, downloaded from anthropic"
    assert lines[1].startswith("file without a name: stored at anthropic as file_0; not downloaded: ")
    assert (tmp_path / "sales.csv").read_bytes() == CSV
    cited = {"type": "container_file_citation", "file_id": "cfile_1", "container_id": "cntr_1", "filename": "s.csv"}
    said = Text("See it.", {"content": {"type": "output_text", "annotations": [cited]}})
    [line] = await save_generated([Message("assistant", (said,), Origin("openai"))], tmp_path, gpt())
    assert line == f"file s.csv: saved, {len(CSV):,} bytes, downloaded from openai"
