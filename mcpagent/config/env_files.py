"""Files of `NAME=value` lines, as `envFile` names them."""

from __future__ import annotations

import io
from pathlib import Path

from mcpagent.config.documents import read_bytes
from mcpagent.errors import ConfigError


def read_env_file(path: Path) -> dict[str, str]:
    """The variables, the later one of a name; references in their values stay as they are.

    Raises `ConfigError` with file and line.
    """
    from dotenv.parser import parse_stream

    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8; save the file as UTF-8") from None
    found: dict[str, str] = {}
    for line in parse_stream(io.StringIO(text)):
        if line.error or "\0" in line.original.string:
            raise ConfigError(f"{path}:{line.original.line}: expected NAME=value")
        if line.key is not None:
            found[line.key] = line.value or ""
    return found
