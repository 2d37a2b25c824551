"""Cache vectors on disk by text and model, so that each embedding is computed once."""

from __future__ import annotations

import contextlib
import hashlib
import math
import sqlite3
from array import array
from collections.abc import Callable, Sequence
from operator import mul
from pathlib import Path
from typing import TypeAlias

from mcpagent.utilities.filesystem.bounded_files import check_own
from mcpagent.utilities.filesystem.file_changes import make_private

Vector: TypeAlias = bytes
"""A vector as the bytes of float32 numbers."""

_FILE = "vectors.sqlite3"
_SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
_PROBE = "create a new issue in a repository"
"""A fixed text that is embedded with each batch: if its vector differs from the stored one, another model now has this
name.
"""

_SAME = 0.999
_AT_ONCE = 500
"""Maximum number of keys in one SQL statement; SQLite accepts at least 999."""


class VectorCache:
    """A SQLite file of vectors in `folder`. If the file cannot be read or written, vectors are computed again."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE

    def vectors(
        self,
        model: str,
        texts: Sequence[str],
        embed: Callable[[Sequence[str]], list[Vector]],
    ) -> list[Vector]:
        """Return one vector for each text: cached ones from disk, the others from `embed`, which are then stored."""
        wanted = [_key(model, text) for text in texts]
        probe_key = _key(model, _PROBE)
        with contextlib.suppress(sqlite3.Error, OSError):
            known = self._read([*wanted, probe_key])
            missing = [place for place, key in enumerate(wanted) if key not in known]
            if not missing:
                return [known[key] for key in wanted]
            fresh = embed([texts[place] for place in missing] + [_PROBE])
            probe = known.get(probe_key)
            is_of_one_size = all(len(row) == len(fresh[-1]) for row in known.values())
            if is_of_one_size and (
                probe is None
                or sum(map(mul, array("f", probe), array("f", fresh[-1]))) > _SAME
            ):
                known.update(
                    (wanted[place], row)
                    for place, row in zip(missing, fresh, strict=False)
                )
                self._write(
                    [(wanted[place], known[wanted[place]]) for place in missing]
                    + [(probe_key, fresh[-1])]
                )
                return [known[key] for key in wanted]
        rows = embed([*texts, _PROBE])
        with contextlib.suppress(sqlite3.Error, OSError):
            self._write([*zip(wanted, rows, strict=False), (probe_key, rows[-1])])
        return rows[:-1]

    def _open(self) -> contextlib.closing[sqlite3.Connection]:
        make_private(self._path.parent)
        check_own(self._path)
        connection = sqlite3.connect(self._path, timeout=2.0)
        try:
            connection.execute(_SCHEMA)
        except BaseException:  # an invalid or locked database: close it here
            connection.close()
            raise
        return contextlib.closing(connection)

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        found: dict[bytes, Vector] = {}
        with self._open() as connection:
            for start in range(0, len(keys), _AT_ONCE):
                some = keys[start : start + _AT_ONCE]
                rows = connection.execute(
                    f"SELECT key, vector FROM vectors WHERE key IN ({','.join('?' * len(some))})",  # noqa: S608
                    some,
                )
                found.update((key, row) for key, row in rows if _is_vector(row))
        if len(set(map(len, found.values()))) == 1:
            return found
        return {}

    def _write(self, rows: Sequence[tuple[bytes, Vector]]) -> None:
        with self._open() as connection, connection:
            connection.executemany(
                "INSERT OR REPLACE INTO vectors (key, vector) VALUES (?, ?)",
                rows,
            )


def _is_vector(row: object) -> bool:
    """Return whether a row of the file is a valid vector: SQLite stores values of any type in any column."""
    return (
        isinstance(row, bytes)
        and len(row) > 0
        and len(row) % 4 == 0
        and math.isfinite(sum(array("f", row)))
    )


def _key(model: str, text: str) -> bytes:
    return hashlib.sha256(f"{model}\0{text}".encode("utf-8", "replace")).digest()
