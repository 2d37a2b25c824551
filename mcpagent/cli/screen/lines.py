"""Format events as lines: pure functions from events to rich texts. These functions also make third-party text safe."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.text import Text

from mcpagent.cli.common.configuration import short_path, target_of
from mcpagent.cli.common.number_formats import counted, duration, money, tokens
from mcpagent.cli.common.suggested_fixes import fix_for
from mcpagent.cli.screen.terminal import Glyphs, warning_line
from mcpagent.config import ServerConfig
from mcpagent.history.intake.file_descriptions import details_of, file_kind
from mcpagent.utilities.text.safe_text import safe_line, safe_text
from mcpagent.values.events import (
    AnswerRestarted,
    ConversationCompacted,
    Event,
    Notice,
    ProviderCall,
    ProviderCallFinished,
    RunFinished,
    ServerFailed,
    ToolCallFinished,
    ToolProgress,
    ToolsLoaded,
    ToolsRemoved,
    ToolsSearched,
)
from mcpagent.values.messages import FILE_PARTS, Citation, Image

MAX_WIDTH = 100
ERROR_LINES = 5
MAX_VALUE = 60
UNFOLDED_LINES = 500
SOURCES = 8
"""Maximum number of sources displayed for one answer."""


def event_lines(event: Event, calls: int, glyphs: Glyphs, width: int) -> list[Text]:
    """Return the lines of an event that needs no later update; `calls` is the number of calls so far."""
    room = min(width, MAX_WIDTH)
    match event:
        case ToolsSearched():
            return search_lines(event, glyphs, width)
        case ToolsLoaded(names=names):
            left = Text.assemble(
                (glyphs.loaded, "ok"),
                " added ",
                (names_line(names, room - 24, glyphs), "tool"),
            )
            return [_spread(left, f"+{tokens(event.tokens)} tok", glyphs, width)]
        case ToolsRemoved(names=names):
            return [Text(f"- removed {names_line(names, room - 12, glyphs)}", "dim")]
        case ConversationCompacted():
            return [compacted_line(event, glyphs)]
        case ProviderCallFinished():
            return [provider_call_line(event, glyphs, width)]
        case Notice():
            return [notice_line(event, glyphs)]
        case RunFinished():
            return [usage_line(event, calls, glyphs)]
        case _:
            return []


def behind_bar(words: str, glyphs: Glyphs, width: int) -> list[Text]:
    """Return third-party text after a bar, row by row and without empty lines, so that it cannot imitate mcpagent's
    output.
    """
    room = max(min(width, MAX_WIDTH) - 4, 20)
    lines = [line for line in words.expandtabs(4).split("\n") if line.strip()]
    return [
        Text(f"  {glyphs.bar} {piece}", "dim")
        for line in lines
        for piece in chop_cells(line, room)
    ]


def notice_line(event: Notice, glyphs: Glyphs) -> Text:
    """Return a warning in its colour, or a dimmed hint."""
    line = warning_line(event.text, glyphs, 1200)
    if event.level == "warning":
        return line
    return Text(line.plain, "dim")


def compacted_line(event: ConversationCompacted, glyphs: Glyphs) -> Text:
    """Return a line about the compaction: tokens before and after, and the omitted messages."""
    done = [
        f"compacted: about {tokens(event.tokens_before)} tokens, now {tokens(event.tokens_after)}"
    ]
    if event.summarised and event.without_summary:
        done.append(
            f"{counted(event.summarised, 'message')} left out without a summary: {event.without_summary}"
        )
    elif event.summarised:
        done.append(f"{counted(event.summarised, 'message')} summarised")
    if event.shortened:
        done.append(f"{counted(event.shortened, 'result')} shortened")
    if event.without_summary:
        return warning_line(f" {glyphs.dot} ".join(done), glyphs, 300)
    return Text(f" {glyphs.dot} ".join(done), "dim")


def restart_line(event: AnswerRestarted, glyphs: Glyphs) -> Text:
    """Return a line that declares the text printed above invalid."""
    return warning_line(
        f"the words above are dropped: {event.reason}; the answer starts again",
        glyphs,
        300,
    )


def tool_line(
    event: ToolCallFinished, glyphs: Glyphs, width: int, indent: str = ""
) -> list[Text]:
    """Return one line per call; after a failed call also the first lines of its error."""
    result = event.result
    name = safe_line(event.call.name, 80)
    own = name.removeprefix(
        f"{event.server}__"
    )  # the offered name if several servers have the tool's name
    if event.server and not own.startswith(f"{event.server}_"):
        shown = f"{event.server}.{own}"
    else:
        shown = own
    arguments = short_arguments(event.call.arguments) or safe_line(
        event.call.malformed, MAX_VALUE
    )
    if result.error is None:
        mark = glyphs.call, "ok"
    else:
        mark = glyphs.failed, "error"
    left = Text.assemble(
        (indent, "dim"),
        mark,
        " ",
        (safe_line(shown, 120), "tool"),
        ("  " + arguments, "dim"),
    )
    if result.error is None:
        much = f"{tokens(len(result.text))} chars"
        if result.set_aside is not None:
            aside = result.set_aside
            much = f"set aside, {f'{tokens(aside.tokens)} tokens' if aside.tokens else aside.kind}"
        size = f"{duration(result.seconds)} {glyphs.dot} {much}"
        return [_spread(left, size, glyphs, width)]
    kind = result.error.replace("_", " ")
    said = [line for line in safe_text(result.text).splitlines() if line.strip()]
    margin = " " * (len(indent) + 2)
    room = max(width - len(margin) - 1, 20)
    body = [
        Text(f"{margin}{safe_line(line, room)}", "error") for line in said[:ERROR_LINES]
    ]
    if len(said) > ERROR_LINES:
        body.append(
            Text(
                f"{margin}{glyphs.ellipsis} {len(said) - ERROR_LINES} more lines", "dim"
            )
        )
    return [
        _spread(left, f"{kind} {glyphs.dot} {duration(result.seconds)}", glyphs, width),
        *body,
    ]


def provider_call_words(call: ProviderCall) -> str:
    """Return the call that the provider runs: `web search: "rain in Paris"`, `linear.list_issues: team=A`."""
    name = safe_line(
        f"{call.server}.{call.name}" if call.server else call.name.replace("_", " "), 80
    )
    only = None
    if len(call.input) == 1:
        only = next(iter(call.input.values()))
    said = ""
    if isinstance(only, str):
        said = json.dumps(safe_line(only, MAX_VALUE), ensure_ascii=False)
    asked = said or short_arguments(call.input)
    if asked:
        return f"{name}: {asked}"
    return name


def provider_call_line(event: ProviderCallFinished, glyphs: Glyphs, width: int) -> Text:
    """Return one line about a provider's call with its outcome, in the form of a local call."""
    if event.failed:
        mark = glyphs.failed, "error"
    else:
        mark = glyphs.call, "ok"
    name, colon, asked = provider_call_words(event.call).partition(": ")
    left = Text.assemble(mark, " ", (f"{name}{colon}", "tool"), (asked, "dim"))
    return _spread(left, safe_line(event.outcome, 40), glyphs, width)


