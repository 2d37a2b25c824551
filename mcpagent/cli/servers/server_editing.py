"""`mcpagent mcp add|remove|enable|disable`: change one server in a configuration file and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Any, TypeAlias

from mcpagent.cli.approvals.key_commands import keep_secret, place_of_secret
from mcpagent.cli.approvals.project_trust import remember_added, waiting_servers
from mcpagent.cli.common.configuration import (
    load_configuration,
    meant_target,
    short_path,
)
from mcpagent.cli.common.error_lines import did_you_mean
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.options import Options, WriteScope
from mcpagent.cli.screen.terminal import Terminal, open_terminal, put
from mcpagent.config import (
    ServerConfig,
    find_config_files,
    load_servers,
    user_config_folder,
)
from mcpagent.config.config_documents import ConfigDocument, parse_document, read_bytes
from mcpagent.config.jsonc import with_value, without_value
from mcpagent.config.literals import literal_secrets, literal_warnings
from mcpagent.config.secret_store import (
    SecretStore,
    is_key_name,
    key_store,
    with_stored_keys,
)
from mcpagent.config.server_files import read_servers, server_entries
from mcpagent.config.variables import Variables
from mcpagent.demo import demo_server_config
from mcpagent.errors import ConfigError, InputError
from mcpagent.permissions.trust.descriptions import file_of, real_place
from mcpagent.permissions.trust.trust_store import TrustStore
from mcpagent.utilities.filesystem.file_changes import alone_with, write_text
from mcpagent.utilities.filesystem.user_folders import project_folders
from mcpagent.utilities.text.safe_text import safe_line

TryServer: TypeAlias = Callable[[ServerConfig], bool]

PROJECT_FILE = ".mcp.json"
PROJECT_MODE = 0o644
PROGRAM_SUFFIXES = frozenset(
    (".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".sh", ".php", ".jar")
)

_KEY_REFERENCE = re.compile(r"\$\{keyring:([^}]+)\}")


@dataclass(frozen=True, slots=True)
class ServerFile:
    """A configuration file: its text, and the path of keys to the servers. A missing file has no servers."""

    path: Path
    is_project: bool
    text: str
    root: tuple[str, ...]
    entries: Mapping[str, Any]

    def line(self, name: str) -> int:
        """Return the number of the line on which this server's entry begins."""
        place = _document(self.path, self.text).place((*self.root, name), column=False)
        return int(place.rpartition(":")[2])

    def changed(self, text: str) -> ServerFile:
        """Return the same file with this text. Raises `ConfigError` if the text is not a valid server configuration."""
        document = _document(self.path, text)
        read_servers(document, Variables({}, document.folder))
        root, entries = server_entries(document)
        return ServerFile(
            self.path, self.is_project, text, tuple(map(str, root)), entries
        )

    def with_entry(self, name: str, entry: Mapping[str, Any]) -> ServerFile:
        """Return the file with this server, replacing an entry of the same name."""
        return self.changed(with_value(self.text, (*self.root, name), dict(entry)))

    def without_entry(self, name: str) -> ServerFile:
        """Return the file without this server; comments around it stay."""
        return self.changed(without_value(self.text, (*self.root, name)))

    def with_setting(self, name: str, key: str, value: Any) -> ServerFile:
        """Return the file with this setting of a server; the rest of its entry stays."""
        return self.changed(with_value(self.text, (*self.root, name, key), value))

    def switched(self, name: str, *, on: bool) -> ServerFile:
        """Return the file with the server enabled or disabled, by the key that the file uses for it."""
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
        """Apply `change` to the current file, which another program may have changed, and write the result."""
        with alone_with(self.path):
            changed = change(open_file(self.path, is_project=self.is_project))
            if changed.text != self.text or not self.path.exists():
                write_text(
                    self.path,
                    changed.text,
                    new_mode=PROJECT_MODE if self.is_project else 0o600,
                )
        return changed


