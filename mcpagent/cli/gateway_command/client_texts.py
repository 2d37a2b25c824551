"""Edit the configuration file of an MCP client: remove servers, and write the gateway's entry. Pure functions of its
text.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcpagent.config.config_documents import parse_document
from mcpagent.config.jsonc import with_value, without_value
from mcpagent.errors import ConfigError

_TABLE = re.compile(r"^\s*\[\[?([^\]\n]+)\]\]?\s*(?:#[^\n]*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ClientText:
    """The text of a client's configuration file; its servers are under the key `section`."""

    path: Path
    section: str
    text: str

    @property
    def is_toml(self) -> bool:
        """True for a TOML file; other files are JSON."""
        return self.path.suffix == ".toml"

    @classmethod
    def of_bytes(cls, path: Path, section: str, raw: bytes | None) -> ClientText:
        """Return the text of a file's bytes without a byte order mark, which writing restores. Raises `ConfigError`."""
        try:
            text = (raw or b"").decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ConfigError(f"{path}: not UTF-8; save it as UTF-8 first") from None
        return cls(path, section, text)

    def data(self) -> dict[str, Any]:
        """Return the parsed content of the file. Raises `ConfigError`."""
        found = self._data()
        if not isinstance(found.get(self.section, {}), Mapping):
            raise ConfigError(f"{self.path}: {self.section}: expected an object")
        return found

    def _data(self) -> dict[str, Any]:
        if not self.text.strip():
            return {}
        if self.is_toml:
            try:
                return tomllib.loads(self.text)
            except tomllib.TOMLDecodeError as error:
                raise ConfigError(f"{self.path}: {error}") from None
        raw = self.text.encode("utf-8", "surrogatepass")
        found = parse_document(str(self.path), raw, self.path.parent).data
        if not isinstance(found, Mapping):
            raise ConfigError(f"{self.path}: expected an object")
        return dict(found)

    def entries(self) -> dict[str, Any]:
        """Return the servers by name."""
        return dict(self.data().get(self.section, {}))

    def changed(
        self, out: Collection[str], entries: Mapping[str, Mapping[str, Any]]
    ) -> ClientText:
        """Return the file without the servers `out` and with these entries; the rest is unchanged.

        Raises `ConfigError` if the file's form does not allow such an edit.
        """
        wanted = self.data()
        kept = {name: item for name, item in self.entries().items() if name not in out}
        wanted[self.section] = kept | {name: dict(one) for name, one in entries.items()}
        text = self._edited(out, entries)
        found = ClientText(self.path, self.section, text)
        if found.data() != wanted and not (not wanted[self.section] and out):
            raise ConfigError(
                f"{self.path}: its servers are written in a form that cannot be edited; edit it by hand"
            )
        return found

    def _edited(
        self, out: Collection[str], entries: Mapping[str, Mapping[str, Any]]
    ) -> str:
        text = self.text
        if self.is_toml:
            text = _without_tables(text, self.section, out)
            return text + "".join(
                _table(self.section, name, entry, text)
                for name, entry in entries.items()
            )
        if not text.strip():
            text = "{}\n"
        for name in out:
            text = without_value(text, (self.section, name))
        for name, entry in entries.items():
            text = with_value(text, (self.section, name), dict(entry))
        return text


def _without_tables(text: str, section: str, names: Collection[str]) -> str:
    """Return the TOML text without the tables `[section.name]` of these names, and without their subtables."""
    heads = list(_TABLE.finditer(text))
    ends = [*(head.start() for head in heads), len(text)][1:]
    gone = [
        (head.start(), end)
        for head, end in zip(heads, ends, strict=True)
        if _is_of(head[1], section, names)
    ]
    for start, end in reversed(gone):
        text = text[:start] + text[end:]
    return text


def _is_of(head: str, section: str, names: Collection[str]) -> bool:
    try:
        table: Any = tomllib.loads(f"[{head}]")
    except tomllib.TOMLDecodeError:
        return False
    found = table.get(section)
    return isinstance(found, Mapping) and any(name in names for name in found)


def _table(section: str, name: str, entry: Mapping[str, Any], before: str) -> str:
    """Return an entry as TOML; flat JSON values have the same form there."""
    lines = [f"{key} = {_toml(value)}" for key, value in entry.items()]
    gap = "\n" if before.strip() else ""
    return f"{gap}[{section}.{_toml(name)}]\n" + "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    # TOML has no surrogate pairs, which JSON can use for non-ASCII characters.
    return json.dumps(value, ensure_ascii=False)