def source_lines(
    citations: Sequence[Citation], glyphs: Glyphs, width: int
) -> list[Text]:
    """Return the sources under an answer, one line each; only the first `SOURCES`."""
    room = max(min(width, MAX_WIDTH) - 6, 20)
    lines = []
    if citations:
        lines = [Text("sources", "dim")]
    for number, one in enumerate(citations[:SOURCES], 1):
        told = f" {glyphs.dot} ".join(
            filter(None, (safe_line(one.title, 60), safe_line(one.url, 300)))
        )
        lines.append(Text(f"  {number} {safe_line(told, room)}", "dim"))
    if len(citations) > SOURCES:
        lines.append(
            Text(f"  {glyphs.ellipsis} {len(citations) - SOURCES} more", "dim")
        )
    return lines


def unfolded_lines(event: ToolCallFinished, back: int, of: int) -> list[Text]:
    """Return the full text of the call that is `back` calls before the end of `of` calls; 1 is the last call."""
    result = event.result
    if back == 1:
        where = "the last call"
    else:
        where = f"call {back} from the end, of {of}"
    how = (result.error or "").replace("_", " ") or f"{len(result.text):,} characters"
    name = safe_line(
        f"{event.server}.{event.call.name}" if event.server else event.call.name, 120
    )
    lines = [
        Text.assemble(
            (name, "tool"), (f"  {where}, {duration(result.seconds)}, {how}", "dim")
        )
    ]
    arguments = event.call.malformed or json.dumps(
        event.call.arguments, indent=2, ensure_ascii=False, default=str
    )
    lines += [
        Text(f"  {line}", "dim")
        for line in safe_text(arguments).splitlines()[:UNFOLDED_LINES]
    ]
    said = safe_text(result.text).expandtabs(4).splitlines()
    lines += [Text(f"  {line}") for line in said[:UNFOLDED_LINES]]
    if len(said) > UNFOLDED_LINES:
        lines.append(
            Text(
                f"  {len(said) - UNFOLDED_LINES:,} more lines; /save keeps all of it",
                "dim",
            )
        )
    for part in result.content:
        if isinstance(part, FILE_PARTS):
            shows = ""
            if isinstance(part, Image):
                shows = "; /export html shows it"
            lines.append(
                Text(
                    f"  {file_kind(part)}: {safe_line(details_of(part), 200)}{shows}",
                    "dim",
                )
            )
    return lines