def open_file(path: Path, *, is_project: bool) -> ServerFile:
    """Read the file; a missing one counts as empty. Raises `ConfigError` for an unreadable one."""
    # Read the file only once: another program may change it in between.
    raw = b""
    if path.exists():
        raw = read_bytes(path)
    text = raw.decode("utf-8-sig", "replace")
    if not text.strip():
        return ServerFile(path, is_project, "{}\n", ("mcpServers",), {})
    document = parse_document(str(path), raw, path.parent)
    if document.text != text:
        raise ConfigError(
            f"{path}: not UTF-8; save the file as UTF-8 before it can be changed"
        )
    try:
        root, entries = server_entries(document)
    except ConfigError:
        data = document.data
        if not isinstance(data, Mapping) or data.keys() & {
            "mcpServers",
            "servers",
            "mcp_servers",
        }:
            raise
        root, entries = (
            ("mcpServers",),
            {},
        )  # an object without servers, to which servers can be added
    return ServerFile(path, is_project, text, tuple(map(str, root)), entries)


def files_found(options: Options) -> list[ServerFile]:
    """Return the server configuration files in reading order: those of `--config`, else those found from the current
    folder.
    """
    if options.config:
        return [
            open_file(path.expanduser(), is_project=False) for path in options.config
        ]
    return [
        open_file(path, is_project=path.parent != user_config_folder(options.environ))
        for path in find_config_files(options.folder, options.environ)
    ]


def file_to_write(options: Options, scope: WriteScope) -> ServerFile:
    """Return the file to which a new server is added."""
    if options.config:
        return open_file(options.config[-1].expanduser(), is_project=False)
    if scope == "user":
        return open_file(
            user_config_folder(options.environ) / "mcp.json", is_project=False
        )
    found = find_config_files(options.folder, options.environ)
    projects = [
        path for path in found if path.parent != user_config_folder(options.environ)
    ]
    return open_file(
        projects[-1] if projects else project_folders(options.folder)[0] / PROJECT_FILE,
        is_project=True,
    )


def file_with(options: Options, name: str, scope: WriteScope | None) -> ServerFile:
    """Return the file with the effective entry of this name. Raises `InputError` with similar names."""
    files = files_found(options)
    if scope is not None and not options.config:
        files = [file for file in files if file.is_project == (scope == "project")]
    holders = [file for file in files if name in file.entries]
    if holders:
        return holders[-1]
    raise InputError(
        unknown_server(name, [known for file in files for known in file.entries])
    )


def unknown_server(name: str, known: Sequence[str]) -> str:
    """Return one line about an unknown server, with suggestions."""
    listed = (
        ", ".join(sorted(set(known))[:8])
        or "none; add one: mcpagent mcp add NAME -- COMMAND"
    )
    hint = did_you_mean(
        get_close_matches(name, known, n=3, cutoff=0.5), f"configured: {listed}"
    )
    return f'no server "{safe_line(name, 64)}"; {hint}'


def place_of(file: ServerFile, name: str, folder: Path) -> str:
    """Return `.mcp.json:3`, relative to the current folder."""
    return short_path(f"{file.path}:{file.line(name)}", folder)


def _document(path: Path, text: str) -> ConfigDocument:
    return parse_document(
        str(path), text.encode("utf-8", "surrogatepass"), path.absolute().parent
    )


# -- Commands ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NewServer:
    """The arguments of `mcp add`: a command with its arguments, or one URL, and their options."""

    name: str
    target: Sequence[str]
    env: Sequence[str] = ()
    secret: Sequence[str] = ()
    header: Sequence[str] = ()
    transport: str = ""
    cwd: str = ""
    description: str = ""
    trust: bool = False


