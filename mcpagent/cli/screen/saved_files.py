"""Save the files that a provider generated, and report their paths."""

from __future__ import annotations

import binascii
from collections.abc import Iterable
from pathlib import Path

from mcpagent.errors import McpAgentError
from mcpagent.history.intake.files import saved
from mcpagent.models.base import Model, download
from mcpagent.models.provider_tools.generated_files import generated_files
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import Document, FileId, Message


async def save_generated(
    messages: Iterable[Message], folder: Path, model: Model
) -> list[str]:
    """Write the generated files of these answers into the folder, and return a line about each.

    Files that the provider stores are downloaded. A file that cannot be saved causes a line, not an error.
    """
    lines: list[str] = []
    for file in generated_files(messages):
        if isinstance(file, FileId):
            lines.append(await _downloaded(file, folder, model))
        else:
            lines.append(_saved(file, folder))
    return lines


async def _downloaded(file: FileId, folder: Path, model: Model) -> str:
    name = safe_line(file.name, 100) or "without a name"
    place = f"stored at {file.provider} as {safe_line(file.id, 100)}"
    try:
        found = await download(model, file)
    except McpAgentError as error:
        return f"file {name}: {place}; not downloaded: {safe_line(str(error), 160)}"
    if found is None:
        return f"file {name}: {place}"
    return f"{_saved(found, folder)}, downloaded from {file.provider}"


def _saved(file: Document, folder: Path) -> str:
    try:
        data = file.content
        path = saved(folder, file.name, data)
    except (OSError, binascii.Error, ValueError) as error:
        name = safe_line(file.name, 100)
        return f"file {name}: cannot be saved: {safe_line(str(error), 120)}"
    return f"file {safe_line(path.name, 100)}: saved, {len(data):,} bytes"