def search_lines(event: ToolsSearched, glyphs: Glyphs, width: int) -> list[Text]:
    """Return the search on one line, and below it the tools that it showed the model, with weak matches separate."""
    count = f"{event.found or 'none'} of {event.known}"
    left = Text.assemble(
        (glyphs.search, "tool"), " search ", (f'"{safe_line(event.query, 80)}"', "user")
    )
    lines = [
        _spread(left, f"{count} {glyphs.dot} {duration(event.seconds)}", glyphs, width)
    ]
    found, weak = event.matches[: event.found], event.matches[event.found :]
    room = min(width, MAX_WIDTH) - 6
    if found:
        names = names_line(found, room, glyphs)
        lines.append(Text(f"  {glyphs.under} {names}", "dim"))
    if weak:
        names = names_line(weak, room - len("weak: "), glyphs)
        margin = " " * cell_len(glyphs.under) if found else glyphs.under
        lines.append(Text(f"  {margin} weak: {names}", "dim"))
    if event.connecting:
        servers = ", ".join(safe_line(server, 40) for server in event.connecting)
        lines.append(
            Text(
                f"  {glyphs.under} not searched, still connecting: {servers}", "warning"
            )
        )
    return lines


def progress_words(event: ToolProgress) -> str:
    """Return `index_files: reading (3 of 10)`."""
    if event.total is not None:
        done = f"{event.progress:g} of {event.total:g}"
    else:
        done = f"{event.progress:g}"
    return safe_line(
        f"{event.tool}: {event.message} ({done})"
        if event.message
        else f"{event.tool}: {done}"
    )


def usage_line(event: RunFinished, calls: int, glyphs: Glyphs) -> Text:
    """Return the usage of the turn: requests, tokens as the provider counts them, calls, time, cost."""
    usage = event.usage
    parts = [counted(event.turns, "request")]
    if usage.input_tokens or usage.output_tokens:
        cached = ""
        if usage.cache_read_tokens:
            cached = f" (cache {100 * usage.cache_read_tokens // usage.input_tokens}%)"
        parts.append(
            f"in {tokens(usage.input_tokens)}{cached} out {tokens(usage.output_tokens)}"
        )
    if calls:
        parts.append(counted(calls, "call"))
    parts.append(duration(event.seconds))
    if event.spent.dollars or not event.spent.cost_known:
        parts.append(money(event.spent.dollars, known=event.spent.cost_known))
    return Text("  " + f" {glyphs.dot} ".join(parts), "dim")


