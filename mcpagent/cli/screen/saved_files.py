"""Save the files that a provider generated, and report their paths."""

from __future__ import annotations

import binascii
from collections.abc import Iterable
from pathlib import Path

from mcpagent.history.intake.files import saved
from mcpagent.models.provider_run.generated_files import generated_files
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import FileId, Message


def save_generated(messages: Iterable[Message], folder: Path) -> list[str]:
    """Write the generated files of these answers into the folder, and return a line about each. Never raises."""
    lines: list[str] = []
    for file in generated_files(messages):
        name = safe_line(file.name, 100)
        if isinstance(file, FileId):
            lines.append(
                f"file {name or 'without a name'}: stored at {file.provider} as {safe_line(file.id, 100)}"
            )
            continue
        try:
            data = file.content
            path = saved(folder, file.name, data)
        except (OSError, binascii.Error, ValueError) as error:
            lines.append(f"file {name}: cannot be saved: {safe_line(str(error), 120)}")
            continue
        lines.append(f"file {safe_line(path.name, 100)}: saved, {len(data):,} bytes")
    return lines
