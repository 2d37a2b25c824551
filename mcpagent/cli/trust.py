"""Which servers of project files may be started: those the user said yes to, as they are written.

A `.mcp.json` that came with a repository starts programs, so somebody has to look at it first. The yes is bound to the
file, the server's name and its whole entry as it is written - command, arguments, environment, folder, address,
headers, approvals - so that anything changed is asked about anew. Variables are not expanded for this: a secret may
change without a question. Files given by `--config`, servers given by `--server` and the user's own need no yes.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from mcpagent.cli.configuration import Configuration, short_path
from mcpagent.cli.figures import counted
from mcpagent.cli.folders import state_folder
from mcpagent.config import ServerConfig, ServerProblem
from mcpagent.config.files import alone_with, write_text
from mcpagent.config.spellings import KEY_OF_SPELLING
from mcpagent.errors import ConfigError, ServerError
from mcpagent.safe_text import safe_line, visible
from mcpagent.secret_shapes import without_shapes

if TYPE_CHECKING:
    from mcpagent.cli.options import Options

Answer: TypeAlias = Literal["always", "once", "no"]
AskTrust: TypeAlias = Callable[[Sequence[str]], Answer]
"""Shows lines and asks about all the servers in them at once."""

MAX_ENTRIES = 2_000
MEND = "allow it: --trust-project, or say yes in mcpagent chat"
_SWITCHES = ("disabled", "enabled", "description")
"""Keys that change nothing about what runs."""

_IN_ONE_LINE = ("command", "args", "url", "transport", "timeout", *_SWITCHES)


@dataclass(frozen=True, slots=True)
class TrustDigest:
    """What a yes is bound to; `name` and `file` are for whoever reads the store."""

    name: str
    file: str
    digest: str


def digest_of(name: str, file: Path | str, written: Mapping[str, Any]) -> TrustDigest:
    """SHA-256 over the file's place, the server's name and its entry, under our keys and in one order."""
    path = str(Path(file).resolve())
    entry = {KEY_OF_SPELLING.get(key, key): value for key, value in written.items()}
    kept = {key: value for key, value in entry.items() if key not in _SWITCHES}
    text = json.dumps([path, name, kept], sort_keys=True)
    return TrustDigest(name, path, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())


class TrustStore:
    """The servers that the user trusts, in a file only that user can read; one that cannot be read counts as empty."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> TrustStore:
        return cls(state_folder(environ) / "trust.json")

    def digests(self) -> frozenset[str]:
        return frozenset(entry.digest for entry in self._read())

    def add(self, digests: Iterable[TrustDigest]) -> None:
        """Raises `ConfigError` where the file cannot be written."""
        fresh = list(digests)
        replaced = {(item.file, item.name) for item in fresh}
        with alone_with(self.path):
            kept = [entry for entry in self._read() if (entry.file, entry.name) not in replaced]
            entries = [asdict(entry) for entry in [*kept, *fresh][-MAX_ENTRIES:]]
            write_text(self.path, json.dumps({"format": 1, "servers": entries}, indent=1) + "\n")

    def _read(self) -> list[TrustDigest]:
        try:
            data = json.loads(self.path.read_bytes())
            return [TrustDigest(str(item["name"]), str(item["file"]), str(item["digest"])) for item in data["servers"]]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return []


def ask_project_trust(
    configuration: Configuration,
    options: Options,
    tell: Callable[[str], None],
    ask: AskTrust | None,
    members: Sequence[ServerConfig] = (),
) -> Configuration:
    """The configuration without the project's servers that nobody said yes to; each of them becomes a problem.

    `ask` is None where nobody can be asked. `tell` gets one line about what is left out. `members` are servers of the
    agents that a card's agent can ask. Raises `ServerError` where nobody can be asked and nothing is left, or where a
    member would be without its servers.
    """
    if options.trust_project:
        return configuration
    store = TrustStore.of_user(options.environ)
    mine = untrusted(configuration.enabled, store)
    names = {server.name for server in mine}
    theirs = [server for server in untrusted(members, store) if server.name not in names]
    new = [*mine, *theirs]
    if not new:
        return configuration
    answer = ask(trust_lines(new, options.folder)) if ask is not None else "no"
    if answer == "always":
        try:
            store.add(_digest(server) for server in new)
        except ConfigError as error:
            tell(f"{error}; the answer holds for this time")
    if answer != "no":
        return configuration
    if theirs or (ask is None and len(new) == len(configuration.names)):
        raise ServerError(_refusal(new, options.folder), server=new[0].name, phase="config")
    tell(_refusal(new, options.folder))
    return _without(configuration, new, options.folder)


def untrusted(servers: Iterable[ServerConfig], store: TrustStore) -> list[ServerConfig]:
    """The enabled servers of project files that nobody said yes to as they are written now."""
    found = [server for server in servers if server.scope == "project" and not server.disabled]
    known = store.digests() if found else frozenset[str]()
    return [server for server in found if _digest(server).digest not in known]


def trust_lines(servers: Sequence[ServerConfig], folder: Path) -> list[str]:
    """What would be started, exactly and in full, as it is written; of the rest only keys of issuers are left out."""
    files = dict.fromkeys(short_path(file_of(server), folder) for server in servers)
    lines = [f"{', '.join(files)} of this project starts what nobody here has said yes to:"]
    for server in servers:
        entry = {KEY_OF_SPELLING.get(key, key): value for key, value in server.written.items()}
        target = entry.get("url") or shlex.join(str(word) for word in (entry.get("command"), *entry.get("args", ())))
        lines.append(f"  {_exact(server.name)}  {_exact(str(target))}  ({short_path(server.source, folder)})")
        for key, value in sorted(entry.items()):
            if key not in _IN_ONE_LINE and not key.endswith("_seconds"):
                shown = without_shapes(json.dumps(value, ensure_ascii=False))
                lines.append(f"      {_exact(key)}: {_exact(shown)}")
    return lines


def _exact(text: str) -> str:
    return visible(text, kept="")


def file_of(server: ServerConfig) -> str:
    return server.source.rpartition(":")[0]


def _digest(server: ServerConfig) -> TrustDigest:
    return digest_of(server.name, file_of(server), server.written)


def _refusal(servers: Sequence[ServerConfig], folder: Path) -> str:
    """`2 servers of .mcp.json are not trusted, so not started: git, docs. allow: ...`."""
    files = ", ".join(dict.fromkeys(short_path(file_of(server), folder) for server in servers))
    names = ", ".join(safe_line(server.name, 64) for server in servers[:5])
    more = f" and {len(servers) - 5} more" if len(servers) > 5 else ""
    verb = "is" if len(servers) == 1 else "are"
    return f"{counted(len(servers), 'server')} of {files} {verb} not trusted, so not started: {names}{more}. {MEND}"


def _without(configuration: Configuration, servers: Sequence[ServerConfig], folder: Path) -> Configuration:
    names = frozenset(server.name for server in servers)
    problems = [
        ServerProblem(server.name, f"not trusted yet ({short_path(server.source, folder)}). {MEND}")
        for server in servers
    ]
    found = configuration.servers
    rest = tuple(server for server in found.servers if server.name not in names)
    return replace(
        configuration,
        servers=replace(found, servers=rest, problems=(*found.problems, *problems)),
        untrusted=names,
    )