def server_failed_lines(
    event: ServerFailed,
    config: ServerConfig | None,
    glyphs: Glyphs,
    *,
    short: bool,
    in_chat: bool = False,
    environ: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> list[Text]:
    """Describe a failed server: the error, its last output, the place of its configuration, and the fix.

    `short`: two lines, for runs without a user. `in_chat` adds the command that retries the server. `environ` is the
    environment in which the server may miss a variable. Paths are relative to `folder`, by default the current one.
    """
    name = safe_line(event.server, 64)
    why = reason(name, event.reason)
    head = Text.assemble((glyphs.failed, "error"), " ", (name, "user"), ": ", why)
    if config is None:  # the reason already names the problem of the entry, and the fix
        return [head]
    do = safe_line(fix_for(event, config, environ), 160)
    quoted = safe_line(shlex.quote(event.server), 64)
    log = ""
    if config.command and "mcp logs" not in do:
        log = f"full log: mcpagent mcp logs {quoted}"
    done = [Text.assemble(("  do      ", "dim"), do)]
    if in_chat:
        done.append(Text.assemble(("  then    ", "dim"), f"/mcp restart {quoted}"))
    if done[-1].cell_len + len(log) + 3 <= MAX_WIDTH:
        done[-1].append(f"   {log}" if log else "", "dim")
    elif not short:
        done.append(Text(f"          {log}", "dim"))
    if short:
        return [head, done[0]]
    said = [
        line
        for line in event.stderr_tail[-ERROR_LINES:]
        if safe_line(line, 400) not in why
    ]
    if config.source:
        source = short_path(config.source, folder or Path.cwd())
    else:
        source = ""
    target = f"{'command' if config.command else 'url'}  {target_of(config, 70)}"
    return [
        head,
        *(Text(f"    {glyphs.bar} {safe_line(line, 160)}", "dim") for line in said),
        Text(
            f"  config  {source}   {target}" if source else f"  config  {target}", "dim"
        ),
        *done,
    ]


def reason(server: str, text: str) -> str:
    """Return why a server failed, without the server's name, which the line already contains."""
    line, name = safe_line(text, 400), f'server "{server}"'
    return line.removeprefix(f"{name} ").removeprefix(f"{name}: ")


def short_arguments(arguments: Mapping[str, Any]) -> str:
    """Return `city=Tokyo days=3 units="metric or not"`: values are shortened, strings quoted only if necessary."""
    return " ".join(
        f"{safe_line(str(key), 40)}={_short_value(value)}"
        for key, value in arguments.items()
    )


def names_line(names: Iterable[str], width: int, glyphs: Glyphs) -> str:
    """Return the names with commas; names that do not fit are counted."""
    kept: list[str] = []
    rest = [safe_line(name, 64) for name in names]
    used = 0
    while rest and (not kept or used + len(rest[0]) + 2 <= width - 10):
        used += len(rest[0]) + 2
        kept.append(rest.pop(0))
    more = ""
    if rest:
        more = f" {glyphs.ellipsis} {len(rest)} more"
    return ", ".join(kept) + more


def _short_value(value: Any) -> str:
    if isinstance(value, str):
        line = safe_line(value, MAX_VALUE)
        if line and " " not in line and "=" not in line:
            return line
        return json.dumps(line, ensure_ascii=False)
    return safe_line(json.dumps(value, ensure_ascii=False, default=str), MAX_VALUE)


def _spread(left: Text, right: str, glyphs: Glyphs, width: int) -> Text:
    """Return the left and the right text on one line; the left text is cut if both do not fit."""
    width = min(width, MAX_WIDTH)
    room = max(width - cell_len(right) - 2, 10)
    if cell_len(left.plain) > room:
        left = left.copy()
        left.truncate(room, overflow="crop")
        left.right_crop(len(glyphs.ellipsis))
        left.append(glyphs.ellipsis, "dim")
    padding = " " * (room - cell_len(left.plain) + 2)
    return Text.assemble(left, padding, (right, "dim"))


def column(text: str, width: int) -> str:
    """Return the text cut or padded to exactly `width` terminal columns."""
    return set_cell_size(text, width)


Cell: TypeAlias = str | tuple[str, str]
"""A text, or a text with its style."""


def table(rows: Iterable[Sequence[Cell]], indent: str = "") -> list[Text]:
    """Return one line per row, with every column but the last as wide as its longest text."""
    cells = [
        [(cell, "") if isinstance(cell, str) else cell for cell in row] for row in rows
    ]
    widths = [
        max(cell_len(text) for text, _ in cells_of)
        for cells_of in zip(*cells, strict=True)
    ][:-1]
    lines = []
    for *first, last in cells:
        padded = [
            (f"{column(text, width)}  ", style)
            for (text, style), width in zip(first, widths, strict=True)
        ]
        lines.append(Text.assemble(indent, *padded, last))
    return lines
