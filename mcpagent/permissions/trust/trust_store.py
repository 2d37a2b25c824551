"""Store permanent consents in a file that only its user can read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from mcpagent.permissions.trust.commits import head_commit
from mcpagent.permissions.trust.descriptions import Description, project_of
from mcpagent.utilities.filesystem.bounded_files import read_own
from mcpagent.utilities.filesystem.file_changes import alone_with, write_whole
from mcpagent.utilities.filesystem.user_folders import state_folder

MAX_ENTRIES = 2_000
FORMAT = 3


@dataclass(frozen=True, slots=True)
class StoredConsent:
    """The digest that the user consented to, and the commit of the project's repository at that time ("": none)."""

    name: str
    file: str
    digest: str
    commit: str = ""


class TrustStore:
    """The user's permanent consents. A file that cannot be read, or has another format, counts as empty."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> TrustStore:
        """Return the store in `trust.json` of the user's state folder."""
        return cls(state_folder(environ) / "trust.json")

    def digests(self) -> frozenset[str]:
        """Return all digests that the user consented to."""
        return frozenset(entry.digest for entry in self.entries())

    def add(self, descriptions: Iterable[Description]) -> None:
        """Store the consent to these descriptions, replacing earlier ones. Raises `ConfigError` if the file is not
        writable.
        """
        commits: dict[Path, str] = {}
        fresh = list[StoredConsent]()
        for item in descriptions:
            folder = project_of(item)
            if folder not in commits:
                commits[folder] = head_commit(folder)
            fresh.append(
                StoredConsent(item.name, item.place, item.digest(), commits[folder])
            )
        replaced = {(item.file, item.name) for item in fresh}
        with alone_with(self.path):
            kept = [
                entry
                for entry in self.entries()
                if (entry.file, entry.name) not in replaced
            ]
            self._write([*kept, *fresh])

    def remove(self, files: Iterable[str]) -> list[StoredConsent]:
        """Remove the consents to these files, and return them. Raises `ConfigError` if the file is not writable."""
        wanted = frozenset(files)
        with alone_with(self.path):
            entries = self.entries()
            self._write([entry for entry in entries if entry.file not in wanted])
        return [entry for entry in entries if entry.file in wanted]

    def remove_entry(self, file: str, name: str) -> None:
        """Remove the consent to one entry of a file. Raises `ConfigError` if the file is not writable."""
        with alone_with(self.path):
            entries = self.entries()
            kept = [one for one in entries if (one.file, one.name) != (file, name)]
            if len(kept) < len(entries):
                self._write(kept)

    def entries(self) -> list[StoredConsent]:
        """Return the stored consents, the oldest first."""
        try:
            data = json.loads(read_own(self.path))
            if data["format"] != FORMAT:
                return []
            fields = ("name", "file", "digest", "commit")
            return [
                StoredConsent(*(str(item[field]) for field in fields))
                for item in data["allowed"]
            ]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return []

    def _write(self, entries: list[StoredConsent]) -> None:
        allowed = [asdict(entry) for entry in entries[-MAX_ENTRIES:]]
        write_whole(
            self.path,
            json.dumps({"format": FORMAT, "allowed": allowed}, indent=1) + "\n",
        )
