"""Conversations that last: what is kept of a session, and the stores that keep it.

`store.py` is the front that an agent is given; `backend.py` the small protocol behind it, with `sqlite.py` and
`postgres.py`; `keeping.py` writes one session down as it goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagent.python.late_names import late_names

if TYPE_CHECKING:
    from mcpagent.sessions.kept import Found, Holder, KeptSession, SessionInfo
    from mcpagent.sessions.store import SessionStore

__all__ = ["Found", "Holder", "KeptSession", "SessionInfo", "SessionStore"]

__getattr__, __dir__ = late_names(
    __name__, {"kept": ("Found", "Holder", "KeptSession", "SessionInfo"), "store": ("SessionStore",)}
)