def add_server(
    options: Options,
    new: NewServer,
    scope: WriteScope,
    *,
    replace: bool,
    tried: TryServer | None = None,
) -> ExitCode:
    """Write the server into the user's or the project's file, with a warning about a secret in plain text.

    `tried` starts the server once and returns whether it did; otherwise a line names the command that does.
    """
    terminal = open_terminal(options.color)
    file = file_to_write(options, scope)
    replaces_demo = is_first_server(file, options)
    if new.name in file.entries and not replace:
        place = place_of(file, new.name, options.folder)
        raise InputError(
            f'server "{new.name}" is there already ({place}); replace it with --replace'
        )
    if new.trust and file.is_project:
        raise InputError(
            "--trust: a project's file cannot trust its own servers; add it to your own (--scope user)"
        )
    entry = entry_of(new) | _own_folder(new, file, options.folder)
    file.with_entry(
        new.name, entry
    )  # report a file that cannot be written before asking for a secret
    _store_secrets(options, new.secret, terminal)
    file = file.saved(lambda fresh: fresh.with_entry(new.name, entry))
    written = real_place(str(file.path))
    added = [
        server
        for server in load_configuration(options).enabled
        if server.name == new.name and real_place(file_of(server.source)) == written
    ]
    for server in added:
        # typing the command is the user's consent
        remember_added(server, options)
    will_try = tried is not None and bool(added)
    _report_added(options, terminal, file, new.name, entry, will_try=will_try)
    if tried is None or not any(map(tried, added)):
        test = f"mcpagent mcp test {shlex.quote(new.name)}"
        put(terminal.out, f"try it: {test}", style="dim")
    if replaces_demo:
        put(terminal.out, demo_gone_line(), style="dim")
    counting = file_with(options, new.name, None)
    if counting.path != file.path:
        place = place_of(counting, new.name, options.folder)
        terminal.warn(f"{new.name} is here still the one of {place}, which hides it")
    return ExitCode.OK


def is_first_server(file: ServerFile, options: Options) -> bool:
    """Return whether a server in this file ends the use of the bundled server: everywhere, or in the file's project."""
    if options.config:
        return False
    if file.is_project:
        return load_configuration(options).is_demo
    return not file.entries


def demo_gone_line() -> str:
    """Return a line about the end of the bundled server's use, with the command that adds it again."""
    (entry,) = demo_server_config()["mcpServers"].values()
    command = shlex.join((entry["command"], *entry["args"]))
    return f"the bundled demo server steps back; it returns with: mcpagent mcp add demo -- {command}"


def remove_server(options: Options, name: str, scope: WriteScope | None) -> ExitCode:
    """Remove the server from the effective file, or from the one that `scope` names."""
    terminal = open_terminal(options.color)
    file = file_with(options, name, scope)
    changed = file.saved(lambda fresh: fresh.without_entry(name))
    # if the entry is added again later, mcpagent asks again
    trust = TrustStore.of_user(options.environ)
    trust.remove_entry(real_place(str(file.path)), name)
    put(
        terminal.out,
        f"removed {name} from {short_path(str(file.path), options.folder)}",
    )
    if not changed.entries and not options.config:
        put(
            terminal.out,
            "the bundled demo server is used again where no server is configured",
            style="dim",
        )
    for key in _unused_keys(options, file.entries[name], changed):
        put(
            terminal.out,
            f"its secret {key} stays stored: mcpagent keys remove {key}",
            style="dim",
        )
    left = [other for other in files_found(options) if name in other.entries]
    if left:
        put(
            terminal.out,
            f"{name} is now the one of {place_of(left[-1], name, options.folder)}",
            style="dim",
        )
    return ExitCode.OK


def _unused_keys(
    options: Options, entry: Mapping[str, Any], changed: ServerFile
) -> list[str]:
    """Return the stored keys that only this entry referred to."""
    others = json.dumps(
        [changed.entries, *(file.entries for file in files_found(options))]
    )
    stored = {kept.name for kept in key_store(options.environ).list()}
    named = _KEY_REFERENCE.findall(json.dumps(entry))
    return [
        name
        for name in dict.fromkeys(named)
        if name in stored and f"${{keyring:{name}}}" not in others
    ]


def switch_server(
    options: Options, name: str, scope: WriteScope | None, *, on: bool
) -> ExitCode:
    """Enable or disable the server in the effective file, or in the one that `scope` names."""
    terminal = open_terminal(options.color)
    file = file_with(options, name, scope)
    changed = file.saved(lambda fresh: fresh.switched(name, on=on))
    word, place = (
        "enabled" if on else "disabled",
        place_of(changed, name, options.folder),
    )
    is_same = changed.text == file.text
    put(
        terminal.out,
        f"{name} is {word} already ({place})"
        if is_same
        else f"{word} {name} in {place}",
    )
    if not on and not _is_any_enabled(options):
        put(
            terminal.out,
            f"no server is enabled here; mcpagent mcp enable {shlex.quote(name)} enables this one again",
            style="dim",
        )
    return ExitCode.OK


