"""`mcpagent sessions list|show|search|doctor`: read-only commands, which create no store."""

from __future__ import annotations

from datetime import datetime

from rich.text import Text

from mcpagent.cli.chat.resumed_state import question_places
from mcpagent.cli.chat.session_rows import (
    found_lines,
    info_document,
    message_lines,
    results_by_call,
    session_rows,
    shown_title,
)
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.number_formats import counted, money, tokens
from mcpagent.cli.common.options import Options
from mcpagent.cli.common.stored_sessions import (
    UnclearError,
    is_begun,
    meant_session,
    resume_words,
    short_id,
    store_of,
    where_shown,
)
from mcpagent.cli.screen.lines import table
from mcpagent.cli.screen.terminal import Terminal, open_terminal, put
from mcpagent.errors import SessionStoreError
from mcpagent.journal.sessions import LoadedSession, SessionInfo, Sessions
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import dump_messages


def list_sessions(options: Options, words: str, limit: int, *, here: bool) -> ExitCode:
    """Run `mcpagent sessions list`."""
    terminal, store = open_terminal(options.color), store_of(options)
    found: list[SessionInfo] = []
    if is_begun(options):
        if here:
            folder = options.folder
        else:
            folder = None
        if words:
            found = store.match(words)
        else:
            found = store.sessions(folder=folder)
    if here:
        found = [info for info in found if info.folder == str(options.folder)]
    shown = found[:limit]
    lines = listed_lines(shown, options, terminal)
    if not shown:
        if words:
            which = " with these words"
        elif here:
            which = " of this folder"
        else:
            which = ""
        lines = [
            Text(
                f"no conversation{which} is kept in {safe_line(where_shown(options), 200)}",
                "dim",
            )
        ]
    terminal.report(options, [info_document(info) for info in shown], *lines)
    if len(found) > limit and options.output == "text":
        put(
            terminal.err,
            f"{len(found) - limit:,} more; -k {len(found)} shows all",
            style="dim",
        )
    return ExitCode.OK


def listed_lines(
    infos: list[SessionInfo], options: Options, terminal: Terminal
) -> list[Text]:
    """Return one line per conversation, with its ID."""
    return session_rows(
        infos, [short_id(info.id) for info in infos], options.folder, terminal.out.width
    )


def the_one(
    options: Options, store: Sessions, wanted: str, terminal: Terminal
) -> SessionInfo:
    """Return the matching conversation; several matches are listed on stderr. Raises `InputError` unless exactly one
    matches.
    """
    try:
        return meant_session(options, store, wanted)
    except UnclearError as error:
        put(terminal.err, *listed_lines(list(error.found[:20]), options, terminal))
        raise


def show_session(options: Options, wanted: str) -> ExitCode:
    """Run `mcpagent sessions show`."""
    terminal, store = open_terminal(options.color), store_of(options)
    info = the_one(options, store, wanted, terminal)
    kept = store.read(info.id)
    document = {**info_document(info), "history": dump_messages(kept.messages)}
    terminal.report(options, document, *_facts(kept, options), *_said(kept, terminal))
    return ExitCode.OK


def _facts(kept: LoadedSession, options: Options) -> list[Text]:
    info = kept.info
    times = [
        datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")
        for at in (info.created, info.updated)
    ]
    rows = [
        ("id", safe_line(info.id, 200)),
        ("folder", safe_line(info.folder, 300)),
        ("model", safe_line(info.model, 100)),
        ("begun", times[0]),
        ("used", times[1]),
        ("turns", f"{info.turns}, {counted(info.messages, 'message')}"),
        (
            "took",
            f"{tokens(info.tokens)} tokens, {money(info.dollars, known=info.cost_known)}",
        ),
    ]
    if info.holder is not None:
        rows.append(("open", f"in {safe_line(str(info.holder), 100)}"))
    if kept.values.get("pending"):
        rows.append(
            ("waits", f"{counted(len(kept.values['pending']), 'call')} for an answer")
        )
    rows.append(("go on", resume_words(options, info.id)))
    return [
        Text(shown_title(info), "user"),
        *table([[(name, "dim"), value] for name, value in rows]),
    ]


def _said(kept: LoadedSession, terminal: Terminal) -> list[Text]:
    asked, results = question_places(kept.messages), results_by_call(kept.messages)
    return [
        line
        for place, message in enumerate(kept.messages)
        if message.role != "user"
        or place in asked  # the other messages are announcements of tools
        for line in message_lines(message, terminal, results)
    ]


def search_sessions(options: Options, words: str, limit: int) -> ExitCode:
    """Run `mcpagent sessions search`."""
    terminal, store = open_terminal(options.color), store_of(options)
    found = []
    if is_begun(options):
        found = store.search(words, limit)
    documents = [
        {
            "session": info_document(item.session),
            "place": item.place,
            "excerpt": item.excerpt,
        }
        for item in found
    ]
    lines = found_lines(found, terminal.out.width)
    if not found:
        lines = [Text("nothing that was said has these words", "dim")]
    terminal.report(options, documents, *lines)
    if found and options.output == "text":
        put(
            terminal.err,
            f"{resume_words(options, found[0].session.id)} goes on with the first",
            style="dim",
        )
    if found:
        return ExitCode.OK
    return ExitCode.ERROR


def check_store(options: Options) -> ExitCode:
    """Run `mcpagent sessions doctor`."""
    terminal, store = open_terminal(options.color), store_of(options)
    where = safe_line(where_shown(options), 200)
    count, large, wrong = 0, (0, 0), list[str]()
    if is_begun(options):
        try:
            wrong = store.check()
            count, large = len(store.sessions()), store.outputs()
        except SessionStoreError as error:
            wrong = [str(error)]
    if is_begun(options):
        kept = f"{where}: {counted(count, 'conversation')}, whole"
    else:
        kept = f"{where}: nothing is kept yet"
    aside = ""
    if large[0]:
        aside = (
            f"; {counted(large[0], 'large result')} set aside, {large[1]:,} characters"
        )
    ok = Text.assemble((terminal.glyphs.ok, "ok"), f" {kept}{aside}")
    failed = [
        Text(f"{terminal.glyphs.failed} {safe_line(line, 400)}", "error")
        for line in wrong
    ]
    document = {
        "where": where,
        "conversations": count,
        "large_results": large[0],
        "wrong": wrong,
    }
    terminal.report(options, document, *(failed or [ok]))
    if wrong:
        return ExitCode.SESSION
    return ExitCode.OK
