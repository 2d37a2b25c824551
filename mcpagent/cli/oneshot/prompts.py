"""Build the prompt of a one-shot run from the argument, files and stdin, and read the schema of its answer."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mcpagent.cli.common.error_lines import cannot_be_read
from mcpagent.cli.common.options import Options
from mcpagent.config.config_documents import no_json
from mcpagent.errors import ConfigError, InputError
from mcpagent.history.intake.files import MOST_READ, file_part
from mcpagent.history.intake.media_types import file_type
from mcpagent.prompt.builder import built_in_instructions
from mcpagent.run.output.output_spec import output_spec
from mcpagent.utilities.filesystem.bounded_files import open_given
from mcpagent.utilities.text.for_model import fenced, for_model
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import FilePart

MAX_BYTES = 10_000_000
WAITING_NOTICE_SECONDS = 3.0

Notify = Callable[[str], None]


def joined_prompt(
    question: str, files: Sequence[Path], piped: str
) -> tuple[str, list[FilePart]]:
    """Return the prompt with each text file and the piped text as fenced blocks, and the files that are not text.

    Without a prompt and files, the piped text is the prompt. Raises `InputError` if the prompt is empty or a file
    cannot be read.
    """
    piped = piped.removesuffix("\n")
    if not question.strip() and not files:
        if not piped.strip():
            raise InputError(
                'there is no question; write mcpagent -p "..." or pipe one in'
            )
        return piped, []
    blocks: list[str] = []
    attached: list[FilePart] = []
    for path in files:
        data = _file_bytes(path)
        if (part := file_part(data, path.name)) is not None:
            attached.append(part)
            continue
        if len(data) > MAX_BYTES:
            raise InputError(
                f'"{safe_line(str(path), 80)}" is larger than {MAX_BYTES // 1_000_000} MB; pass less'
            )
        if b"\0" in data[:8192]:
            kinds = "text, images (png, jpeg, gif, webp), PDF and audio (wav, mp3, ogg, flac)"
            raise InputError(
                f'"{safe_line(str(path), 80)}" is a binary file; only {kinds} can be added'
            )
        text = data.decode("utf-8", "replace").removesuffix("\n")
        blocks.append(fenced(for_model(text), safe_line(str(path), 200)))
    if piped.strip():
        blocks.append(fenced(for_model(piped)))
    return "\n\n".join([question, *blocks]).strip(), attached


def piped_text(notify: Notify, timeout: float | None = None) -> str:
    """Return the piped text, decoded as UTF-8; "" on a terminal or if stdin is closed.

    If no data arrive, `notify` receives one line, because the caller may have left a pipe open. Raises `TimeoutError`.
    """
    stream = sys.stdin
    try:
        if stream is None or stream.closed or stream.isatty():
            return ""
        return _read(stream.fileno(), notify, timeout).decode("utf-8", "replace")
    except TimeoutError:  # TimeoutError is an OSError
        raise
    except (OSError, ValueError):
        return ""


def _read(descriptor: int, notify: Notify, timeout: float | None) -> bytes:
    started = time.monotonic()
    pieces: list[bytes] = []
    notified = False
    while sum(map(len, pieces)) <= MAX_BYTES:
        passed = time.monotonic() - started
        if timeout is not None and passed > timeout:
            raise TimeoutError(f"stdin did not end within {timeout:g} s (--timeout)")
        # On Windows, select() supports only sockets.
        if sys.platform != "win32" and not select.select([descriptor], [], [], 0.5)[0]:
            if not notified and not pieces and passed > WAITING_NOTICE_SECONDS:
                notify(
                    "waiting for stdin to end (there is nothing on it yet; run with </dev/null if nothing comes)"
                )
                notified = True
            continue
        pieces.append(os.read(descriptor, 65_536))
        if not pieces[-1]:
            return b"".join(pieces)
    raise InputError(f"stdin holds more than {MAX_BYTES // 1_000_000} MB; pass less")


def _file_bytes(
    path: Path, fix: str = "check its path; a question goes in quotes"
) -> bytes:
    shown = safe_line(str(path), 80)
    try:
        # A file that a shell opened, such as `<(command)`, may never end.
        with open_given(path) as file:
            data = file.read(MAX_BYTES + 1)
            if file_type(data) is not None:
                return data + file.read(MOST_READ)
            return data
    except FileNotFoundError:
        raise InputError(f'no file "{shown}"; {fix}') from None
    except (OSError, ValueError) as error:
        raise InputError(f'"{shown}" {cannot_be_read(error)}') from None


# -- Instructions of the model -----------------------------------------------------------------------------------------


def instructions_of(options: Options, usual: str) -> str:
    """Return the model's instructions: the chosen ones, else `usual`, followed by the text of --append-system.

    If both are empty, --append-system adds to the built-in ones. Raises `InputError` if the file cannot be read, or if
    both --system and --instruction are set.
    """
    if options.system and options.instruction is not None:
        raise InputError(
            "--system and --instruction both set the instructions; write one of them"
        )
    chosen = options.system or usual
    if options.instruction is not None:
        data = _file_bytes(options.instruction, "--instruction names a text file")
        chosen = data.decode("utf-8", "replace").removesuffix("\n")
    if options.append_system and not chosen:
        chosen = built_in_instructions()
    return "\n\n".join(filter(None, (chosen, options.append_system)))


# -- Schema of the answer ----------------------------------------------------------------------------------------------


def answer_schema(path: Path) -> dict[str, Any]:
    """Return the JSON Schema in a file, for answers. References are resolved only inside it, never on a network.

    Raises `ConfigError` for a file that is no JSON Schema.
    """
    shown = safe_line(str(path), 100)
    try:
        with open_given(path) as file:
            schema = json.loads(file.read(MAX_BYTES + 1))
    except json.JSONDecodeError as error:
        raise ConfigError(f"--json-schema {no_json(shown, error)}") from None
    except RecursionError:
        raise ConfigError(
            f"--json-schema {shown}: nests too deeply; name another file"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"--json-schema {shown}: {cannot_be_read(error)}") from None
    if not isinstance(schema, dict):
        raise ConfigError(f"--json-schema {shown}: expected an object, a JSON Schema")
    try:
        output_spec(schema)  # report an invalid schema before an answer costs money
    except InputError as error:
        raise ConfigError(
            f"--json-schema {shown}: {str(error).removeprefix('output_type: ')}"
        ) from None
    return schema