def _is_any_enabled(options: Options) -> bool:
    with contextlib.suppress(ConfigError):
        configuration = load_configuration(options)
        return configuration.is_demo or bool(configuration.enabled)
    return True


def move_secrets(
    options: Options, name: str, *, store: SecretStore | None = None
) -> ExitCode:
    """Move the literal secrets of a server's entry to the keyring, and write references in their place.

    Raises `InputError` for an unknown server, and `ConfigError` if there is nothing to move.
    """
    from mcpagent.cli.servers.importing.client_entries import taken_by_user

    terminal, file = open_terminal(options.color), file_with(options, name, None)
    entry = dict(file.entries[name])
    taken = taken_by_user(name, entry, plain=False)
    place = place_of(file, name, options.folder)
    if not taken.secrets or taken.entry is None:
        raise ConfigError(
            f"{place}: {name} has no secret that a reference can replace; nothing was changed"
        )
    keys, changed = store or key_store(options.environ), taken.entry
    kept = [keys.set(secret.name, secret.value) for secret in taken.secrets]
    is_waiting = name in waiting_servers(load_configuration(options), options)

    def moved(fresh: ServerFile) -> ServerFile:
        text = fresh.text
        for found in literal_secrets(fresh.entries[name]):
            value = changed.get(str(found.path[0]))
            for step in found.path[1:]:
                value = value[step] if value is not None else None
            if value is not None:
                text = with_value(text, (*fresh.root, name, *found.path), value)
        return fresh.changed(text)

    file.saved(moved)
    for server in load_configuration(options).enabled if not is_waiting else ():
        if server.name == name:
            remember_added(server, options)
    terminal.done(
        f"{', '.join(item.name for item in kept)} moved from {place} to {place_of_secret(kept[0])}"
    )
    return ExitCode.OK


def entry_of(new: NewServer) -> dict[str, Any]:
    """Return the entry to write into a file. Raises `InputError` for invalid arguments."""
    for name in new.secret:
        if not is_key_name(name):
            raise InputError(
                f"--secret {safe_line(name, 40)}: write a name such as GITHUB_TOKEN"
            )
    words = _words(new)
    if fixed := meant_target(words[0]):
        whole = safe_line(" ".join([fixed, *words[1:]]), 200)
        if fixed.startswith("npx"):
            whole = f"-- {whole}"
        shown = safe_line(words[0], 100)
        raise InputError(
            f"{shown} is no command; write mcpagent mcp add {new.name} {whole}"
        )
    is_url = _is_address(words)
    entry: dict[str, Any] = {"type": new.transport} if new.transport else {}
    if is_url:
        if len(words) > 1:
            raise InputError(
                f"{safe_line(words[1], 60)}: an address takes no arguments"
            )
        if new.env:
            raise InputError(
                "--env is for commands; what an address needs goes into --header 'Name: value'"
            )
        entry |= {"type": new.transport or "http", "url": words[0]}
        headers = dict(_header(text) for text in new.header)
        if new.secret and not any("${keyring:" in value for value in headers.values()):
            headers["Authorization"] = f"Bearer ${{keyring:{new.secret[0]}}}"
        return entry | _given(
            headers=headers, description=new.description, trust=new.trust
        )
    if new.header:
        raise InputError(
            "--header is for addresses; what a command needs goes into --env NAME=VALUE"
        )
    env = dict(_variable(text) for text in new.env) | {
        name: f"${{keyring:{name}}}" for name in new.secret
    }
    given = _given(
        command=words[0],
        args=words[1:],
        env=env,
        cwd=new.cwd,
        description=new.description,
    )
    return entry | given | _given(trust=new.trust)


def _own_folder(new: NewServer, file: ServerFile, folder: Path) -> dict[str, str]:
    """Return `cwd` if the command names a file of this folder and the file's servers run in another folder; otherwise
    {}.
    """
    if (
        new.cwd
        or _is_address(new.target)
        or file.path.absolute().parent == folder.absolute()
    ):
        return {}
    words = _words(new)
    named = (word for word in words if not os.path.isabs(word))
    is_there = any((folder / word).exists() for word in named)
    if not (is_there or missing_programs(words, folder)):
        return {}
    if not file.is_project:
        return {"cwd": str(folder.absolute())}
    return {"cwd": Path(os.path.relpath(folder, file.path.parent)).as_posix()}


