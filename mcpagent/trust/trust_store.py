"""Store the user's permanent approvals in a file that only this user can read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from mcpagent.config.bounded_files import read_own
from mcpagent.config.file_changes import alone_with, write_whole
from mcpagent.config.user_folders import state_folder
from mcpagent.trust.descriptions import Description

MAX_ENTRIES = 2_000
FORMAT = 2


@dataclass(frozen=True, slots=True)
class TrustDigest:
    """The digest that an approval is bound to; `name` and `file` only help people who read the store."""

    name: str
    file: str
    digest: str


class TrustStore:
    """The stored approvals of the user.

    An unreadable file counts as empty. Approvals in another format are asked for again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> TrustStore:
        """Return the store in `trust.json` of the user's state folder."""
        return cls(state_folder(environ) / "trust.json")

    def digests(self) -> frozenset[str]:
        """Return the digests of all approved descriptions."""
        return frozenset(entry.digest for entry in self._read())

    def add(self, descriptions: Iterable[Description]) -> None:
        """Store an approval of these, replacing earlier versions. Raises `ConfigError` if the file is not writable."""
        fresh = [TrustDigest(item.name, item.place, item.digest()) for item in descriptions if not item.why_not_kept]
        replaced = {(item.file, item.name) for item in fresh}
        with alone_with(self.path):
            kept = [entry for entry in self._read() if (entry.file, entry.name) not in replaced]
            entries = [asdict(entry) for entry in [*kept, *fresh][-MAX_ENTRIES:]]
            write_whole(self.path, json.dumps({"format": FORMAT, "allowed": entries}, indent=1) + "\n")

    def _read(self) -> list[TrustDigest]:
        try:
            data = json.loads(read_own(self.path))
            if data["format"] != FORMAT:
                return []
            return [TrustDigest(str(item["name"]), str(item["file"]), str(item["digest"])) for item in data["allowed"]]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return []
