"""Persistent conversations: the stored data of a session, and the stores.

`store.py` is the interface for an agent, and `protocol.py` the protocol of a store. `sql_store.py` with `sqlite.py` and
`postgres.py` are the built-in stores. `entries.py` defines the content of each entry, `session_writer.py` writes the
changes of a session, and `export/` writes a session as a file for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagent.utilities.python import late_names

if TYPE_CHECKING:
    from mcpagent.journal.sessions.export import ExportForm, exported
    from mcpagent.journal.sessions.loaded_session import (
        Holder,
        LoadedSession,
        MessageMatch,
        SessionInfo,
    )
    from mcpagent.journal.sessions.protocol import (
        Entry,
        Hit,
        SessionStore,
        StoredSession,
    )
    from mcpagent.journal.sessions.store import Sessions

__all__ = [
    "Entry",
    "ExportForm",
    "Hit",
    "Holder",
    "LoadedSession",
    "MessageMatch",
    "SessionInfo",
    "SessionStore",
    "Sessions",
    "StoredSession",
    "exported",
]

__getattr__, __dir__ = late_names(
    __name__,
    {
        "export": ("ExportForm", "exported"),
        "loaded_session": ("MessageMatch", "Holder", "LoadedSession", "SessionInfo"),
        "protocol": ("Entry", "Hit", "SessionStore", "StoredSession"),
        "store": ("Sessions",),
    },
)
