"""The state of the document toolsets: the document filter of a session, stable citation numbers, and earlier answers.

Namespaces and field names are those of haiku.rag 0.30, so a client of its AG-UI state understands this state too.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, Field

from mcpagent.documents.document_values import Chunk
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.tool_context import (
    FeatureNamespace,
    ToolContext,
    ToolContextCache,
    features,
    prepare_context,
)

__all__ = [
    "QA_SESSION_NAMESPACE",
    "SEARCH_NAMESPACE",
    "SESSION_NAMESPACE",
    "DocumentCitation",
    "QAHistoryEntry",
    "QASessionState",
    "SearchState",
    "SessionState",
    "ToolContext",
    "ToolContextCache",
    "cite",
    "prepare_context",
    "session_state",
]

SESSION_NAMESPACE = "haiku.rag.session"
SEARCH_NAMESPACE = "haiku.rag.search"
QA_SESSION_NAMESPACE = "haiku.rag.qa_session"

MOST_CITATIONS = MOST_RESULTS = 200
"""Maximum number of citations, and of search results, in a state. A session stores its state after each run, and a
passage may have 2,000 characters.
"""

MOST_ANSWERS = 50


class DocumentCitation(BaseModel):
    """A passage of a document that an answer or a search result refers to by its number, `index`."""

    index: int
    document_id: str
    chunk_id: str
    document_uri: str
    document_title: str
    page_numbers: list[int] = []
    headings: list[str] = []
    content: str = ""

    @property
    def source(self) -> str:
        """The title, the innermost heading and the pages, such as `**Guide** > Setup (p. 3)`."""
        heading = place = ""
        if self.headings and self.headings[-1] != self.document_title:
            heading = f" > {safe_line(self.headings[-1], 100)}"
        if self.page_numbers:
            place = f" (p. {', '.join(map(str, self.page_numbers))})"
        return f"**{safe_line(self.document_title, 200)}**{heading}{place}"


class SessionState(BaseModel):
    """The documents that a session may use, by names ([]: all), and the numbers of its citations.

    A number belongs to one chunk for as long as the state is stored. `citations` has the last 200.
    """

    document_filter: list[str] = []
    citation_registry: dict[str, int] = {}
    citations: list[DocumentCitation] = []

    def get_or_assign_index(self, chunk_id: str) -> int:
        """Return the number of a chunk; a new chunk gets the next number, from 1."""
        if chunk_id not in self.citation_registry:
            highest = max(self.citation_registry.values(), default=0)
            self.citation_registry[chunk_id] = highest + 1
        return self.citation_registry[chunk_id]

    def remember(self, citations: Sequence[DocumentCitation]) -> None:
        """Store the citations. A citation replaces the stored citation with the same number."""
        by_number = {one.index: one for one in self.citations}
        by_number |= {one.index: one for one in citations}
        self.citations = list(by_number.values())[-MOST_CITATIONS:]


class SearchState(BaseModel):
    """The results of all searches of a session, the last 200."""

    results: list[DocumentCitation] = []

    def add(self, found: Sequence[DocumentCitation]) -> None:
        """Append results, and drop the oldest ones beyond 200."""
        self.results = [*self.results, *found][-MOST_RESULTS:]


class QAHistoryEntry(BaseModel):
    """A question with its answer. The embedding of the question never leaves the process."""

    question: str
    answer: str
    confidence: float = 0.0
    citations: list[DocumentCitation] = []
    question_embedding: list[float] | None = Field(default=None, exclude=True)


class QASessionState(BaseModel):
    """The last 50 questions and answers of a session, and what is known about it, such as its purpose."""

    qa_history: list[QAHistoryEntry] = []
    session_context: str | None = None

    def add(self, entry: QAHistoryEntry) -> None:
        """Append an entry, and drop the oldest ones beyond 50."""
        self.qa_history = [*self.qa_history, entry][-MOST_ANSWERS:]


_SESSION = FeatureNamespace(
    SESSION_NAMESPACE, SessionState, client_writable=frozenset({"document_filter"})
)
_QA_SESSION = FeatureNamespace(QA_SESSION_NAMESPACE, QASessionState)

features.add("search", _SESSION)
features.add("documents")
features.add("qa", _SESSION, _QA_SESSION)
features.add("analysis", _SESSION)


def session_state(context: ToolContext) -> SessionState:
    """Return the context's `SessionState`, else a new one, whose numbers begin at 1."""
    return context.get(SESSION_NAMESPACE, SessionState) or SessionState()


def cite(
    chunks: Sequence[Chunk], texts: Sequence[str], session: SessionState
) -> list[DocumentCitation]:
    """Return a citation for each chunk and its text. The citations are also stored in the session's state."""
    citations = [
        _citation(chunk, text, session.get_or_assign_index(chunk.id))
        for chunk, text in zip(chunks, texts, strict=True)
    ]
    session.remember(citations)
    return citations


def _citation(chunk: Chunk, text: str, index: int) -> DocumentCitation:
    pages = [chunk.page] if chunk.page is not None else []
    return DocumentCitation(
        index=index,
        document_id=chunk.document.id,
        chunk_id=chunk.id,
        document_uri=chunk.document.uri,
        document_title=chunk.document.title,
        page_numbers=pages,
        headings=list(chunk.section),
        content=text,
    )
