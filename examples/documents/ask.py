"""Ask one question about a folder of documents, by default the pages of this project, without a key.

    python examples/documents/ask.py "How do I limit the dollars of a run?"
    python examples/documents/ask.py "What grew?" ~/reports --model anthropic:claude-sonnet-5-5

The documents are indexed into one file, `--store`; later runs read only the files that changed. Without a key, the
offline stand-in shows the passages; a model answers from them. The sources follow the answer.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from mcpagent import McpAgentError
from mcpagent.documents import (
    SESSION_NAMESPACE,
    AgentDeps,
    DocumentAgent,
    DocumentConfig,
    SessionState,
    SqliteDocuments,
    ToolContext,
    UriPrefix,
    create_document_toolset,
    create_search_toolset,
    index_documents,
    prepare_context,
)
from mcpagent.models import Model

PAGES = Path(__file__).resolve().parents[2] / "docs"
INSTRUCTIONS = (
    "Answer from the documents that your tools find, with their citation numbers."
)


def agent_over(folder: Path, model: str | Model) -> DocumentAgent:
    """Return an agent whose tools see the documents of the folder alone; the store may have others."""
    address = Path(os.path.abspath(folder.expanduser())).as_uri()
    within = UriPrefix(f"{address}/")
    config = DocumentConfig(limit=3)
    toolsets = [
        create_search_toolset(config, base_filter=within),
        create_document_toolset(config, base_filter=within),
    ]
    return DocumentAgent(model, instructions=INSTRUCTIONS, toolsets=toolsets)


async def ask(
    model: str | Model, question: str, folder: Path, store_file: Path
) -> tuple[str, list[str]]:
    """Return the answer, and a line for each passage that was found."""
    agent = agent_over(folder, model)
    context = prepare_context(ToolContext(), ["search", "documents"])
    quoted = question.replace('"', "'")
    async with SqliteDocuments(store_file) as store:
        report = await index_documents(store, [folder])
        print(f"{report.added + report.changed} documents read", file=sys.stderr)
        deps = AgentDeps(client=store, tool_context=context)
        result = await agent.run(f'Search the documents for "{quoted}".', deps=deps)
    state = context.get(SESSION_NAMESPACE, SessionState) or SessionState()
    return result.output, [
        f"[{one.index}] {one.document_uri}" for one in state.citations
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question")
    parser.add_argument("folder", nargs="?", type=Path, default=PAGES)
    parser.add_argument("--model", default="offline")
    parser.add_argument("--store", type=Path, default=Path("documents.db"))
    chosen = parser.parse_args()
    try:
        answer, sources = asyncio.run(
            ask(chosen.model, chosen.question, chosen.folder, chosen.store)
        )
    except McpAgentError as error:
        sys.exit(str(error))
    print(answer, "", *sources, sep="\n")


if __name__ == "__main__":
    main()
