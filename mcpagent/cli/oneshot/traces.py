"""`--trace`, the variables of OpenTelemetry, and `mcpagent trace show`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.text import Text

from mcpagent.cli.frame.configuration import Configuration
from mcpagent.cli.frame.error_lines import cannot_be_read
from mcpagent.cli.frame.exit_codes import ExitCode
from mcpagent.cli.frame.options import Options
from mcpagent.cli.screen.lines import table
from mcpagent.cli.screen.terminal import ASCII_GLYPHS, Terminal, open_terminal
from mcpagent.definition import Wrapper
from mcpagent.errors import InputError
from mcpagent.text.safe_text import safe_line
from mcpagent.tracing.otlp_lines import spans_in
from mcpagent.tracing.spans import TraceSpan
from mcpagent.tracing.traced_agents import Tracing, tracing_wanted
from mcpagent.tracing.tree import ASCII_BRANCHES, Branches, Row, trace_rows

LARGEST = 256_000_000
"""Bytes of a file that is shown: more is for a receiver."""


def tracing_wrappers(options: Options, terminal: Terminal, configuration: Configuration) -> list[Wrapper]:
    """What traces the agent: into the file of `--trace`, and as the variables of OpenTelemetry say."""
    name = configuration.team.first.name if configuration.team is not None else ""
    if not tracing_wanted(options.environ):
        return [Tracing(file=options.trace, name=name)] if options.trace is not None else []
    tracing = Tracing.from_environment(file=options.trace, name=name)
    terminal.warn(*tracing.problems)
    return [tracing] if tracing.goes_somewhere else []


def show_trace(options: Options, file: Path) -> ExitCode:
    """`mcpagent trace show`. Raises `InputError` for a file that cannot be read or is no trace."""
    terminal = open_terminal(options.color)
    shown = safe_line(str(file), 200)
    spans = [*_spans_of(file, shown)]
    branches = ASCII_BRANCHES if terminal.glyphs is ASCII_GLYPHS else Branches()
    traces = trace_rows(spans, branches)
    lines: list[Text | str] = []
    for heading, rows in traces:
        lines += [Text(heading, "bold"), *table(map(_cells, rows)), ""]
    terminal.report(options, [_document(span) for span in spans], *(lines[:-1] or [f"{shown}: no spans in it"]))
    return ExitCode.OK


def _spans_of(file: Path, shown: str) -> Iterator[TraceSpan]:
    try:
        if file.is_file() and file.stat().st_size > LARGEST:
            raise InputError(f"{shown}: larger than {LARGEST // 1_000_000} MB; send it to a receiver such as Jaeger")
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield from spans_in(line, f"{shown}, line {number}")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{shown}: {cannot_be_read(error)}") from None


def _cells(row: Row) -> tuple[tuple[str, str], ...]:
    return (row.name, "error" if row.failed else ""), (row.took, ""), (row.about, "dim")


def _document(span: TraceSpan) -> dict[str, object]:
    return {
        "trace": span.trace_id,
        "span": span.span_id,
        "parent": span.parent_id or None,
        "name": span.name,
        "begun": span.begun / 1e9,
        "seconds": span.seconds,
        "failed": span.failed,
        "attributes": dict(span.attributes),
    }
