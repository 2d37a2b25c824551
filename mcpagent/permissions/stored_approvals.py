"""Store the user's approvals for more than one call: for this session in memory, for "always" in a file.

An approval applies to one server as configured: with another command, address or key, it is a different server. An
approval of a tool applies to the tool as shown: after a change of its description or schema, the user must approve
again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from mcpagent.errors import ConfigError
from mcpagent.permissions.rule_matching import SIGNS
from mcpagent.utilities.filesystem.bounded_files import read_own
from mcpagent.utilities.filesystem.file_changes import alone_with, write_whole
from mcpagent.utilities.filesystem.user_folders import state_folder
from mcpagent.utilities.text.globs import fits
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import ToolDefinition

What: TypeAlias = Literal["tool", "prompt", "resource", "call", "reads", "server"]
"""The scope of an approval: one tool, prompt or resource; one tool with exactly these arguments ("call"); all calls
that only read, as the server declares; or the whole server.
"""

MEANINGS: Mapping[What, str] = {
    "tool": "this tool as it was shown",
    "prompt": "this prompt, with any arguments",
    "resource": "this resource",
    "call": "this tool as it was shown, with exactly the arguments that you saw",
    "reads": "tools of which the server says that they only read, and resources that it lists",
    "server": "every tool, prompt and resource of the server",
}

LOCK_SECONDS = 2.0
"""Timeout for storing an approval while another program changes the file."""


@dataclass(frozen=True, slots=True)
class StoredApproval:
    """An approval by the user. `name` is the server's name; `place` is its file, "" for one of this session.

    `server`, `definition` and `arguments` are hashes: of the server's configuration, of the tool as shown, and of the
    arguments of a "call".
    """

    name: str
    what: What
    server: str
    tool: str = ""
    definition: str = ""
    arguments: str = ""
    place: str = field(default="", compare=False)

    @property
    def label(self) -> str:
        """The approval in the syntax of `--allow`: `git.push`, `@git:URI`, or `git.*`."""
        match self.what:
            case "reads" | "server":
                return f"{self.name}.*"
            case "tool" | "call":
                return f"{self.name}.{self.tool}"
            case kind:
                return f"{SIGNS[kind]}{self.name}:{self.tool}"

    @property
    def meaning(self) -> str:
        """The approval in words, such as `always: ...`."""
        return f"{'always' if self.place else 'this session'}: {MEANINGS[self.what]}"

    def covers(
        self,
        tool: ToolDefinition,
        arguments: Mapping[str, Any],
        *,
        own_code: bool = False,
    ) -> bool:
        """Return whether the approval covers a call of a tool of its server; with `own_code`, even after the tool
        changed.
        """
        match self.what:
            case "server":
                return True
            case "reads":
                return tool.read_only is True
            case what:
                kind = "tool" if what == "call" else what
                if (kind, self.tool) != (tool.kind, tool.key.name):
                    return False
                is_as_shown = own_code or self.definition == definition_hash(tool)
                return is_as_shown and (
                    what != "call" or self.arguments == arguments_hash(arguments)
                )


def definition_hash(tool: ToolDefinition) -> str:
    """Return a SHA-256 of everything that a user or a model sees of a tool."""
    return _hash(
        [tool.key.name, tool.title, tool.description, tool.parameters, tool.read_only]
    )


def arguments_hash(arguments: Mapping[str, Any]) -> str:
    """Return a SHA-256 of the arguments of a call."""
    return _hash(dict(arguments))


def _hash(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


class StoredApprovals:
    """The approvals of one user.

    `servers` maps the names of the current servers to their fingerprints. An unreadable file counts as empty. If the
    file is not writable, new approvals apply to this run only.
    """

    def __init__(self, path: Path | None, servers: Mapping[str, str]) -> None:
        self._path = path
        self.servers = servers
        self._always = _read(path)
        self._session: set[StoredApproval] = set()

    @classmethod
    def of_user(
        cls, environ: Mapping[str, str], servers: Mapping[str, str] | None = None
    ) -> StoredApprovals:
        """Return the approvals in `approvals.json`, for servers with these fingerprints."""
        return cls(state_folder(environ) / "approvals.json", servers or {})

    @property
    def held(self) -> frozenset[StoredApproval]:
        """The approvals that apply now: permanent ones, and those of this session."""
        return frozenset(self._always | self._session)

    def add(
        self,
        tool: ToolDefinition,
        what: What,
        arguments: Mapping[str, Any],
        *,
        always: bool,
    ) -> None:
        """Store a new approval, permanently if `always`; tools without a server are ignored."""
        server = self.servers.get(tool.server or "")
        if server is None:
            return
        made = StoredApproval(safe_line(tool.server or "", 64), what, server)
        if what not in ("reads", "server"):
            made = replace(made, tool=tool.key.name, definition=definition_hash(tool))
        if what == "call":
            made = replace(made, arguments=arguments_hash(arguments))
        if not always:
            self._session.add(made)
            return
        made = replace(made, place=str(self._path or "memory"))
        self._change(lambda stored: stored | {made})

    def all(self) -> list[StoredApproval]:
        """Return the permanent approvals, sorted by label."""
        return sorted(
            self._always,
            key=lambda one: (
                one.label,
                one.what,
                one.server,
                one.definition,
                one.arguments,
            ),
        )

    def forget(self, glob: str) -> list[StoredApproval]:
        """Revoke all approvals whose label or server matches, also those of this session; return the permanent ones."""
        gone = [one for one in self.all() if _is_meant(glob, one)]
        self._session = {one for one in self._session if not _is_meant(glob, one)}
        if gone:
            self._change(lambda stored: stored - set(gone))
        return gone

    def _change(
        self, change: Callable[[set[StoredApproval]], set[StoredApproval]]
    ) -> None:
        """Apply a change to the file. It is read again first, because another program may have changed it.

        If the file is not writable, or locked for too long, the change applies to this run only.
        """
        self._always = change(self._always)
        if self._path is None:
            return
        with (
            contextlib.suppress(OSError, ConfigError),
            alone_with(self._path, wait_seconds=LOCK_SECONDS),
        ):
            self._always = change(self._always | _read(self._path))
            entries = [_as_data(one) for one in self.all()]
            write_whole(
                self._path, json.dumps({"format": 2, "allow": entries}, indent=1) + "\n"
            )


def _as_data(one: StoredApproval) -> dict[str, str]:
    return {
        key: value for key, value in asdict(one).items() if value and key != "place"
    }


def _is_meant(glob: str, one: StoredApproval) -> bool:
    return glob == one.name or fits(one.label, glob) or glob == one.label


def _read(path: Path | None) -> set[StoredApproval]:
    if path is None:
        return set()
    try:
        entries = json.loads(read_own(path))["allow"]
        found = [_of_data(entry, str(path)) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()
    return {one for one in found if _is_whole(one)}


def _of_data(entry: Mapping[str, object], place: str) -> StoredApproval:
    texts = {key: str(value) for key, value in entry.items()}
    return StoredApproval(**{**texts, "place": place})  # type: ignore[arg-type]


def _is_whole(one: StoredApproval) -> bool:
    """Return whether an approval has all fields of its kind, because an incomplete one would allow more."""
    if one.what in ("reads", "server"):
        return True
    return bool(one.definition) and (
        one.what in SIGNS or (one.what == "call" and bool(one.arguments))
    )


def distinct_servers(servers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the fingerprints of servers by name, without names that two different servers share."""
    found: dict[str, set[str]] = {}
    for name, fingerprint in servers:
        found.setdefault(name, set()).add(fingerprint)
    return {
        name: next(iter(prints)) for name, prints in found.items() if len(prints) == 1
    }
