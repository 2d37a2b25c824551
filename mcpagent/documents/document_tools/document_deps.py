"""The values that the document tools get from the run: the store, the shared state, and which documents are visible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mcpagent.documents.document_store import DocumentStore
from mcpagent.documents.document_tools.filters import (
    build_document_filter,
    combine_filters,
    get_session_filter,
    storable,
)
from mcpagent.documents.document_values import (
    Chunk,
    DocumentPage,
    Filter,
    SearchHit,
    StoredDocument,
)
from mcpagent.errors import ConfigError, InputError
from mcpagent.run.agent_run import RunContext
from mcpagent.toolsets.definition import ModelChoice, expect_model
from mcpagent.toolsets.functions import function_tool
from mcpagent.utilities.python.argument_checks import expect, expect_fields
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.tool_context import ToolContext
from mcpagent.values.tools import Tool, ToolOutput

MOST_QUERY_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class DocumentConfig:
    """Options that the document toolsets share.

    `model` summarises, answers and analyses; None: the model of the calling agent. `limit` is the default number of
    search results. `expand_context` adds the chunks before and after a result. `passage_characters` is the maximum
    length of a passage in a result.
    """

    model: ModelChoice = None
    limit: int = 5
    expand_context: bool = True
    passage_characters: int = 2_000

    def __post_init__(self) -> None:
        expect_fields(self)
        expect_model(self.model)
        place, what = "DocumentConfig.limit", "a number from 1 to 50"
        expect(place, self.limit, int, what, holds=lambda it: 1 <= it <= 50)
        place, what = "DocumentConfig.passage_characters", "a number above 0"
        expect(place, self.passage_characters, int, what, holds=lambda it: it > 0)


class RAGDeps(Protocol):
    """The attributes that the document tools read from the `deps` of a run."""

    @property
    def client(self) -> DocumentStore:
        """The open document store."""
        ...

    @property
    def tool_context(self) -> ToolContext | None:
        """The state of this user; None: the state of the session."""
        ...


@dataclass
class AgentDeps:
    """The `deps` of a run with document tools: an open store, and the state of one user.

    `state` is the state as AG-UI sends it, under `state_key` if it is set. Assigning a client's state sets the fields
    that a client may write, and no other.
    """

    client: DocumentStore
    tool_context: ToolContext | None = None
    state_key: str | None = None

    def __post_init__(self) -> None:
        if self.tool_context is not None and self.state_key is not None:
            self.tool_context.state_key = self.state_key

    @property
    def state(self) -> dict[str, Any]:
        """The snapshot of the exposed state; {} without a `tool_context`."""
        if self.tool_context is None:
            return {}
        return self.tool_context.state

    @state.setter
    def state(self, value: Mapping[str, Any] | None) -> None:
        """Set the fields that a client may write. Raises `InputError` for an unusable value."""
        self._receive(value)

    def _receive(self, value: Mapping[str, Any] | None) -> None:
        if self.tool_context is not None:
            self.tool_context.receive(value)


@dataclass(frozen=True, slots=True)
class VisibleDocuments:
    """The documents of a store that one call may see: they match the filters of the developer, the session and the
    call.
    """

    store: DocumentStore
    context: ToolContext
    where: Filter | None = None

    def within(self, filter_: Filter | None) -> VisibleDocuments:
        """Return the visible documents that also match this filter."""
        return replace(self, where=combine_filters(self.where, filter_))

    async def only(self, document_name: str | None) -> VisibleDocuments:
        """Return the visible documents whose address or title contains the name; None: all visible documents.

        Raises `InputError` if no document matches.
        """
        if document_name is None or not document_name.strip():
            return self
        named = self.within(build_document_filter(document_name))
        found = await named.page(0, 1)
        if not found.total:
            raise _not_found(document_name)
        return named

    async def page(self, offset: int, limit: int) -> DocumentPage:
        """Return a page of the visible documents, in the order of their addresses."""
        return await self.store.documents(offset=offset, limit=limit, where=self.where)

    async def find(self, name: str) -> StoredDocument:
        """Return a document by address or title. Raises `InputError` if no document matches."""
        wanted = storable(name)[:MOST_QUERY_CHARACTERS]
        found = None
        if wanted.strip():
            found = await self.store.find(wanted, where=self.where)
        if found is None:
            raise _not_found(name)
        return found

    async def search(self, query: str, limit: int) -> Sequence[SearchHit]:
        """Return the chunks that match best. Raises `InputError` for an empty query or a limit outside 1 to 50."""
        wanted = storable(query)[:MOST_QUERY_CHARACTERS].strip()
        if not wanted:
            raise InputError("query: it is empty; give the words to search for")
        if not 1 <= limit <= 50:
            raise InputError(f"limit: expected 1 to 50, got {limit}")
        return await self.store.search(wanted, limit=limit, where=self.where)

    async def chunk(self, chunk_id: str) -> Chunk | None:
        """Return a chunk, or None if it does not exist or is not visible."""
        return await self.store.chunk(chunk_id, where=self.where)

    async def chunks(self, document: StoredDocument) -> Sequence[Chunk]:
        """Return all chunks of a document that `find` returned."""
        return await self.store.chunks(document.id)


def _not_found(name: str) -> InputError:
    return InputError(f'Document not found: "{safe_line(name, 80)}".')


def visible_documents(
    context: RunContext[Any], base_filter: Filter | None
) -> VisibleDocuments:
    """Return the documents that the run may see. Raises `ConfigError` if its `deps` have no store."""
    store = getattr(context.deps, "client", None)
    if store is None or not callable(getattr(store, "search", None)):
        raise ConfigError(
            "the document tools found no store; pass deps=AgentDeps(client=store) to ask() or session()"
        )
    own: ToolContext | None = getattr(context.deps, "tool_context", None)
    state = context.tool_context
    if own is not None:
        state = own
    return VisibleDocuments(store, state, get_session_filter(state, base_filter))


def document_tool(function: Any, name: str | None = None) -> Tool:
    """Return the function as a tool. If it raises `InputError`, the model gets the message as an error result."""
    tool = function_tool(function, name=name, read_only=True)

    async def run(arguments: dict[str, Any]) -> ToolOutput:
        try:
            return await tool.run(arguments)
        except InputError as error:
            return ToolOutput.of_text(str(error), error="invalid_arguments")

    return replace(tool, run=run)