def missing_programs(words: Sequence[str], folder: Path) -> list[str]:
    """Return the words of a command that name a missing program file, seen from this folder.

    Such a word begins like a path (`./run`), or is an argument with a program's suffix (`server.py`).
    """
    named = [word for word in words if word.startswith(("./", "../"))]
    named += [word for word in words[1:] if PurePath(word).suffix in PROGRAM_SUFFIXES]
    return [
        word
        for word in dict.fromkeys(named)
        if "://" not in word and "$" not in word and not (folder / word).exists()
    ]


def _is_address(words: Sequence[str]) -> bool:
    return bool(words) and words[0].startswith(("http://", "https://"))


def _words(new: NewServer) -> list[str]:
    words = list(new.target)
    if len(words) == 1 and any(char.isspace() for char in words[0]):
        try:
            words = shlex.split(words[0])
        except ValueError as error:
            raise InputError(
                f"{safe_line(words[0], 80)}: {error}; check the quotes"
            ) from None
    if not words or not words[0]:
        raise InputError(
            f"nothing to start: mcpagent mcp add {new.name} -- COMMAND ARGS..., or a URL"
        )
    return words


def _given(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}


def _variable(text: str) -> tuple[str, str]:
    """Parse `NAME=VALUE`; for `NAME` alone, the value is that of the environment when the server starts."""
    name, equals, value = text.partition("=")
    if not name or not name.replace("_", "a").isalnum() or name[0].isdigit():
        raise InputError(
            f"--env {safe_line(text, 40)}: write NAME=VALUE, or NAME for a reference to that variable"
        )
    return name, value if equals else f"${{{name}}}"


def _header(text: str) -> tuple[str, str]:
    at = min((place for mark in ":=" if (place := text.find(mark)) > 0), default=0)
    if not at:
        raise InputError(f"--header {safe_line(text, 20)}: write 'Name: value'")
    return text[:at].strip(), text[at + 1 :].strip()


def _store_secrets(options: Options, names: Sequence[str], terminal: Terminal) -> None:
    """Ask for the secrets that are not stored yet."""
    store = key_store(options.environ)
    for name in names:
        if store.get(name) is None:
            keep_secret(name, options.environ, terminal, store=store)
        else:
            put(
                terminal.out,
                f"{name} is kept already; another value: mcpagent keys set {name}",
                style="dim",
            )


def _not_on_path(options: Options, command: str) -> list[str]:
    """Return a warning if the program is not on PATH, otherwise []."""
    is_found = shutil.which(command, path=options.environ.get("PATH")) is not None
    if is_found or os.sep in command:
        return []
    shown = safe_line(command, 60)
    return [f"{shown} is not found on PATH; install it, or give its whole path"]


def _missing_files(entry: Mapping[str, Any], folder: Path) -> list[str]:
    """Return a warning for each program file of the command that is missing in the folder where it starts."""
    words = (entry["command"], *entry.get("args", ()))
    shown = short_path(str(folder), Path("/nowhere"))
    return [
        f"{safe_line(word, 100)} is not in {shown}; the server cannot start without it"
        for word in missing_programs(words, folder)
    ]


def _report_added(
    options: Options,
    terminal: Terminal,
    file: ServerFile,
    name: str,
    entry: dict[str, Any],
    *,
    will_try: bool,
) -> None:
    """Report the new entry. `will_try`: the server starts next, which reports a program that is not on PATH."""
    what = entry.get("url") or " ".join((entry["command"], *entry.get("args", ())))
    put(
        terminal.out,
        f"added {name} to {place_of(file, name, options.folder)}   {safe_line(what, 120)}",
    )
    if "command" in entry:
        started_in = file.path.absolute().parent / entry.get("cwd", "")
        terminal.warn(*_missing_files(entry, started_in))
    if "command" in entry and not will_try:
        terminal.warn(*_not_on_path(options, entry["command"]))
    for problem in load_servers(
        file.path, environ=with_stored_keys(options.environ)
    ).problems:
        if problem.name == name:
            terminal.warn(f"until then it is skipped: {safe_line(problem.reason, 400)}")
    terminal.warn(*literal_warnings(name, entry))
