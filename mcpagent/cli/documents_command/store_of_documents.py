"""The store of documents that a command uses."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from mcpagent.cli.common.options import Options
from mcpagent.documents.document_store import DocumentStore
from mcpagent.documents.document_values import StoredDocument
from mcpagent.documents.stores.sqlite_documents import SqliteDocuments
from mcpagent.errors import InputError
from mcpagent.journal.sessions.locations import file_meant
from mcpagent.utilities.text.safe_text import safe_line


def documents_file(options: Options) -> Path:
    """Return the file of the store, which need not exist."""
    return file_meant(options.docs_db, "documents.db", options.environ)


@contextlib.asynccontextmanager
async def existing_store(options: Options) -> AsyncIterator[SqliteDocuments]:
    """Open the store. Raises `InputError` if there is no file: reading commands must not create one."""
    file = documents_file(options)
    if not file.exists():
        raise InputError(
            f"{safe_line(str(file), 200)}: there are no documents; add some: mcpagent docs add PATH"
        )
    async with SqliteDocuments(file) as store:
        yield store


def document_address(name: str, *, is_path: bool = False) -> str:
    """Return the address of the file if it exists or `is_path` is set. Otherwise return the name unchanged."""
    if "://" in name:
        return name
    path = Path(name).expanduser()
    if is_path or path.exists():
        return path.absolute().as_uri()
    return name


async def the_document(store: DocumentStore, name: str) -> StoredDocument:
    """Return the document with this path, address or part of a name. Raises `InputError` if no document has it."""
    found = await store.find(document_address(name))
    if found is None:
        raise InputError(
            f'no document has "{safe_line(name, 100)}" in its name; see mcpagent docs list'
        )
    return found
