"""`create_search_toolset`: a tool that searches documents and numbers its results as citations."""

from __future__ import annotations

from collections.abc import Sequence

from mcpagent.documents.document_store import DocumentStore
from mcpagent.documents.document_tools.document_deps import (
    DocumentConfig,
    RAGDeps,
    VisibleDocuments,
    document_tool,
    visible_documents,
)
from mcpagent.documents.document_tools.filters import DocumentFilter
from mcpagent.documents.document_tools.session_state import (
    SEARCH_NAMESPACE,
    DocumentCitation,
    SearchState,
    SessionState,
    cite,
    session_state,
)
from mcpagent.documents.document_values import Chunk, Filter
from mcpagent.run.agent_run import RunContext
from mcpagent.toolsets.functions import FunctionToolset
from mcpagent.utilities.python.argument_checks import checked


@checked()
def create_search_toolset(
    config: DocumentConfig,
    expand_context: bool = True,
    base_filter: Filter | None = None,
    tool_name: str = "search",
) -> FunctionToolset:
    """Return a toolset with one tool: `search(query, limit?, filter?)` returns passages with citation numbers.

    The store is `deps.client` of the run. A result must match `base_filter`, the session's `document_filter` and the
    call's `filter`. Results are added to `SearchState.results`; numbers are stable if there is a `SessionState`.

    Args:
        config: The shared options.
        expand_context: Add the chunks before and after each result, if they are of the same section.
        base_filter: The documents that the tool may see.
        tool_name: The name of the tool.
    """

    async def search(
        context: RunContext[RAGDeps],
        query: str,
        limit: int | None = None,
        filter: DocumentFilter | None = None,  # noqa: A002 - the seed's name
    ) -> str:
        """Search the documents of the knowledge base.

        Returns passages with citation numbers such as [2]; cite them in your answer.

        Args:
            query: Words or a question
            limit: Number of results, 1 to 50
            filter: Only documents that meet these conditions
        """
        visible = visible_documents(context, base_filter)
        if filter is not None:
            visible = visible.within(filter.compiled())
        if limit is None:
            limit = config.limit
        expands = expand_context and config.expand_context
        found = await search_passages(
            visible,
            query,
            limit,
            config,
            session=session_state(visible.context),
            expands=expands,
        )
        state = visible.context.get_or_create(
            SEARCH_NAMESPACE, SearchState, expose=False
        )
        state.add(found)
        return shown_results(found)

    return FunctionToolset([document_tool(search, tool_name)], label="search")


async def search_passages(
    visible: VisibleDocuments,
    query: str,
    limit: int,
    config: DocumentConfig,
    *,
    session: SessionState,
    expands: bool,
) -> list[DocumentCitation]:
    """Return the best passages as citations. Raises `InputError` for an unusable query or limit."""
    hits = await visible.search(query, limit)
    chunks = [hit.chunk for hit in hits]
    texts = [chunk.text for chunk in chunks]
    if expands:
        texts = [
            await with_neighbours(visible.store, chunk, chunks) for chunk in chunks
        ]
    shown = [shortened(text, config.passage_characters) for text in texts]
    return cite(chunks, shown, session)


async def with_neighbours(
    store: DocumentStore, chunk: Chunk, found: Sequence[Chunk] = ()
) -> str:
    """Return the text of a chunk together with the chunks before and after it, if these are of the same section and not
    in `found`.
    """
    start = max(chunk.position - 1, 0)
    near = await store.chunks(chunk.document.id, start=start, stop=chunk.position + 2)
    others = {one.id for one in found} - {chunk.id}
    texts = [
        one.text
        for one in near
        if one.section == chunk.section and one.id not in others
    ]
    # If the document has changed since the search, other chunks may be at these positions.
    if any(one.id == chunk.id for one in near):
        return "\n\n".join(texts)
    return chunk.text


def shortened(text: str, characters: int) -> str:
    """Return the beginning of a text, with "..." if something is missing."""
    if len(text) <= characters:
        return text
    return f"{text[:characters].rstrip()}..."


def shown_results(found: Sequence[DocumentCitation]) -> str:
    """Return the results as text for the model, with their numbers."""
    if not found:
        return "No results found."
    head = f"Found {len(found)} result{'s' if len(found) > 1 else ''}:"
    return "\n\n".join([head, *map(shown_citation, found)])


def shown_citation(citation: DocumentCitation) -> str:
    """Return a citation as text: its number, source, and indented content, which cannot imitate another result."""
    lines = [f"    {line}" for line in citation.content.splitlines()]
    return "\n".join([f"[{citation.index}] {citation.source}", *lines])
