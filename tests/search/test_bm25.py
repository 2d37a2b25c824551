"""What a search finds is what BM25F says, worked out tool by tool and term by term, without any of its shortcuts."""

from __future__ import annotations

import math
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcpagent.search import ToolIndex
from mcpagent.search.bm25 import NAME_COVERAGE
from mcpagent.search.fields import WEIGHTS, field_texts
from mcpagent.search.postings import K1, Postings
from mcpagent.search.query_terms import QueryAnalyzer, QueryTerms
from mcpagent.search.words import spoken, terms, written_words
from mcpagent.values.messages import ToolDefinition

WORDS = (
    *("invoice", "customer", "message", "weather", "forecast", "file", "folder", "branch", "commit", "deploy"),
    *("server", "metric", "alarm", "ticket", "order", "price", "getUser", "createInvoice", "S3Bucket", "log", "group"),
    *("loggroup", "sign", "in", "signin", "with", "for", "the", "Zürich", "Straße", "日本", "2024"),
)
SERVERS = ("billing", "weather", "logs", "order desk")
TEXTS = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
NAMES = st.lists(st.sampled_from(WORDS[:20]), min_size=1, max_size=3).map("_".join)


@st.composite
def catalogues(draw: st.DrawFn) -> list[ToolDefinition]:
    tools = []
    for number in range(draw(st.integers(1, 25))):
        properties = {
            name: {"type": "string", "description": draw(TEXTS), "enum": [draw(TEXTS)]}
            for name in draw(st.lists(st.sampled_from(WORDS), max_size=3, unique=True))
        }
        schema = {"type": "object", "properties": properties}
        name = f"{draw(NAMES)}_{number}x"
        tools.append(ToolDefinition(name, draw(TEXTS), schema, draw(st.sampled_from(SERVERS)), name))
    return tools


def texts_of(tool: ToolDefinition) -> list[tuple[str, str]]:
    return field_texts(tool)


def indexed(text: str) -> list[str]:
    return [term for word in written_words(text) for term in terms(word)]


def weights_of(texts: Iterable[tuple[str, str]]) -> dict[str, float]:
    """BM25F: frequencies over all fields by weight and length, then saturated; kept in four bytes."""
    frequencies: defaultdict[str, float] = defaultdict(float)
    for field, text in texts:
        rule = WEIGHTS[field]
        unit = rule.weight / (1 - rule.b + rule.b * len(written_words(text)) / rule.usual_words)
        for term, count in Counter(indexed(text)).items():
            frequencies[term] += unit * count
    weights = {term: value * (K1 + 1) / (value + K1) for term, value in frequencies.items()}
    return {term: struct.unpack("<f", struct.pack("<f", weight))[0] for term, weight in weights.items()}


def asked_of(tools: Sequence[ToolDefinition], query: str) -> tuple[dict[str, float], QueryTerms, list[str]]:
    """How much each term counts in the query; reading queries has tests of its own."""
    postings = Postings()
    for number, tool in enumerate(tools):
        postings.add(number, texts_of(tool))
    asked = QueryAnalyzer(postings).analyze(query)
    spelled = postings.spelled
    return {spelled[term]: factor for term, factor in asked.factors.items()}, asked, spelled


def expected(tools: Sequence[ToolDefinition], wanted: Mapping[str, float], limit: int) -> dict[str, dict[str, float]]:
    """By tool name what each term adds, and under "" what its name adds; only tools that count as found."""
    weights = {tool.name: weights_of(texts_of(tool)) for tool in tools}
    holding = Counter(term for held in weights.values() for term in held)

    def rarity(term: str) -> float:
        return math.log(1 + (len(tools) - holding[term] + 0.5) / (holding[term] + 0.5))

    parts = {
        name: {term: held[term] * rarity(term) * factor for term, factor in wanted.items() if term in held}
        for name, held in weights.items()
    }
    parts = {name: own for name, own in parts.items() if own}
    for tool in tools:
        if tool.name in parts:
            said = {term for word in written_words(spoken(tool.name)) for term in terms(word)}
            whole = sum(map(rarity, said))
            share = sum(rarity(term) * min(wanted[term], 1.0) for term in said & wanted.keys()) / whole if said else 0
            parts[tool.name][""] = sum(parts[tool.name].values()) * NAME_COVERAGE * share**2
    return parts


