"""Sessions in Redis: a `SessionStore` of one's own. Needs the package redis, and Redis 6 or newer.

    from mcpagent import Agent, Sessions
    from redis_store import RedisStore

    agent = Agent(sessions=Sessions(RedisStore("redis://127.0.0.1:6379/0")))

A session is one hash of JSON documents by entry key. A lease is a key that Redis drops 30 seconds after a process has
renewed it last. The words of a search are looked for in every message: good enough for some thousand sessions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import redis

from mcpagent.journal.sessions import Entry, Hit, Holder, StoredSession

ENTRIES, LEASE = "mcpagent:entries:", "mcpagent:lease:"

APPEND = """
if ARGV[1] ~= '' and redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
for i = 2, #ARGV, 2 do
    if ARGV[i + 1] == '' then redis.call('HDEL', KEYS[1], ARGV[i])
    else redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
return 1
"""


class RedisStore:
    """Sessions in the Redis server at this URL."""

    renew_seconds: float | None = 10.0

    def __init__(self, url: str) -> None:
        self._redis: Any = redis.Redis.from_url(url, decode_responses=True)
        self._append = self._redis.register_script(APPEND)
        address = self._redis.connection_pool.connection_kwargs
        self.where = (
            f"redis://{address.get('host', 'localhost')}:{address.get('port', 6379)}"
        )

    def append(
        self, session: str, entries: Sequence[Entry], owner: Holder | None
    ) -> bool:
        """Write the entries in one script, which Redis runs alone."""
        values = [json.dumps(asdict(owner)) if owner is not None else ""]
        for entry in entries:
            values += [
                entry.key,
                json.dumps(asdict(entry)) if entry.data is not None else "",
            ]
        return bool(self._append([ENTRIES + session, LEASE + session], values))

    def read(self, session: str, *prefixes: str) -> StoredSession | None:
        """Return the entries whose key begins with one of the prefixes."""
        documents = self._redis.hgetall(ENTRIES + session)
        found = [
            Entry(**json.loads(text))
            for key, text in documents.items()
            if key.startswith(prefixes)
        ]
        now = self._redis.time()[0]
        living = [entry for entry in found if not 0 < entry.expires <= now]
        return StoredSession(session, living, self._holder(session)) if living else None

    def list(self) -> Sequence[StoredSession]:
        """Return all sessions with what a list shows of them."""
        names = [
            key.removeprefix(ENTRIES) for key in self._redis.scan_iter(f"{ENTRIES}*")
        ]
        return [
            stored for name in names if (stored := self.read(name, "info/")) is not None
        ]

    def search(self, words: Sequence[str], limit: int) -> Sequence[Hit]:
        """Return messages that have all the words."""
        hits: list[Hit] = []
        for stored in self.list():
            messages = self.read(stored.id, "s/message/")
            for entry in messages.entries if messages is not None else ():
                if all(word.casefold() in entry.words.casefold() for word in words):
                    hits.append(Hit(stored.id, entry.key, entry.words[:200]))
        return hits[:limit]

    def lease(self, session: str, owner: Holder) -> Holder | None:
        """Take the lease for 30 seconds, or renew it."""
        mine = json.dumps(asdict(owner))
        if self._redis.set(LEASE + session, mine, nx=True, ex=30):
            return None
        holder = self._holder(session)
        if holder == owner and self._redis.expire(LEASE + session, 30):
            return None
        return holder

    def _holder(self, session: str) -> Holder | None:
        text = self._redis.get(LEASE + session)
        return Holder(**json.loads(text)) if text else None

    def release(self, session: str, owner: Holder) -> None:
        """Give the lease back, if it is the owner's."""
        if self._holder(session) == owner:
            self._redis.delete(LEASE + session)

    def delete(self, session: str) -> None:
        """Drop the session's entries and its lease."""
        self._redis.delete(ENTRIES + session, LEASE + session)

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()
