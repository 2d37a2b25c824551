"""Store the user's approvals for more than one call: for this session in memory, "always" in a file.

`mcpagent approvals list|forget` are here, too.

An approval holds for one server as configured (another command, address or key under the same name is another server)
and, if it concerns a tool, for that tool as shown: after a change of description or schema, the user is asked again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from rich.text import Text

from mcpagent.cli.frame.exit_codes import ExitCode
from mcpagent.cli.frame.options import Options
from mcpagent.cli.screen.lines import table
from mcpagent.cli.screen.terminal import open_terminal
from mcpagent.config import ServerConfig
from mcpagent.config.rule_names import SIGNS
from mcpagent.errors import ConfigError, InputError
from mcpagent.mcp.lists.list_cache import config_fingerprint
from mcpagent.utilities.files.bounded_files import read_own
from mcpagent.utilities.files.file_changes import alone_with, write_whole
from mcpagent.utilities.files.user_folders import state_folder
from mcpagent.utilities.text.globs import fits
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import ToolDefinition

What: TypeAlias = Literal["tool", "prompt", "resource", "reads", "server"]
"""One tool, prompt or resource; what only reads, as its server says; all of a server's."""


@dataclass(frozen=True, slots=True)
class Yes:
    """An approval. `server` and `definition` are hashes: of the server's configuration, and of the tool as shown."""

    name: str
    what: What
    server: str
    tool: str = ""
    definition: str = ""

    @property
    def label(self) -> str:
        """The approval in the syntax of `--allow`: `git.push`, `@git:URI`, or `git.*`."""
        match self.what:
            case "reads" | "server":
                return f"{self.name}.*"
            case "tool":
                return f"{self.name}.{self.tool}"
            case kind:
                return f"{SIGNS[kind]}{self.name}:{self.tool}"

    def covers(self, tool: ToolDefinition) -> bool:
        """Return whether the approval covers a tool of its server."""
        match self.what:
            case "server":
                return True
            case "reads":
                return tool.read_only is True
            case kind:
                is_it = (kind, self.tool) == (tool.kind, tool.key.name)
                return is_it and self.definition == definition_hash(tool)


def definition_hash(tool: ToolDefinition) -> str:
    """Return a SHA-256 over everything that a user or a model sees of a tool."""
    shown = [
        tool.key.name,
        tool.title,
        tool.description,
        tool.parameters,
        tool.read_only,
    ]
    text = json.dumps(shown, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


LOCK_SECONDS = 2.0
"""How long a yes waits for another program that is changing the file."""


class KeptApprovals:
    """The approvals of one user.

    An unreadable file counts as empty. If the file is not writable, approvals hold for this run only.
    """

    def __init__(self, path: Path | None, servers: Iterable[ServerConfig]) -> None:
        self._path = path
        found = {(server.name, config_fingerprint(server)) for server in servers}
        named = Counter(name for name, _ in found)
        # Two servers of one name cannot be told apart, so nothing is kept for either.
        self._servers = {
            name: fingerprint for name, fingerprint in found if named[name] == 1
        }
        self._always = _read(path)
        self._session: set[Yes] = set()

    @classmethod
    def of_user(
        cls, environ: Mapping[str, str], servers: Iterable[ServerConfig] = ()
    ) -> KeptApprovals:
        """Return the approvals in `approvals.json`, for these servers as currently configured."""
        return cls(state_folder(environ) / "approvals.json", servers)

    def has(self, tool: ToolDefinition) -> bool:
        """Return whether an approval covers the current version of the tool."""
        server = self._servers.get(tool.server or "")
        held = self._always | self._session
        return server is not None and any(
            yes.server == server and yes.covers(tool) for yes in held
        )

    def add(self, tool: ToolDefinition, what: What, *, always: bool) -> None:
        """Store a new approval; tools without a server are not stored."""
        server = self._servers.get(tool.server or "")
        if server is None:
            return
        yes = Yes(safe_line(tool.server or "", 64), what, server)
        if what in SIGNS:
            yes = replace(yes, tool=tool.key.name, definition=definition_hash(tool))
        if not always:
            self._session.add(yes)
            return
        self._change(lambda kept: kept | {yes})

    def all(self) -> list[Yes]:
        """Return the permanent approvals, sorted by label."""
        return sorted(
            self._always,
            key=lambda yes: (yes.label, yes.what, yes.server, yes.definition),
        )

    def forget(self, glob: str) -> list[Yes]:
        """Revoke all whose label or server matches, also in this session; return the permanent ones."""
        gone = [yes for yes in self.all() if _is_meant(glob, yes)]
        self._session = {yes for yes in self._session if not _is_meant(glob, yes)}
        if gone:
            self._change(lambda kept: kept - set(gone))
        return gone

    def _change(self, change: Callable[[set[Yes]], set[Yes]]) -> None:
        """Apply a change to the file, which is read again because another program may have written it.

        If the file is not writable, or locked for long, the change holds for this run; the next one asks again.
        """
        self._always = change(self._always)
        if self._path is None:
            return
        with (
            contextlib.suppress(OSError, ConfigError),
            alone_with(self._path, wait_seconds=LOCK_SECONDS),
        ):
            self._always = change(self._always | _read(self._path))
            entries = [
                {key: value for key, value in asdict(yes).items() if value}
                for yes in self.all()
            ]
            write_whole(
                self._path, json.dumps({"format": 2, "allow": entries}, indent=1) + "\n"
            )


def _is_meant(glob: str, yes: Yes) -> bool:
    return glob == yes.name or fits(yes.label, glob) or glob == yes.label


def _read(path: Path | None) -> set[Yes]:
    if path is None:
        return set()
    try:
        entries = json.loads(read_own(path))["allow"]
        found = [
            Yes(**{key: str(value) for key, value in entry.items()})  # type: ignore[arg-type]
            for entry in entries
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()
    return {
        yes
        for yes in found
        if yes.what in ("reads", "server") or (yes.what in SIGNS and yes.definition)
    }


# -- mcpagent approvals -----------------------------------------------------------------------------------------------

MEANINGS = {
    "tool": "this tool as it was shown",
    "prompt": "this prompt, with any arguments",
    "resource": "this resource",
    "reads": "tools of which the server says that they only read, and resources that it lists",
    "server": "every tool, prompt and resource of the server",
}


def approval_lines(kept: Iterable[Yes]) -> list[Text]:
    """Return one line per approval: its scope in the form of `--allow`, and its meaning."""
    return table(
        ((safe_line(yes.label, 140), "tool"), MEANINGS[yes.what]) for yes in kept
    )


def list_approvals(options: Options) -> ExitCode:
    """Run `mcpagent approvals list`."""
    kept = KeptApprovals.of_user(options.environ).all()
    lines = approval_lines(kept) or [Text("nothing is allowed for good")]
    open_terminal(options.color).report(
        options, [{"approval": yes.label, "what": yes.what} for yes in kept], *lines
    )
    return ExitCode.OK


def forget_approvals(pattern: str, options: Options) -> ExitCode:
    """Run `mcpagent approvals forget`. Raises `InputError` for a pattern that matches nothing."""
    kept = KeptApprovals.of_user(options.environ)
    gone = kept.forget(pattern)
    if not gone:
        known = (
            ", ".join(safe_line(yes.label, 80) for yes in kept.all()[:5]) or "nothing"
        )
        raise InputError(
            f'"{safe_line(pattern, 80)}" covers nothing that is allowed for good; allowed: {known}'
        )
    for yes in gone:
        open_terminal(options.color).done(
            f"{safe_line(yes.label, 140)} is asked about again"
        )
    return ExitCode.OK
