"""`SessionStore`: the protocol of a store, with eight methods, and its entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mcpagent.journal.sessions.loaded_session import Holder


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a session's journal.

    Of the entries of a session with the same `key` the last one counts; a store may drop the earlier ones. `data` is
    JSON text. With None the key ends: a store drops its entries and this one. `time` and `expires` are in seconds since
    1970; a store returns no entry that has expired, and drops it when convenient; 0 means never. `run` and `call` are
    the IDs of the run and of the tool call that an entry belongs to, if any. `words` is the text that a search finds.
    """

    key: str
    kind: str
    data: str | None
    time: float
    run: str = ""
    call: str = ""
    words: str = ""
    expires: float = 0.0


@dataclass(frozen=True, slots=True)
class StoredSession:
    """Entries of one session, in any order, and the living process that has its lease."""

    id: str
    entries: Sequence[Entry]
    holder: Holder | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry whose words a search has found; `excerpt` shows the text around them."""

    session: str
    key: str
    excerpt: str


@runtime_checkable
class SessionStore(Protocol):
    """A place that keeps sessions: SQLite and PostgreSQL are built in, others take some forty lines.

    The runtime calls the methods from one thread, one at a time. Each has an effect as a whole or none. A store raises
    `SessionStoreError`, in one line, if it cannot read or write. `where` names the place in error lines, without a
    password. `renew_seconds` is how often the runtime calls `lease` again for each session that a process has; None if
    the store itself notices that a process is dead.
    """

    where: str
    renew_seconds: float | None

    def append(
        self, session: str, entries: Sequence[Entry], owner: Holder | None
    ) -> bool:
        """Write all of the entries. Return False, and write none, if `owner` has no lease; None needs none."""
        ...

    def read(self, session: str, *prefixes: str) -> StoredSession | None:
        """Return the entries whose key begins with one of the prefixes, as of one moment, or None."""
        ...

    def list(self) -> Sequence[StoredSession]:
        """Return every session with its entries whose key begins with `info/`."""
        ...

    def search(self, words: Sequence[str], limit: int) -> Sequence[Hit]:
        """Return entries that have all the words, in any order, the best first."""
        ...

    def lease(self, session: str, owner: Holder) -> Holder | None:
        """Take or renew the lease. Return the other living process that has it; None if `owner` has it now."""
        ...

    def release(self, session: str, owner: Holder) -> None:
        """Give the lease back, if `owner` has it."""
        ...

    def delete(self, session: str) -> None:
        """Drop all entries of a session, and its lease."""
        ...

    def close(self) -> None:
        """Give everything back; the next call opens it again."""
        ...
