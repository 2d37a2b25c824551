"""Files of servers as they are changed by `mcpagent mcp add|remove|enable|disable|import`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mcpagent.cli.configuration import short_path
from mcpagent.cli.options import Options, WriteScope
from mcpagent.config import find_config_files, user_config_folder
from mcpagent.config.documents import Document, parse_document, read_bytes
from mcpagent.config.editing import with_value, without_value
from mcpagent.config.files import alone_with, write_text
from mcpagent.config.folders import project_folders
from mcpagent.config.servers import read_servers, server_entries
from mcpagent.config.variables import Variables
from mcpagent.errors import ConfigError, InputError
from mcpagent.safe_text import safe_line

PROJECT_FILE = ".mcp.json"
PROJECT_MODE = 0o644


@dataclass(frozen=True, slots=True)
class ServerFile:
    """One file: its text, and where the servers are in it. A file that does not exist yet has no servers."""

    path: Path
    is_project: bool
    text: str
    root: tuple[str, ...]
    entries: Mapping[str, Any]

    def line(self, name: str) -> int:
        """The line on which this server begins."""
        place = _document(self.path, self.text).place((*self.root, name), column=False)
        return int(place.rpartition(":")[2])

    def changed(self, text: str) -> ServerFile:
        """The same file with this text. Raises `ConfigError` where it would not be read back."""
        document = _document(self.path, text)
        read_servers(document, Variables({}, document.folder))
        root, entries = server_entries(document)
        return ServerFile(self.path, self.is_project, text, _names(root), entries)

    def with_entry(self, name: str, entry: Mapping[str, Any]) -> ServerFile:
        return self.changed(with_value(self.text, (*self.root, name), dict(entry)))

    def without_entry(self, name: str) -> ServerFile:
        return self.changed(without_value(self.text, (*self.root, name)))

    def switched(self, name: str, *, on: bool) -> ServerFile:
        """With the server enabled or disabled, by the key that the file uses for it."""
        entry, path = self.entries[name], (*self.root, name)
        text = self.text
        if "enabled" in entry:
            text = with_value(text, (*path, "enabled"), on)
        if on:
            text = without_value(text, (*path, "disabled"))
        elif "enabled" not in entry:
            text = with_value(text, (*path, "disabled"), True)
        return self.changed(text)

    def saved(self, change: Callable[[ServerFile], ServerFile]) -> ServerFile:
        """Writes what `change` makes of the file as it is by now: another program may have changed it meanwhile."""
        with alone_with(self.path):
            changed = change(open_file(self.path, is_project=self.is_project))
            if changed.text != self.text or not self.path.exists():
                write_text(self.path, changed.text, new_mode=PROJECT_MODE if self.is_project else 0o600)
        return changed


def open_file(path: Path, *, is_project: bool) -> ServerFile:
    """The file as it is, or an empty one in its place. Raises `ConfigError` for one that cannot be read."""
    raw = read_bytes(path) if path.exists() else b""  # once: others may write it
    text = raw.decode("utf-8-sig", "replace")
    if not text.strip():
        return ServerFile(path, is_project, "{}\n", ("mcpServers",), {})
    document = parse_document(str(path), raw, path.parent)
    if document.text != text:
        raise ConfigError(f"{path}: not UTF-8; save the file as UTF-8 before it can be changed")
    if not any(key in document.data for key in ("mcpServers", "servers", "mcp_servers")) and not _is_bare(document):
        return ServerFile(path, is_project, text, ("mcpServers",), {})
    root, entries = server_entries(document)
    return ServerFile(path, is_project, text, _names(root), entries)


def files_found(options: Options) -> list[ServerFile]:
    """The files that the servers are read from, in reading order: `--config`, else those found from here."""
    if options.config:
        return [open_file(path.expanduser(), is_project=False) for path in options.config]
    return [
        open_file(path, is_project=path.parent != user_config_folder(options.environ))
        for path in find_config_files(options.folder, options.environ)
    ]


def file_to_write(options: Options, scope: WriteScope) -> ServerFile:
    """The file that a new server goes to."""
    if options.config:
        return open_file(options.config[-1].expanduser(), is_project=False)
    if scope is WriteScope.user:
        return open_file(user_config_folder(options.environ) / "mcp.json", is_project=False)
    found = find_config_files(options.folder, options.environ)
    projects = [path for path in found if path.parent != user_config_folder(options.environ)]
    return open_file(projects[-1] if projects else project_folders(options.folder)[0] / PROJECT_FILE, is_project=True)


def file_with(options: Options, name: str, scope: WriteScope | None) -> ServerFile:
    """The file whose entry of this name counts. Raises `InputError` with the nearest names."""
    files = files_found(options)
    if scope is not None and not options.config:
        files = [file for file in files if file.is_project == (scope is WriteScope.project)]
    holders = [file for file in files if name in file.entries]
    if holders:
        return holders[-1]
    raise InputError(unknown_server(name, [known for file in files for known in file.entries]))


def unknown_server(name: str, known: Sequence[str]) -> str:
    """One line: no such server, and which may have been meant."""
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return f'no server "{safe_line(name, 64)}"; did you mean {" or ".join(near)}?'
    listed = ", ".join(sorted(set(known))[:8]) or "none; add one: mcpagent mcp add NAME -- COMMAND"
    return f'no server "{safe_line(name, 64)}"; configured: {listed}'


def place_of(file: ServerFile, name: str, folder: Path) -> str:
    """`.mcp.json:3`, as a person would write it from here."""
    return short_path(f"{file.path}:{file.line(name)}", folder)


def _document(path: Path, text: str) -> Document:
    return parse_document(str(path), text.encode("utf-8", "surrogatepass"), path.absolute().parent)


def _is_bare(document: Document) -> bool:
    try:
        return server_entries(document)[0] == ()
    except ConfigError:
        if not isinstance(document.data, Mapping):
            raise
        return False


def _names(root: Sequence[str | int]) -> tuple[str, ...]:
    return tuple(str(step) for step in root)
