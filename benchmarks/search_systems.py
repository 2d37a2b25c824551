# mypy: disable-error-code="import-not-found, no-any-return"
"""The searches that are compared: each takes a catalogue and gives `search(query, k) -> names`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from benchmarks.search_data import Row
from benchmarks.search_eval import Factory, Search

PEER_MODULES = {
    "fastmcp": "fastmcp",
    "pydantic_ai": "pydantic-ai-slim",
    "bm25s": "bm25s",
    "tantivy": "tantivy",
}
"""What the peers are imported from, and the packages that bring it."""


def _mcpagent(strategy: Any) -> Factory:
    def build(catalog: list[Row]) -> Search:
        from mcpagent.search import ToolIndex
        from mcpagent.values.messages import ToolDefinition

        index = ToolIndex(strategy)
        servers: dict[str, list[ToolDefinition]] = {}
        for tool in catalog:
            name, server = tool["name"], tool["server"]
            local = name.removeprefix(f"{server}__")
            definition = ToolDefinition(
                name,
                tool["description"] or "",
                tool["input_schema"] or {},
                server,
                local,
                title=tool.get("title", ""),
                category=tool.get("category", ""),
                tags=tuple(tool.get("tags", ())),
            )
            servers.setdefault(server, []).append(definition)
        for server, tools in servers.items():
            index.replace(server, tools)
        assert len(index) == len(
            catalog
        )  # and so all is indexed now, not at the first query
        return lambda query, k: index.search(query, k).names

    return build


def _go_regex(catalog: list[Row]) -> Search:
    """The rule of the Go mcpagent: the query is a case-insensitive pattern over name and description, in order."""
    import regex

    def search(query: str, k: int) -> list[str]:
        try:
            pattern = regex.compile(query, regex.IGNORECASE)
            found = [
                tool["name"]
                for tool in catalog
                if pattern.search(tool["name"], timeout=1)
                or pattern.search(tool["description"] or "", timeout=1)
            ]
        except (regex.error, TimeoutError):
            return []
        return found[:k]

    return search


def _bm25s(catalog: list[Row]) -> Search:
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    texts = [f"{tool['name']} {tool['description']}" for tool in catalog]
    index = bm25s.BM25()
    index.index(
        bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False),
        show_progress=False,
    )

    def search(query: str, k: int) -> list[str]:
        tokens = bm25s.tokenize(
            [query], stopwords="en", stemmer=stemmer, show_progress=False
        )
        places, scores = index.retrieve(
            tokens, k=min(k, len(catalog)), show_progress=False
        )
        return [
            catalog[place]["name"]
            for place, score in zip(places[0], scores[0], strict=True)
            if score > 0
        ]

    return search


def _tantivy(catalog: list[Row]) -> Search:
    """Tantivy as one would set it up for tools: names as words, stemmed, with weights by field."""
    import tantivy

    from mcpagent.search.words import spoken

    weights = {"name": 2.0, "description": 1.0, "parameters": 0.5}
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("place", stored=True)
    for field in weights:
        builder.add_text_field(field, tokenizer_name="en_stem")
    index = tantivy.Index(builder.build())
    writer = index.writer(50_000_000, 1)
    for place, tool in enumerate(catalog):
        properties = (tool["input_schema"] or {}).get("properties") or {}
        said = [
            f"{spoken(name)} {about.get('description', '')}"
            for name, about in properties.items()
        ]
        parts = {
            "name": spoken(tool["name"]),
            "description": tool["description"] or "",
            "parameters": " ".join(said),
        }
        writer.add_document(tantivy.Document(place=place, **parts))
    writer.commit()
    index.reload()
    searcher = index.searcher()

    def search(query: str, k: int) -> list[str]:
        words = " ".join(re.findall(r"\w+", query.lower()))
        parsed, _ = index.parse_query_lenient(
            words, list(weights), field_boosts=weights
        )
        return [
            catalog[searcher.doc(at)["place"][0]]["name"]
            for _, at in searcher.search(parsed, k).hits
        ]

    return search


def _fastmcp(kind: str) -> Factory:
    def build(catalog: list[Row]) -> Search:
        from fastmcp.server.transforms import search as transforms
        from fastmcp.tools import Tool

        def nothing() -> None: ...

        tools = []
        for row in catalog:
            tool = Tool.from_function(
                nothing, name=row["name"], description=row["description"] or ""
            )
            tools.append(
                tool.model_copy(update={"parameters": row["input_schema"] or {}})
            )
        make = (
            transforms.BM25SearchTransform
            if kind == "bm25"
            else transforms.RegexSearchTransform
        )
        transform = make(max_results=10)
        runner = asyncio.Runner()

        def search(query: str, k: int) -> list[str]:
            return [tool.name for tool in runner.run(transform._search(tools, query))][
                :k
            ]

        return search

    return build


def _pydantic_ai(catalog: list[Row]) -> Search:
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets._tool_search import keywords_search_fn

    tools = [
        ToolDefinition(
            name=row["name"],
            description=row["description"],
            parameters_json_schema=row["input_schema"],
        )
        for row in catalog
    ]

    def search(query: str, k: int) -> Sequence[str]:
        context: Any = None
        return keywords_search_fn(context, re.findall(r"\S+", query), tools)[:k]

    return search


OURS: dict[str, Factory] = {
    f"mcpagent {strategy}": _mcpagent(strategy)
    for strategy in ("bm25", "hybrid", "multilingual")
}
PEERS: dict[str, Factory] = {
    "Go rule: query as regex": _go_regex,
    "pydantic-ai keywords": _pydantic_ai,
    "bm25s name + description": _bm25s,
    "tantivy": _tantivy,
    "fastmcp regex": _fastmcp("regex"),
    "fastmcp bm25": _fastmcp("bm25"),
}
