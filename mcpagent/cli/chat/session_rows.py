"""Format stored conversations as lines: title, time, folder, model, turns, cost."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from mcpagent.cli.chat.status_line import short_model
from mcpagent.cli.common.configuration import short_path
from mcpagent.cli.common.number_formats import counted, money
from mcpagent.cli.common.stored_sessions import ago, short_id
from mcpagent.cli.screen.lines import MAX_WIDTH, column, short_arguments
from mcpagent.cli.screen.terminal import Terminal
from mcpagent.journal.sessions import MessageMatch, SessionInfo
from mcpagent.utilities.text.safe_text import safe_line, safe_text
from mcpagent.values.messages import Message, ToolResult

LEAST_TITLE = 24
MOST_TITLE = 80
MOST_FOLDER = 30


def shown_title(info: SessionInfo) -> str:
    """Return the title as printable text; a placeholder for an empty one."""
    return safe_line(info.title, MOST_TITLE) or "(no words)"


def session_rows(
    infos: Sequence[SessionInfo],
    names: Sequence[str],
    folder: Path,
    width: int,
    now: float | None = None,
) -> list[Text]:
    """Return one line per conversation, after its name (a number or an ID). Columns that do not fit are omitted.

    The title is omitted last. The folder column is empty for the current folder.
    """
    if now is None:
        now = time.time()
    facts = [_facts(info, folder, now) for info in infos]
    widths = [max(map(cell_len, cells)) for cells in zip(*facts, strict=True)]
    name_width = max(map(cell_len, names), default=0)
    longest = max((cell_len(_marked(info)) for info in infos), default=0)
    kept = {place for place, size in enumerate(widths) if size}
    for left_out in (1, 2, 4, 3):  # in this order: folder, model, cost, turns
        room = width - 1 - name_width - 2 - sum(widths[place] + 2 for place in kept)
        if room >= min(longest, LEAST_TITLE):
            break
        kept.discard(left_out)
    room = width - 1 - name_width - 2 - sum(widths[place] + 2 for place in kept)
    title_width = max(min(longest, room), 8)
    lines = []
    for name, info, cells in zip(names, infos, facts, strict=True):
        line = Text.assemble(
            (column(name, name_width), "tool"),
            "  ",
            (_cut(_marked(info), title_width), "user"),
        )
        for place in sorted(kept):
            shown = column(cells[place], widths[place])
            line.append(f"  {shown}", "dim")
        line.rstrip()
        lines.append(line)
    return lines


def _facts(info: SessionInfo, folder: Path, now: float) -> tuple[str, ...]:
    if info.folder == str(folder):
        where = ""
    else:
        where = _end(short_path(info.folder, Path("/nowhere")))
    cost = ""
    if info.dollars or not info.cost_known:
        cost = money(info.dollars, known=info.cost_known)
    return (
        ago(now - info.updated),
        where,
        short_model(info.model),
        counted(info.turns, "turn"),
        cost,
    )


def _marked(info: SessionInfo) -> str:
    if info.holder is not None:
        return f"{shown_title(info)} (open)"
    return shown_title(info)


def _cut(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return column(text, width)
    return f"{column(text, width - 3)}..."


def _end(folder: str) -> str:
    """Return the end of a long path, its most informative part."""
    if len(folder) <= MOST_FOLDER:
        return folder
    return f"...{folder[3 - MOST_FOLDER :]}"


def quoted_lines(words: str, terminal: Terminal) -> list[Text]:
    """Return a model's text after a bar, so that it cannot imitate mcpagent's own; wrapped, without empty lines."""
    console, mark = terminal.out, f"  {terminal.glyphs.bar} "
    lines = [
        Text(line)
        for line in safe_text(words).expandtabs(4).splitlines()
        if line.strip()
    ]
    pieces = [
        piece
        for line in lines
        for piece in line.wrap(console, max(min(console.width, MAX_WIDTH) - 5, 20))
    ]
    return [Text.assemble((mark, "dim"), piece) for piece in pieces]


def found_lines(
    found: Sequence[MessageMatch], width: int, now: float | None = None
) -> list[Text]:
    """Return search results by conversation: its ID and title, and below them the text around each match."""
    if now is None:
        now = time.time()
    by_session: dict[str, list[MessageMatch]] = {}
    for item in found:
        by_session.setdefault(item.session.id, []).append(item)
    lines: list[Text] = []
    for items in by_session.values():
        info = items[0].session
        when = ago(now - info.updated)
        title = safe_line(shown_title(info), max(width - 30, LEAST_TITLE))
        lines.append(
            Text.assemble(
                (short_id(info.id), "tool"), "  ", (title, "user"), (f"  {when}", "dim")
            )
        )
        lines += [
            Text(f"    {safe_line(item.excerpt, max(width - 6, LEAST_TITLE))}")
            for item in items
        ]
    return lines


def info_document(info: SessionInfo) -> dict[str, Any]:
    """Return the description of a conversation for `--json`; times are in seconds since 1970."""
    holder = info.holder
    return {
        "id": info.id,
        "title": info.title,
        "created": info.created,
        "updated": info.updated,
        "folder": info.folder,
        "model": info.model,
        "turns": info.turns,
        "messages": info.messages,
        "tokens": info.tokens,
        "cost_usd": info.dollars if info.cost_known else None,
        "is_named": info.is_named,
        "held_by": {"pid": holder.pid, "host": holder.host, "since": holder.since}
        if holder is not None
        else None,
    }


def results_by_call(messages: Iterable[Message]) -> dict[str, ToolResult]:
    """Return the results of calls by call ID."""
    return {
        result.call_id: result
        for message in messages
        for result in message.tool_results
    }


def message_lines(
    message: Message, terminal: Terminal, results: Mapping[str, ToolResult]
) -> list[Text]:
    """Return a prompt, an answer behind a bar, and each call as one line; a failed call shows its kind of error."""
    lines: list[Text] = []
    if message.role == "user":
        lines += [
            Text(""),
            Text.assemble(("> ", "user"), safe_text(message.text).strip()),
        ]
    elif message.role == "assistant" and message.text.strip():
        lines += quoted_lines(message.text.strip(), terminal)
    for call in message.tool_calls:
        arguments = short_arguments(call.arguments)
        name, result = safe_line(call.name, 80), results.get(call.id)
        mark, outcome = (terminal.glyphs.call, ""), ""
        if result is not None and result.error is not None:
            mark = terminal.glyphs.failed, "error"
            outcome = f"  {result.error.replace('_', ' ')}"
        lines.append(
            Text.assemble(
                "  ",
                mark,
                " ",
                (name, "tool"),
                (f"  {arguments}", "dim"),
                (outcome, "error"),
            )
        )
    return lines
