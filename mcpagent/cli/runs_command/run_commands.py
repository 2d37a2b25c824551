"""`mcpagent runs list|show|cancel|delete|prune`."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rich.text import Text

from mcpagent.agents.durable.stored_runs import StoredRun, StoredRuns
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.number_formats import counted, money, tokens
from mcpagent.cli.common.options import Options
from mcpagent.cli.common.stored_sessions import (
    ago,
    short_id,
    store_of,
    with_sessions_in,
)
from mcpagent.cli.screen.lines import table
from mcpagent.cli.screen.terminal import Terminal, agreed, open_terminal, put
from mcpagent.cli.sessions_command.sessions_changed import left_alone, seconds_of
from mcpagent.errors import ConfigError
from mcpagent.utilities.text.safe_text import safe_line

MOST_ANSWER = 60


def list_runs(
    options: Options, database: str | None, session: str | None, limit: int
) -> ExitCode:
    """Run `mcpagent runs list`."""
    terminal, runs = open_terminal(options.color), _runs(options, database)
    found = runs.listed(limit, session)
    lines = _rows(found)
    if not found:
        lines = [
            Text(f"there are no durable runs in {safe_line(runs.where, 200)}", "dim")
        ]
    terminal.report(options, [_document(run) for run in found], *lines)
    return ExitCode.OK


def show_run(options: Options, database: str | None, wanted: str) -> ExitCode:
    """Run `mcpagent runs show`. Raises `InputError` if there is no such run."""
    terminal, runs = open_terminal(options.color), _runs(options, database)
    run = runs.find(wanted)
    prompt = runs.prompt(wanted)
    rows = [
        ("run", run.id),
        ("session", run.session),
        ("state", run.state),
        ("asked", _moment(run.asked)),
    ]
    if prompt:
        rows += [("prompt", prompt)]
    rows += _end_rows(run)
    lines = table([[(name, "dim"), safe_line(value, 2_000)] for name, value in rows])
    terminal.report(options, {**_document(run), "prompt": prompt}, *lines)
    return ExitCode.OK


def cancel_run(options: Options, database: str | None, wanted: str) -> ExitCode:
    """Run `mcpagent runs cancel`. Raises `InputError` for a run that has ended, or does not exist."""
    terminal = open_terminal(options.color)
    run = _runs(options, database).cancel(wanted)
    if options.output == "json":
        terminal.report(options, _document(run))
    else:
        terminal.done(f'run "{safe_line(run.id, 60)}" is cancelled; it was {run.state}')
    return ExitCode.OK


def delete_run(
    options: Options, database: str | None, wanted: str, *, yes: bool
) -> ExitCode:
    """Run `mcpagent runs delete`. Raises `InputError` for a run that has not ended, or does not exist."""
    terminal, runs = open_terminal(options.color), _runs(options, database)
    run = runs.find(wanted)
    put(terminal.err, *_rows([run]))
    if not (yes or agreed(terminal, "delete it for good?", "deletes")):
        return left_alone(terminal)
    runs.delete(wanted)
    _deleted(options, terminal, [run])
    return ExitCode.OK


def prune_runs(
    options: Options, database: str | None, older_than: str, *, yes: bool
) -> ExitCode:
    """Run `mcpagent runs prune`. Raises `InputError` for an invalid age."""
    terminal, runs = open_terminal(options.color), _runs(options, database)
    before = time.time() - seconds_of(older_than)
    old = [
        run for run in runs.listed() if run.changed < before and not run.is_unfinished
    ]
    if old and not (
        yes
        or agreed(terminal, f"delete {counted(len(old), 'run')} for good?", "deletes")
    ):
        return left_alone(terminal)
    _deleted(options, terminal, runs.prune(before) if old else [])
    return ExitCode.OK


def _deleted(options: Options, terminal: Terminal, runs: list[StoredRun]) -> None:
    if options.output == "json":
        terminal.report(options, [_document(run) for run in runs])
    else:
        terminal.done(f"deleted {counted(len(runs), 'run')}")


def _runs(options: Options, database: str | None) -> StoredRuns:
    """Return the runs of this database. Raises `ConfigError` if the engine is not installed."""
    from importlib.util import find_spec

    if find_spec("dbos") is None:
        raise ConfigError(
            "durable runs need DBOS, which is not installed; pip install 'mcpagent[durable]'"
        )
    return StoredRuns(database, store_of(with_sessions_in(options, database)))


def _rows(runs: list[StoredRun]) -> list[Text]:
    now = time.time()
    rows = []
    for run in runs:
        answer = safe_line(_outcome(run), MOST_ANSWER)
        name, session = short_id(run.id), short_id(run.session)
        rows.append(
            [
                (name, "tool"),
                run.state,
                (session, "dim"),
                (ago(now - run.asked), "dim"),
                answer,
            ]
        )
    return table(rows)


def _outcome(run: StoredRun) -> str:
    """Return the answer of a run, or the text of its error; "" for an unfinished run."""
    if run.ended is None:
        return ""
    if run.ended.result is None:
        return str(run.ended.error)
    return run.ended.result.answer


def _end_rows(run: StoredRun) -> list[tuple[str, str]]:
    if run.ended is None:
        return []
    result = run.ended.result
    if result is None:
        return [("error", str(run.ended.error))]
    rows = [("answer", result.answer), ("stop", result.stop)]
    rows += [
        ("waits", f"{call.tool} ({call.call_id}) for {call.kind}")
        for call in result.pending
    ]
    spent = result.spent
    used = tokens(spent.usage.input_tokens + spent.usage.output_tokens)
    took = f"{used} tokens, {money(spent.dollars, known=spent.cost_known)}, {counted(spent.turns, 'turn')}"
    return [*rows, ("took", f"{took}, {counted(spent.tool_calls, 'call')}")]


def _document(run: StoredRun) -> dict[str, Any]:
    found: dict[str, Any] = {"id": run.id, "session": run.session, "state": run.state}
    found |= {"asked": run.asked, "changed": run.changed}
    if run.ended is None:
        return found
    result = run.ended.result
    if result is None:
        return found | {"error": str(run.ended.error)}
    pending = [call.to_json() for call in result.pending]
    answer = {"answer": result.answer, "stop": result.stop, "output": result.output}
    return found | answer | {"pending": pending, "spent": asdict(result.spent)}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
