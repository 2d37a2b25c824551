"""Files, folders and web pages to index: their addresses, their state, and their content."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import url2pathname

from mcpagent.documents.document_reading.reading_files import (
    MOST_BYTES,
    read_document_file,
)
from mcpagent.documents.document_values import MetadataValue, StoredDocument
from mcpagent.errors import DocumentReadError, InputError
from mcpagent.utilities.text.safe_text import error_text, safe_line

if TYPE_CHECKING:
    import httpx2

_FETCH_SECONDS = 60.0
_NOT_MODIFIED = 304
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__"})


@dataclass(frozen=True, slots=True)
class Source:
    """A file, or the page at `url`. `state`, the size and the time of a file, becomes metadata of the document."""

    uri: str
    name: str
    path: Path | None = None
    url: str = ""
    state: tuple[tuple[str, MetadataValue], ...] = ()
    is_named: bool = True
    """False for a file that was found in a folder."""

    def is_unchanged(self, document: StoredDocument) -> bool:
        """Return whether the file still has the size and the time that the document's metadata has."""
        return bool(self.state) and all(
            document.metadata.get(key) == value for key, value in self.state
        )


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a source, and the state to remember. `data` is None if a server reports no change."""

    data: bytes | None
    state: tuple[tuple[str, MetadataValue], ...]


def source_of(named: str | Path) -> Source:
    """Return the source for an address or a path. Raises `InputError` if there is no such file or folder."""
    text = str(named)
    if text.lower().startswith(("http://", "https://")):
        parts = urlsplit(text)
        # An address in the store must hold no password.
        place = parts.netloc.rpartition("@")[2]
        uri = urlunsplit((parts.scheme, place, parts.path, parts.query, ""))
        name = unquote(parts.path.rstrip("/").rpartition("/")[2]) or place
        return Source(uri, name, url=text)
    path = Path(text).expanduser().absolute()
    path = Path(os.path.normpath(path))
    if not path.exists():
        raise InputError(
            f"{safe_line(text, 200)}: not found; name a file, a folder or an address"
        )
    return Source(path.as_uri(), path.name, path=path)


def files_of(source: Source) -> Iterator[Source]:
    """Yield the source itself, or for a folder the files in it and its subfolders, in order, without hidden files."""
    if source.path is None:
        yield source
    elif not source.path.is_dir():
        yield _file(source.path, is_named=True)
    else:
        for folder, folders, names in os.walk(source.path):
            folders[:] = sorted(
                name
                for name in folders
                if name[0] != "." and name not in _SKIPPED_FOLDERS
            )
            for name in sorted(names):
                path = Path(folder, name)
                if name[0] != "." and path.is_file():
                    yield _file(path, is_named=False)


def _file(path: Path, *, is_named: bool) -> Source:
    state: tuple[tuple[str, MetadataValue], ...] = ()
    try:
        found = path.stat()
    except OSError:
        # Reading the file later reports the reason.
        return Source(path.as_uri(), path.name, path, is_named=is_named)
    if stat.S_ISREG(found.st_mode):
        moment = datetime.fromtimestamp(found.st_mtime, UTC).isoformat()
        state = (("size", found.st_size), ("modified", moment))
    return Source(path.as_uri(), path.name, path, state=state, is_named=is_named)


def is_gone(document: StoredDocument) -> bool:
    """Return whether the document belongs to a file that no longer exists."""
    parts = urlsplit(document.uri)
    return parts.scheme == "file" and not os.path.lexists(url2pathname(parts.path))


async def content_of(
    source: Source, before: StoredDocument | None, client: httpx2.AsyncClient | None
) -> Content:
    """Return the content of a file or page. Raises `DocumentReadError`."""
    if source.path is not None:
        return Content(
            await asyncio.to_thread(read_document_file, source.path), source.state
        )
    assert client is not None
    etag = before.metadata.get("etag") if before is not None else None
    headers = {"If-None-Match": etag} if isinstance(etag, str) else {}
    try:
        async with asyncio.timeout(_FETCH_SECONDS):
            return await _fetched(source, client, headers)
    except TimeoutError:
        problem = f"no answer within {_FETCH_SECONDS:g} s; try again later"
    except DocumentReadError:
        raise
    except Exception as error:  # noqa: BLE001 - of the HTTP client, whose errors need its import
        problem = f"{safe_line(error_text(error), 200)}; check the address"
    raise DocumentReadError(
        safe_line(source.uri, 200), problem, reason="unreachable"
    ) from None


async def _fetched(
    source: Source, client: httpx2.AsyncClient, headers: Mapping[str, str]
) -> Content:
    shown = safe_line(source.uri, 200)
    data = bytearray()
    async with client.stream(
        "GET", source.url, headers=dict(headers), follow_redirects=True
    ) as response:
        if response.status_code == _NOT_MODIFIED:
            return Content(None, ())
        if not response.is_success:
            problem = f"HTTP status {response.status_code}; check the address"
            raise DocumentReadError(shown, problem, reason="unreachable")
        async for piece in response.aiter_bytes():
            data += piece
            if len(data) > MOST_BYTES:
                problem = f"is larger than {MOST_BYTES:,} bytes; download and split it"
                raise DocumentReadError(shown, problem, reason="too-large")
    etag = response.headers.get("etag")
    return Content(bytes(data), (("etag", etag),) if etag else ())
