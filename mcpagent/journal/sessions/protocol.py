"""`SessionStore`: the protocol of a store, with eight methods, and the values that it stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mcpagent.journal.sessions.loaded_session import Holder


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a session's journal.

    Of a session's entries with the same `key`, the last one counts; a store may delete the earlier ones. `data` is JSON
    text; None removes the key: a store deletes its entries and this one. `time` and `expires` are in seconds since
    1970. A store returns no expired entry, and deletes it when convenient; 0 means never. `run` and `call` are the IDs
    of the run and of the tool call that an entry belongs to, or "". `words` is the text for searches.
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
    """The entries of one session, in any order, and the living process that has its lease, if any."""

    id: str
    entries: Sequence[Entry]
    holder: Holder | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry that a search found; `excerpt` is the text around the found words."""

    session: str
    key: str
    excerpt: str


@runtime_checkable
class SessionStore(Protocol):
    """A store for sessions: SQLite and PostgreSQL are built in; another one takes some forty lines.

    The runtime calls the methods from one thread, one at a time. Each method takes effect completely or not at all. A
    store raises `SessionStoreError`, in one line, if it cannot read or write. `where` is its name in errors, without a
    password. `renew_seconds` is the interval at which the runtime calls `lease` again for each session of the process;
    None if the store itself notices that a process is dead.
    """

    where: str
    renew_seconds: float | None

    def append(
        self, session: str, entries: Sequence[Entry], owner: Holder | None
    ) -> bool:
        """Write all entries. Return False, without writing, if `owner` does not have the lease; None needs no lease."""
        ...

    def read(self, session: str, *prefixes: str) -> StoredSession | None:
        """Return the entries whose keys begin with one of the prefixes, from one moment; None if the session does not
        exist.
        """
        ...

    def list(self) -> Sequence[StoredSession]:
        """Return every session, with the entries whose keys begin with `info/`."""
        ...

    def search(self, words: Sequence[str], limit: int) -> Sequence[Hit]:
        """Return entries that have all the words, in any order, the best first."""
        ...

    def lease(self, session: str, owner: Holder) -> Holder | None:
        """Take or renew the lease; return None. If another living process has it, return that process."""
        ...

    def release(self, session: str, owner: Holder) -> None:
        """Release the lease, if `owner` has it."""
        ...

    def delete(self, session: str) -> None:
        """Delete all entries of a session, and its lease."""
        ...

    def close(self) -> None:
        """Close the store; the next call opens it again."""
        ...
