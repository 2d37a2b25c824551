"""`--trace FILE`: lines of OTLP that are their user's only, and the tree that `mcpagent trace show` makes of them."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from google.protobuf import json_format  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from mcpagent import Agent, RunOptions, ScriptedModel
from mcpagent.cli.app import run as run_command
from mcpagent.errors import ConfigError, InputError
from mcpagent.tracing import SpanEvent, TraceSpan, Tracing
from mcpagent.tracing.otlp_lines import otlp_line, spans_in
from mcpagent.tracing.tree import Branches, took, trace_rows
from tests.scenes import call
from tests.tables import each_row

pytestmark = pytest.mark.anyio


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


async def run(file: Path) -> None:
    model = ScriptedModel([call("search_tools", query="add"), call("add", a=1, b=2), "3"])
    async with Agent(
        model, tools=[add], with_tool_search_mode=True, options=RunOptions(wrappers=[Tracing(file=file)])
    ) as agent:
        await agent.ask("1 + 2?")


async def test_a_file_is_lines_of_otlp_for_its_user_only_and_is_added_to(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.touch(mode=0o644)
    await run(file)
    first = file.read_text()
    await run(file)
    assert file.read_text().startswith(first)
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    names = []
    for line in file.read_text().splitlines():
        document = json.loads(line)
        for item in (span for it in document["resourceSpans"] for scope in it["scopeSpans"] for span in scope["spans"]):
            names.append(item["name"])
            for key in ("traceId", "spanId", "parentSpanId"):  # hexadecimal in OTLP, Base64 in protobuf's own JSON
                item[key] = ""
            for link in item["links"]:
                link["traceId"] = link["spanId"] = ""
        json_format.ParseDict(document, ExportTraceServiceRequest())  # raises for what a receiver would not read
    assert names.count("invoke_agent") == 2


@each_row("content, problem", [("my notes\n", "is there and is no trace"), (None, "Is a directory")])
async def test_a_file_that_is_no_trace_is_not_touched(content: str | None, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.mkdir() if content is None else file.write_text(content)
    with pytest.raises(ConfigError, match=problem):
        await run(file)
    assert content is None or file.read_text() == content


@pytest.mark.skipif(os.name != "posix", reason="named pipes are POSIX")
async def test_a_pipe_is_refused_since_its_reader_could_hold_the_run(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(ConfigError, match="is no regular file"):
            await run(tmp_path / "pipe")
    finally:
        os.close(reader)


async def test_agents_of_one_tracing_write_into_one_file(tmp_path: Path) -> None:
    tracing = Tracing(file=tmp_path / "trace.jsonl")
    async with (
        Agent(ScriptedModel(["a"]), options=RunOptions(wrappers=[tracing])) as one,
        Agent(ScriptedModel(["b"]), options=RunOptions(wrappers=[tracing])) as other,
    ):
        await one.ask("hi")
        await other.ask("hi")
    spans = [span for line in (tmp_path / "trace.jsonl").read_text().splitlines() for span in spans_in(line, "")]
    assert len({span.trace_id for span in spans}) == 2


def shown(file: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    capsys.readouterr()
    assert run_command(["trace", "show", str(file), *options]) == 0
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MCPAGENT_HOME", str(tmp_path / "home"))


async def test_the_tree_has_times_tokens_and_what_was_offered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await run(tmp_path / "trace.jsonl")
    out = shown(tmp_path / "trace.jsonl", capsys)
    lines = out.splitlines()
    assert lines[0].startswith("trace ")
    assert lines[0].endswith("7 spans")
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "invoke_agent",
        "├─ chat test",
        "├─ execute_tool search_tools",
        "│",
        "├─ chat test",
        "├─ execute_tool add",
        "└─ chat test",
    ]
    assert "retrieval tools" in lines[4]
    assert "found 1: add" in lines[4]
    assert "offered 2: search_tools, add_tool; 1 known" in lines[2]
    assert "0 in, 0 out" in lines[2]
    assert " ms " in lines[2]
    assert "rank 1 of its search" in lines[6]
    documents = json.loads(shown(tmp_path / "trace.jsonl", capsys, "--json"))
    assert {document["name"] for document in documents} >= {"invoke_agent", "execute_tool add"}


def test_hostile_names_do_nothing_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\r\nfake line\u202e"
    span = TraceSpan(
        evil,
        "a" * 32,
        "b" * 16,
        begun=10**18,
        ended=10**18 + 5,
        failed=True,
        failure=evil,
        attributes={
            "error.type": evil,
            "mcpagent.server": evil,
            "mcpagent.tools.offered": (evil,),
            "gen_ai.retrieval.query.text": evil,
            "gen_ai.tool.call.arguments": evil,
            "mcpagent.stop": evil,
            "gen_ai.usage.input_tokens": evil,
        },
    )
    (tmp_path / "t").write_text(otlp_line(span, evil, "1"))
    out = shown(tmp_path / "t", capsys, "--color", "never")
    assert not any(char in out for char in "\x1b\x07\r\u202e")
    assert len(out.splitlines()) == 2


@each_row(
    "text, problem",
    [
        ("{}\n", "line 1: no spans of OTLP"),
        ("not json\n", "line 1: no JSON"),
        ('{"resourceSpans":[]}\n[1]\n', "line 2: no spans of OTLP"),
        ('{"resourceSpans":[{"scopeSpans":[{"spans":[{}]}]}]}', "line 1: no spans of OTLP"),
        ("[" * 100_000, "line 1: no"),
        (None, "not found"),
    ],
)
def test_a_file_that_is_no_trace_is_told_in_one_line(
    text: str | None, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "t").write_text(text)
    assert run_command(["trace", "show", str(tmp_path / "t")]) != 0
    err = capsys.readouterr().err
    assert problem in err
    assert err.count("\n") == 1


def test_an_empty_file_has_no_spans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t").touch()
    assert "no spans in it" in shown(tmp_path / "t", capsys)


IDS = st.sampled_from([f"{number:016x}" for number in range(6)])
VALUES = st.text(max_size=8) | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
SPANS = st.builds(
    TraceSpan,
    name=st.text(max_size=12),
    trace_id=st.sampled_from(["a" * 32, "b" * 32]),
    span_id=IDS,
    parent_id=IDS | st.just(""),
    begun=st.integers(0, 2**63),
    ended=st.integers(0, 2**63),
    kind=st.sampled_from(["internal", "client"]),
    attributes=st.dictionaries(
        st.text(max_size=8) | st.sampled_from(["mcpagent.stop", "mcpagent.tools.offered", "gen_ai.usage.input_tokens"]),
        VALUES | st.lists(st.text(max_size=5), max_size=3).map(tuple),
        max_size=4,
    ),
    events=st.lists(st.builds(SpanEvent, name=st.text(max_size=5), at=st.integers(0, 2**63)), max_size=2).map(tuple),
    links=st.lists(st.tuples(st.just("a" * 32), IDS), max_size=2).map(tuple),
    failed=st.booleans(),
)


@settings(max_examples=25)
@given(SPANS)
def test_a_span_that_is_written_is_read_as_it_was(span: TraceSpan) -> None:
    line = otlp_line(span, "service", "1")
    assert line.count("\n") == 1
    assert spans_in(line, "") == [span]


@settings(max_examples=15)
@given(st.lists(SPANS, max_size=8))
def test_every_span_stands_once_in_the_tree_whatever_their_parents_are(spans: list[TraceSpan]) -> None:
    traces = trace_rows(spans, Branches())
    assert sum(len(rows) for _, rows in traces) == len(spans)
    assert all("\n" not in f"{heading}{row.name}{row.about}" for heading, rows in traces for row in rows)


@pytest.mark.slow
def test_a_chain_of_thousands_is_shown_in_a_moment() -> None:
    spans = [
        TraceSpan("s", "a" * 32, f"{place:016x}", f"{place - 1:016x}" if place else "", begun=place, ended=place)
        for place in range(20_000)
    ]
    ((_, rows),) = trace_rows(spans, Branches())
    assert len(rows) == 20_000
    assert max(len(row.name) for row in rows) < 200


@each_row("seconds, text", [(0, "0 ms"), (0.0124, "12 ms"), (0.9996, "1.00 s"), (1.416, "1.42 s"), (182, "3 min 2 s")])
def test_times_are_as_people_read_them(seconds: float, text: str) -> None:
    assert took(seconds) == text


def test_what_cannot_be_read_names_its_line() -> None:
    with pytest.raises(InputError, match="here: no JSON"):
        spans_in("{", "here")
