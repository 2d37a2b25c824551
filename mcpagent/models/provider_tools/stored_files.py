"""Download files that a provider generated and stores, through its files API.

APIs: https://platform.claude.com/docs/en/build-with-claude/files, and "containers" and "files" in OpenAI's API
reference.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from mcpagent.history.intake.media_types import base64_text
from mcpagent.models.failures_and_retries import AnswerError
from mcpagent.values.messages import Document, FileId

MOST_BYTES = 20 * 2**20
"""Maximum size of one file, equal to the budget for all files of a prompt."""

DOWNLOAD_SECONDS = 60.0

Download: TypeAlias = Callable[[Any, FileId], Awaitable[Document]]


async def from_anthropic(client: Any, file: FileId) -> Document:
    """Return a file from Anthropic's files API, with the name that the provider's code gave it."""
    about = await client.files.retrieve_metadata(file.id)
    content = await _read(client.files.with_streaming_response.download(file.id))
    return Document(about.mime_type, content, about.filename)


async def from_openai(client: Any, file: FileId) -> Document:
    """Return a file from a container of OpenAI's code interpreter, or from its files API."""
    if file.container:
        stored = client.containers.files
        where = {"container_id": file.container}
        name = file.name
        if not name:
            about = await stored.retrieve(file.id, **where)
            name = PurePosixPath(about.path).name
        opened = stored.content.with_streaming_response.retrieve(file.id, **where)
        return Document(file.media_type, await _read(opened), name)
    about = await client.files.retrieve(file.id)
    opened = client.files.with_streaming_response.content(file.id)
    return Document(file.media_type, await _read(opened), about.filename)


async def _read(opened: AbstractAsyncContextManager[Any]) -> str:
    """Return the content in Base64; raises `AnswerError` if it is larger than `MOST_BYTES`."""
    content = bytearray()
    async with opened as response:
        async for part in response.iter_bytes():
            content += part
            if len(content) > MOST_BYTES:
                raise AnswerError(f"a file of over {MOST_BYTES >> 20} MiB", "too_much")
    return base64_text(bytes(content))
