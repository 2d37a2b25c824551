"""`/save` and `/export`: the conversation as a file."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from mcpagent.cli.commands.desk import Desk
from mcpagent.cli.configuration import short_path
from mcpagent.config.folders import user_data_folder
from mcpagent.safe_text import safe_line


async def save(desk: Desk, argument: str) -> None:
    """the whole conversation as JSON, under this name"""
    _write(desk, "json", argument)


async def export(desk: Desk, argument: str) -> None:
    """the conversation as md, json or html, to read or pass on"""
    form, _, name = argument.partition(" ")
    from mcpagent.cli.transcript import FORMATS

    form = form or "md"
    if form not in FORMATS:
        desk.warn(f"no format {safe_line(form, 20)}; /export md, json or html")
        return
    _write(desk, form, name.strip())


def _write(desk: Desk, form: str, name: str) -> None:
    from mcpagent.cli.transcript import FORMATS, Transcript

    if not desk.agent.messages:
        desk.say("there is nothing to keep yet")
        return
    now = datetime.now(UTC)
    transcript = Transcript.of(desk.agent, desk.configuration, now)
    path = _free(_path(desk, form, name or f"chat-{now:%Y-%m-%d-%H%M%S}"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path.open("x", encoding="utf-8") as file:
            path.chmod(0o600)
            file.write(FORMATS[form](transcript))
    except OSError as error:
        desk.warn(f"{short_path(str(path), desk.folder)} cannot be written: {safe_line(str(error.strerror or error))}")
        return
    desk.say(f"saved as {short_path(str(path), desk.folder)}")


def _path(desk: Desk, form: str, name: str) -> Path:
    """A name goes to the user's folder, a path where it says."""
    if "/" in name or "\\" in name or name.endswith(f".{form}"):
        path = desk.folder / Path(name).expanduser()
        return path if path.suffix else path.with_suffix(f".{form}")
    plain = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "chat"
    return user_data_folder(desk.environ) / "exports" / f"{plain[:80]}.{form}"


def _free(path: Path) -> Path:
    """The path, or the first with a number that is not taken: nothing is ever overwritten."""
    number = 1
    candidate = path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return candidate
