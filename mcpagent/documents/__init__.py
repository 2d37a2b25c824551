"""Documents: a store of chunks of files and pages, and toolsets that search, read and cite it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagent.utilities.python import late_names

if TYPE_CHECKING:
    from mcpagent.documents.document_store import DocumentStore
    from mcpagent.documents.document_tools.analysis_toolset import (
        AnalysisResult,
        create_analysis_toolset,
    )
    from mcpagent.documents.document_tools.chat_agent import (
        AGUI_STATE_KEY,
        ChatDeps,
        DocumentAgent,
        create_chat_agent,
        prepare_chat_context,
        summarize_session,
    )
    from mcpagent.documents.document_tools.document_deps import (
        AgentDeps,
        DocumentConfig,
        RAGDeps,
    )
    from mcpagent.documents.document_tools.document_toolset import (
        DocumentInfo,
        DocumentListResponse,
        create_document_toolset,
    )
    from mcpagent.documents.document_tools.filters import (
        DocumentFilter,
        build_document_filter,
        build_multi_document_filter,
        combine_filters,
        get_session_filter,
    )
    from mcpagent.documents.document_tools.qa_toolset import (
        QAResult,
        create_qa_toolset,
        run_qa_core,
    )
    from mcpagent.documents.document_tools.search_toolset import create_search_toolset
    from mcpagent.documents.document_tools.session_state import (
        QA_SESSION_NAMESPACE,
        SEARCH_NAMESPACE,
        SESSION_NAMESPACE,
        DocumentCitation,
        QAHistoryEntry,
        QASessionState,
        SearchState,
        SessionState,
        ToolContext,
        ToolContextCache,
        prepare_context,
    )
    from mcpagent.documents.document_values import (
        AllOf,
        AnyOf,
        Chunk,
        DocumentPage,
        Filter,
        MetadataAfter,
        MetadataBefore,
        MetadataEquals,
        MetadataIn,
        NameContains,
        SearchHit,
        StoredDocument,
        UriPrefix,
    )
    from mcpagent.documents.indexing import (
        IndexProgress,
        IndexReport,
        index_documents,
    )
    from mcpagent.documents.stores.lancedb_documents import LanceDocuments
    from mcpagent.documents.stores.sqlite_documents import SqliteDocuments

_HOMES = {
    "document_store": ("DocumentStore",),
    "document_values": (
        "AllOf",
        "AnyOf",
        "Chunk",
        "DocumentPage",
        "Filter",
        "MetadataAfter",
        "MetadataBefore",
        "MetadataEquals",
        "MetadataIn",
        "NameContains",
        "SearchHit",
        "StoredDocument",
        "UriPrefix",
    ),
    "document_tools.analysis_toolset": ("AnalysisResult", "create_analysis_toolset"),
    "document_tools.chat_agent": (
        "AGUI_STATE_KEY",
        "ChatDeps",
        "DocumentAgent",
        "create_chat_agent",
        "prepare_chat_context",
        "summarize_session",
    ),
    "document_tools.document_deps": ("AgentDeps", "DocumentConfig", "RAGDeps"),
    "document_tools.document_toolset": (
        "DocumentInfo",
        "DocumentListResponse",
        "create_document_toolset",
    ),
    "document_tools.filters": (
        "DocumentFilter",
        "build_document_filter",
        "build_multi_document_filter",
        "combine_filters",
        "get_session_filter",
    ),
    "document_tools.qa_toolset": ("QAResult", "create_qa_toolset", "run_qa_core"),
    "document_tools.search_toolset": ("create_search_toolset",),
    "document_tools.session_state": (
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
        "prepare_context",
    ),
    "indexing": ("IndexProgress", "IndexReport", "index_documents"),
    "stores.lancedb_documents": ("LanceDocuments",),
    "stores.sqlite_documents": ("SqliteDocuments",),
}

__all__ = [
    "AGUI_STATE_KEY",
    "QA_SESSION_NAMESPACE",
    "SEARCH_NAMESPACE",
    "SESSION_NAMESPACE",
    "AgentDeps",
    "AllOf",
    "AnalysisResult",
    "AnyOf",
    "ChatDeps",
    "Chunk",
    "DocumentAgent",
    "DocumentCitation",
    "DocumentConfig",
    "DocumentFilter",
    "DocumentInfo",
    "DocumentListResponse",
    "DocumentPage",
    "DocumentStore",
    "Filter",
    "IndexProgress",
    "IndexReport",
    "LanceDocuments",
    "MetadataAfter",
    "MetadataBefore",
    "MetadataEquals",
    "MetadataIn",
    "NameContains",
    "QAHistoryEntry",
    "QAResult",
    "QASessionState",
    "RAGDeps",
    "SearchHit",
    "SearchState",
    "SessionState",
    "SqliteDocuments",
    "StoredDocument",
    "ToolContext",
    "ToolContextCache",
    "UriPrefix",
    "build_document_filter",
    "build_multi_document_filter",
    "combine_filters",
    "create_analysis_toolset",
    "create_chat_agent",
    "create_document_toolset",
    "create_qa_toolset",
    "create_search_toolset",
    "get_session_filter",
    "index_documents",
    "prepare_chat_context",
    "prepare_context",
    "run_qa_core",
    "summarize_session",
]

__getattr__, __dir__ = late_names(__name__, _HOMES)
