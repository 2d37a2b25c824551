"""A configuration file: its parsed content, and the position of each value for error messages."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mcpagent.config.jsonc import Span, ValuePath, blank_extras, value_spans
from mcpagent.errors import ConfigError
from mcpagent.utilities.filesystem.bounded_files import (
    MAX_FILE_BYTES,
    FileTooLargeError,
    read_bounded,
)
from mcpagent.utilities.text.safe_text import safe_line


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """Parsed JSON with the offset of each value, so that an error can report line and column.

    `label` names the document in errors. `folder` is the file's folder. `runs_in` is the default working folder of its
    servers; "" is the current folder.
    """

    label: str
    data: Any
    offsets: Mapping[ValuePath, int]
    text: str
    folder: Path
    runs_in: str = ""

    def place(self, path: ValuePath, *, column: bool = True) -> str:
        """Return `file:line:column` of the value or of its nearest container; only the label if there is no text."""
        offset = next(
            (
                self.offsets[path[:end]]
                for end in range(len(path), -1, -1)
                if path[:end] in self.offsets
            ),
            None,
        )
        if offset is None:
            return self.label
        line = self.text.count("\n", 0, offset) + 1
        at = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        if column:
            return f"{self.label}:{line}:{at}"
        return f"{self.label}:{line}"

    def error(self, path: ValuePath, what: str) -> ConfigError:
        """Return an error with the text `file:line:column: path.of.the.value: what`."""
        dotted = ".".join(safe_line(str(step), 60) for step in path)
        return ConfigError(
            f"{self.place(path)}: {dotted}{': ' if dotted else ''}{what}"
        )


def read_document(path: Path) -> ConfigDocument:
    """Read and parse a JSON file. Raises `ConfigError` with file, line and column."""
    return parse_document(str(path), read_bytes(path), path.absolute().parent)


def read_bytes(path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
    """Return the content of a configuration file. Raises `ConfigError` if it cannot be read, or is too large."""
    label = str(path)
    try:
        return read_bounded(path, limit)
    except IsADirectoryError:
        raise ConfigError(
            f"{label}: is a directory; give the JSON file inside it"
        ) from None
    except FileTooLargeError as error:
        raise ConfigError(
            f"{label}: {error.strerror}; this cannot be a configuration"
        ) from None
    except FileNotFoundError:
        raise ConfigError(
            f"{label}: not found{near_file(path)}; create it or pass another file"
        ) from None
    except PermissionError:
        raise ConfigError(
            f"{label}: permission denied; make it readable for your user"
        ) from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.strerror:
            why = error.strerror
        else:
            why = str(error)
        raise ConfigError(
            f"{safe_line(label)}: cannot be read: {safe_line(why)}"
        ) from None


def near_file(path: Path) -> str:
    """Return the reason why a file was not found, to append to its name: a missing folder, or a file with a similar
    name.
    """
    try:
        names = {
            entry.stem: entry.name
            for entry in path.parent.iterdir()
            if entry.suffix in (".json", path.suffix)
        }
    except OSError:
        if not path.parent.exists():
            return f' (the folder "{path.parent}" does not exist)'
        return ""
    near = get_close_matches(path.stem, names, n=1, cutoff=0.6)
    if near:
        return f' (did you mean "{names[near[0]]}"?)'
    return ""


def parse_document(label: str, raw: bytes, folder: Path) -> ConfigDocument:
    """Parse JSON in UTF-8 (UTF-16 with a byte order mark), with comments and trailing commas. Raises `ConfigError`."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if raw[:2] not in (b"\xff\xfe", b"\xfe\xff"):
            line = raw.count(b"\n", 0, error.start) + 1
            raise ConfigError(
                f"{label}:{line}: not UTF-8; save the file as UTF-8"
            ) from None
        text = raw.decode("utf-16", errors="replace")
    blanked = blank_extras(text)
    if not blanked.strip():
        raise ConfigError(
            f'{label}: is empty; write {{"mcpServers": {{}}}} and add servers to it'
        )
    try:
        data = json.loads(blanked)
    except json.JSONDecodeError as error:
        raise ConfigError(no_json(label, error)) from None
    except RecursionError:
        raise ConfigError(
            f"{label}: nests too deeply; this cannot be a server list"
        ) from None
    except ValueError:
        raise ConfigError(_long_number(label, blanked)) from None
    spans = list(value_spans(blanked))
    offsets = {span.path: span.key for span in spans if span.path}
    document = ConfigDocument(
        label, data, offsets, text, folder, str(own_workspace(folder))
    )
    _refuse_repeated_keys(document, spans)
    return document


