"""One configuration file: its parsed content, and the place of each value for errors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mcpagent.config.jsonc import Span, ValuePath, blank_extras, value_spans
from mcpagent.errors import ConfigError
from mcpagent.safe_text import safe_line

MAX_FILE_BYTES = 5_000_000


@dataclass(frozen=True, slots=True)
class Document:
    """Parsed JSON with the offset of each value, so that an error can say line and column."""

    label: str
    data: Any
    offsets: Mapping[ValuePath, int]
    text: str
    folder: Path

    def place(self, path: ValuePath, *, column: bool = True) -> str:
        offset = next(
            (self.offsets[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.offsets), None
        )
        if offset is None:
            return self.label
        line = self.text.count("\n", 0, offset) + 1
        at = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        return f"{self.label}:{line}:{at}" if column else f"{self.label}:{line}"

    def error(self, path: ValuePath, what: str) -> ConfigError:
        dotted = ".".join(safe_line(str(step), 60) for step in path)
        return ConfigError(f"{self.place(path)}: {dotted}{': ' if dotted else ''}{what}")


def read_document(path: Path) -> Document:
    """Reads and parses a JSON file. Raises `ConfigError` with file, line and column."""
    return parse_document(str(path), read_bytes(path), path.absolute().parent)


def read_bytes(path: Path) -> bytes:
    """The content of a configuration file. Raises `ConfigError` for what cannot be one."""
    label = str(path)
    try:
        if path.is_dir():
            raise ConfigError(f"{label}: is a directory; give the JSON file inside it")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(f"{label}: larger than {MAX_FILE_BYTES // 1_000_000} MB; this cannot be a server list")
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{label}: not found{_near_file(path)}; create it or pass another file") from None
    except PermissionError:
        raise ConfigError(f"{label}: permission denied; make it readable for your user") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{safe_line(label)}: cannot be read: {safe_line(str(error))}") from None


def _near_file(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.suffix == ".json"]
    except OSError:
        return f' (the folder "{path.parent}" does not exist)' if not path.parent.exists() else ""
    near = get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else ""


def parse_document(label: str, raw: bytes, folder: Path) -> Document:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if raw[:2] not in (b"\xff\xfe", b"\xfe\xff"):
            line = raw.count(b"\n", 0, error.start) + 1
            raise ConfigError(f"{label}:{line}: not UTF-8; save the file as UTF-8") from None
        text = raw.decode("utf-16", errors="replace")
    blanked = blank_extras(text)
    if not blanked.strip():
        raise ConfigError(f'{label}: is empty; write {{"mcpServers": {{}}}} and add servers to it')
    try:
        data = json.loads(blanked)
    except json.JSONDecodeError as error:
        shown = safe_line(text.split("\n")[error.lineno - 1], 80)
        what = error.msg[:1].lower() + error.msg[1:]
        raise ConfigError(f"{label}:{error.lineno}:{error.colno}: {what} in: {shown}") from None
    except RecursionError:
        raise ConfigError(f"{label}: nests too deeply; this cannot be a server list") from None
    except ValueError as error:
        raise ConfigError(f"{label}: {safe_line(str(error))}") from None
    spans = list(value_spans(blanked))
    document = Document(label, data, {span.path: span.key for span in spans if span.path}, text, folder)
    _refuse_repeated_servers(document, spans)
    return document


def _refuse_repeated_servers(document: Document, spans: Iterable[Span]) -> None:
    seen: set[ValuePath] = set()
    for path, key in ((span.path, span.key) for span in spans):
        if len(path) == 2 and path[0] in ("mcpServers", "servers") and path in seen:
            place = replace(document, offsets={path: key}).place(path)
            raise ConfigError(f'{place}: two servers are named "{safe_line(str(path[1]), 60)}"; rename one')
        seen.add(path)


def kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    names = {str: "a string", int: "a number", float: "a number", list: "a list", tuple: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)


def shown_value(value: Any) -> str:
    """The value for an error line; a string's own text only where it is short enough not to be a secret's whole."""
    if isinstance(value, str):
        return f'"{safe_line(value, 30)}"'
    if isinstance(value, list | tuple | dict) or value is None:
        return kind_of(value)
    return str(value).lower() if isinstance(value, bool) else safe_line(str(value), 30)
