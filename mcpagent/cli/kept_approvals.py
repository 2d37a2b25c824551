"""What the user said yes to for longer than one call: for this session in memory, "always" in a file.

A yes holds for one server as it is configured (another command, address or key under the same name is another server)
and, where it was given for a tool, for that tool as it was shown: a changed description or schema is asked about anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeAlias

from mcpagent.cli.folders import state_folder
from mcpagent.config import ServerConfig
from mcpagent.config.files import alone_with
from mcpagent.mcp.cache import fingerprint
from mcpagent.messages import ToolDefinition
from mcpagent.safe_text import safe_line
from mcpagent.whole_files import write_whole

What: TypeAlias = Literal["tool", "reads", "server"]
"""One tool; those of a server of which it says that they only read; all of a server's."""


@dataclass(frozen=True, slots=True)
class Yes:
    """One yes. `server` and `definition` are hashes: of the server's configuration, and of the tool as it was shown."""

    name: str
    what: What
    server: str
    tool: str = ""
    definition: str = ""

    @property
    def label(self) -> str:
        """`git.push`, or `git.*`: as `--allow` would be given it."""
        return f"{self.name}.{self.tool}" if self.what == "tool" else f"{self.name}.*"

    def covers(self, tool: ToolDefinition) -> bool:
        """For a tool of this yes's server."""
        match self.what:
            case "server":
                return True
            case "reads":
                return tool.read_only is True
            case "tool":
                return self.tool == own_name(tool) and self.definition == definition_hash(tool)


def own_name(tool: ToolDefinition) -> str:
    """The name that the tool's server gives it."""
    return tool.original_name or tool.name


def definition_hash(tool: ToolDefinition) -> str:
    """SHA-256 over all that a person or a model is shown of a tool."""
    shown = [own_name(tool), tool.title, tool.description, tool.parameters, tool.read_only]
    text = json.dumps(shown, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


class KeptApprovals:
    """The yeses of one user. A file that cannot be read counts as empty, one that cannot be written changes nothing."""

    def __init__(self, path: Path | None, servers: Iterable[ServerConfig]) -> None:
        self._path = path
        self._servers = {server.name: fingerprint(server) for server in servers}
        self._always = _read(path)
        self._session: set[Yes] = set()

    @classmethod
    def of_user(cls, environ: Mapping[str, str], servers: Iterable[ServerConfig] = ()) -> KeptApprovals:
        return cls(state_folder(environ) / "approvals.json", servers)

    def has(self, tool: ToolDefinition) -> bool:
        server = self._servers.get(tool.server or "")
        held = self._always | self._session
        return server is not None and any(yes.server == server and yes.covers(tool) for yes in held)

    def add(self, tool: ToolDefinition, what: What, *, always: bool) -> None:
        """Keeps a yes that was just given; nothing is kept for a tool that is no server's."""
        server = self._servers.get(tool.server or "")
        if server is None:
            return
        yes = Yes(safe_line(tool.server or "", 64), what, server)
        if what == "tool":
            yes = replace(yes, tool=own_name(tool), definition=definition_hash(tool))
        if not always:
            self._session.add(yes)
            return
        self._change(lambda kept: kept | {yes})

    def all(self) -> list[Yes]:
        """Those that are kept for good, in the order of their labels."""
        return sorted(self._always, key=lambda yes: (yes.label, yes.what, yes.server, yes.definition))

    def forget(self, glob: str) -> list[Yes]:
        """Takes back, also in this session, all whose label or server's name the pattern covers; gives those kept."""
        gone = [yes for yes in self.all() if _is_meant(glob, yes)]
        self._session = {yes for yes in self._session if not _is_meant(glob, yes)}
        if gone:
            self._change(lambda kept: kept - set(gone))
        return gone

    def _change(self, change: Callable[[set[Yes]], set[Yes]]) -> None:
        """Another program may have written meanwhile, so the file is read anew."""
        with alone_with(self._path) if self._path is not None else contextlib.nullcontext():
            self._always = change(self._always | _read(self._path))
            if self._path is not None:
                entries = [{key: value for key, value in asdict(yes).items() if value} for yes in self.all()]
                _write(self._path, json.dumps({"format": 2, "allow": entries}, indent=1) + "\n")


def _is_meant(glob: str, yes: Yes) -> bool:
    return glob == yes.name or fnmatchcase(yes.label, glob) or glob == yes.label


def _read(path: Path | None) -> set[Yes]:
    if path is None:
        return set()
    try:
        entries = json.loads(path.read_bytes())["allow"]
        found = [Yes(**{key: str(value) for key, value in entry.items()}) for entry in entries]  # type: ignore[arg-type]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()
    return {yes for yes in found if yes.what in ("reads", "server") or (yes.what == "tool" and yes.definition)}


def _write(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):  # it holds for this run; the next one asks again
        write_whole(path, text)