def no_json(label: str, error: json.JSONDecodeError) -> str:
    """Return `label:line:column: problem` for invalid JSON, without the line itself, which may contain a secret."""
    place = f"{label}:{error.lineno}:{error.colno}"
    if not error.doc[error.pos :].strip():
        return f"{place}: it ends in the middle of its JSON; write the rest, and close each {{ and ["
    return f"{place}: {error.msg[:1].lower()}{error.msg[1:]}"


def _long_number(label: str, text: str) -> str:
    """Return the error message for the first number with more digits than Python can read."""
    most = sys.get_int_max_str_digits()
    for span in value_spans(text):
        digits = text[span.start : span.end].removeprefix("-")
        if digits.isdigit() and len(digits) > most:
            line = text.count("\n", 0, span.start) + 1
            column = span.start - text.rfind("\n", 0, span.start)
            return f"{label}:{line}:{column}: a number of {len(digits)} digits; write at most {most}"
    return f"{label}: has a number that cannot be read"


INSIDE_A_PROJECT = (".vscode", ".cursor", ".gemini")
"""Folders inside a project in which other clients store their configuration file."""


def own_workspace(folder: Path) -> Path:
    """Return the project folder of a configuration file in `folder`: the parent of `.vscode` and similar folders, else
    `folder`.
    """
    if folder.name in INSIDE_A_PROJECT:
        return folder.parent
    return folder


def _refuse_repeated_keys(document: ConfigDocument, spans: Iterable[Span]) -> None:
    """Raise `ConfigError` for a repeated key, because programs and people disagree about which value counts."""
    seen: set[ValuePath] = set()
    repeated: list[tuple[ValuePath, int]] = []
    for path, key in ((span.path, span.key) for span in spans):
        if path in seen:
            repeated.append((path, key))
        seen.add(path)
    if not repeated:
        return
    path, key = min(repeated, key=lambda item: (len(item[0]), item[1]))
    place, name = (
        replace(document, offsets={path: key}).place(path),
        safe_line(str(path[-1]), 60),
    )
    if len(path) == 2 and path[0] in ("mcpServers", "servers"):
        raise ConfigError(f'{place}: two servers are named "{name}"; rename one')
    raise ConfigError(f'{place}: "{name}" is given twice; keep one')


def entry_values(
    entry: Mapping[str, Any],
    path: ValuePath,
    document: ConfigDocument,
    keys: Mapping[str, str],
    folded: Callable[[str], str] = str,
) -> tuple[dict[str, Any], dict[str, ValuePath]]:
    """Return the values of an entry by mcpagent's keys, without null values, and the path of each.

    `keys` maps each spelling to mcpagent's key, after `folded` was applied to it. Keys of other clients are ignored.
    Raises `ConfigError` for a mistyped key, and for two spellings of one key.
    """
    values: dict[str, Any] = {}
    places: dict[str, ValuePath] = {}
    for written, value in entry.items():
        key = keys.get(folded(written))
        if key in places:
            what = f'"{places[key][-1]}" and "{safe_line(written, 60)}" are two names of one thing; keep one of them'
            raise document.error((*path, written), what)
        if key is not None:
            places[key] = (*path, written)
            if value is None:
                values |= {}
            else:
                values |= {key: value}
    for written in entry:
        if folded(written) in keys:
            near = []
        else:
            near = get_close_matches(folded(written), list(keys), n=1, cutoff=0.8)
        if near and keys[near[0]] not in places:
            raise document.error(
                (*path, written),
                f'unknown key "{safe_line(written, 60)}"; did you mean "{near[0]}"?',
            )
    return values, places


def kind_of(value: Any) -> str:
    """Return JSON's name for the type of a value, for an error message: "a list", "an object"."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        if value:
            return "true"
        return "false"
    names = {
        str: "a string",
        int: "a number",
        float: "a number",
        list: "a list",
        tuple: "a list",
        dict: "an object",
    }
    return names.get(type(value), type(value).__name__)


def shown_value(value: Any) -> str:
    """Return the value for an error message; only the beginning of a string, because it may be a secret."""
    if isinstance(value, str):
        return f'"{safe_line(value, 30)}"'
    if isinstance(value, list | tuple | dict) or value is None:
        return kind_of(value)
    if isinstance(value, bool):
        return str(value).lower()
    return safe_line(str(value), 30)