def check(index: ToolIndex, tools: Sequence[ToolDefinition], query: str, limit: int) -> None:
    result = index.search(query, limit)
    assume(result.how != "exact")
    wanted, asked, spelled = asked_of(tools, query)
    right = expected(tools, wanted, limit)
    by_name = {tool.name: tool for tool in tools}
    scores = {name: sum(parts.values()) for name, parts in right.items()}
    best = sorted(scores.values(), reverse=True)[:limit]
    assert [match.score for match in result.matches] == pytest.approx(best, rel=1e-6)
    for match in result.matches:
        assert match.score == pytest.approx(scores[match.tool.name], rel=1e-6)
        fields: defaultdict[str, list[str]] = defaultdict(list)
        for field, text in texts_of(by_name[match.tool.name]):
            for term in dict.fromkeys(indexed(text)):
                fields[term].append(field)
        words = {spelled[term]: word for term, word in asked.words.items()}
        reasons = {
            (", ".join(fields[term]) if term else "name", words[term] if term else "words of the name"): part
            for term, part in right[match.tool.name].items()
            if term or part > 0.0005
        }
        told = {(reason.field, reason.word): reason.score for reason in match.reasons}
        if len(reasons) == len([term for term, part in right[match.tool.name].items() if term or part > 0.0005]):
            assert told.keys() == reasons.keys()
            assert all(told[key] == pytest.approx(reasons[key], abs=0.0011) for key in told)


QUERIES = st.lists(st.sampled_from([*WORDS, *SERVERS]), min_size=1, max_size=7).map(" ".join)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(catalogues(), QUERIES, st.integers(1, 6))
def test_names_scores_and_reasons_are_those_of_the_reference(
    tools: list[ToolDefinition], query: str, limit: int
) -> None:
    index = ToolIndex("bm25", min_strength=0)
    for server in SERVERS:
        index.replace(server, [tool for tool in tools if tool.server == server])
    check(index, tools, query, limit)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(catalogues(), st.data())
def test_also_after_changes(tools: list[ToolDefinition], data: st.DataObject) -> None:
    index = ToolIndex("bm25", min_strength=0)
    index.replace("billing", [ToolDefinition(f"old_{word}", f"{word} old", {}, "billing") for word in WORDS])
    assert len(index) == len(WORDS)
    for server in SERVERS:
        index.replace(server, [tool for tool in tools if tool.server == server])
        index.search(data.draw(QUERIES))
    check(index, tools, data.draw(QUERIES), 5)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    assert len(saved_index(folder)) == len(LARGE)
    return folder


LARGE = [
    ToolDefinition(f"{verb}_{word}_{number}{server[0]}", f"{verb} the {word} of {number}", {}, server)
    for number in range(6)
    for server in SERVERS
    for verb in ("get", "list", "remove")
    for word in WORDS[:10]
    if (number + len(word) + len(verb)) % 2
]


def saved_index(folder: Path) -> ToolIndex:
    index = ToolIndex("bm25", min_strength=0, cache_folder=folder)
    for server in SERVERS:
        index.replace(server, [tool for tool in LARGE if tool.server == server])
    return index


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(catalogues(), QUERIES)
def test_also_read_in_place_and_changed(saved: Path, tools: list[ToolDefinition], query: str) -> None:
    index = saved_index(saved)
    assert len(index) == len(LARGE) >= 300
    index.replace("logs", [tool for tool in tools if tool.server == "logs"])
    now = [tool for tool in LARGE if tool.server != "logs"] + [tool for tool in tools if tool.server == "logs"]
    check(index, now, query, 5)
