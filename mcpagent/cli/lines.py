"""What happened, as single lines: pure functions from events to rich texts. Third-party words are made safe here."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from mcpagent.cli.configuration import short_path, target_of
from mcpagent.cli.figures import counted, duration, money, tokens
from mcpagent.cli.remedies import remedy
from mcpagent.cli.terminal import Glyphs
from mcpagent.events import (
    RunFinished,
    ServerFailed,
    ToolCallFinished,
    ToolProgress,
    ToolsLoaded,
    ToolsRemoved,
    ToolsSearched,
)
from mcpagent.safe_text import safe_line, safe_text

if TYPE_CHECKING:
    from mcpagent.config import ServerConfig

MAX_WIDTH = 100
ERROR_LINES = 5
MAX_VALUE = 60


def tool_line(event: ToolCallFinished, glyphs: Glyphs, width: int, indent: str = "") -> list[Text]:
    """One line per call; of a failed one also the first lines of what it said."""
    result = event.result
    name = safe_line(event.call.name, 80)
    own = name.removeprefix(f"{event.server}__")  # so it is called where several servers have a tool of that name
    shown = f"{event.server}.{own}" if event.server and not own.startswith(f"{event.server}_") else own
    arguments = short_arguments(event.call.arguments) or safe_line(event.call.malformed, MAX_VALUE)
    mark = (glyphs.call, "ok") if result.error is None else (glyphs.failed, "error")
    left = Text.assemble((indent, "dim"), mark, " ", (safe_line(shown, 120), "tool"), ("  " + arguments, "dim"))
    if result.error is None:
        size = f"{duration(result.seconds)} {glyphs.dot} {tokens(len(result.text))} chars"
        return [_spread(left, size, glyphs, width)]
    kind = result.error.replace("_", " ")
    said = [line for line in safe_text(result.text).splitlines() if line.strip()]
    margin = " " * (len(indent) + 2)
    room = max(width - len(margin) - 1, 20)
    body = [Text(f"{margin}{safe_line(line, room)}", "error") for line in said[:ERROR_LINES]]
    if len(said) > ERROR_LINES:
        body.append(Text(f"{margin}{glyphs.ellipsis} {len(said) - ERROR_LINES} more lines", "dim"))
    return [_spread(left, f"{kind} {glyphs.dot} {duration(result.seconds)}", glyphs, width), *body]


def search_lines(event: ToolsSearched, glyphs: Glyphs, width: int) -> list[Text]:
    """The search on a line of its own, and under it what it showed the model."""
    found = f"{event.found} of {event.known}" if event.found else f"none of {event.known}"
    left = Text.assemble((glyphs.search, "tool"), " search ", (f'"{safe_line(event.query, 80)}"', "user"))
    lines = [_spread(left, f"{found} {glyphs.dot} {duration(event.seconds)}", glyphs, width)]
    if event.matches:
        names = joined(event.matches, min(width, MAX_WIDTH) - 6, glyphs)
        lines.append(Text(f"  {glyphs.under} {names}", "dim"))
    return lines


def loaded_line(event: ToolsLoaded, glyphs: Glyphs, width: int) -> Text:
    names = joined(event.names, min(width, MAX_WIDTH) - 24, glyphs)
    left = Text.assemble((glyphs.loaded, "ok"), " added ", (names, "tool"))
    return _spread(left, f"+{tokens(event.tokens)} tok", glyphs, width)


def removed_line(event: ToolsRemoved, glyphs: Glyphs, width: int) -> Text:
    return Text(f"- removed {joined(event.names, min(width, MAX_WIDTH) - 12, glyphs)}", "dim")


def progress_words(event: ToolProgress) -> str:
    """`index_files: reading (3 of 10)`."""
    done = f"{event.progress:g} of {event.total:g}" if event.total is not None else f"{event.progress:g}"
    return safe_line(f"{event.tool}: {event.message} ({done})" if event.message else f"{event.tool}: {done}")


def usage_line(event: RunFinished, calls: int, glyphs: Glyphs) -> Text:
    """What the turn used: requests, tokens as the provider counted them, calls, time, money."""
    usage = event.usage
    parts = [counted(event.turns, "request")]
    if usage.input_tokens or usage.output_tokens:
        cached = f" (cache {100 * usage.cache_read_tokens // usage.input_tokens}%)" if usage.cache_read_tokens else ""
        parts.append(f"in {tokens(usage.input_tokens)}{cached} out {tokens(usage.output_tokens)}")
    if calls:
        parts.append(counted(calls, "call"))
    parts.append(duration(event.seconds))
    if event.spent.dollars or not event.spent.cost_known:
        parts.append(money(event.spent.dollars, known=event.spent.cost_known))
    return Text("  " + f" {glyphs.dot} ".join(parts), "dim")


@dataclass(frozen=True, slots=True)
class FailureSurroundings:
    """What a failed server may have missed in the environment, where paths are seen from, and whether one can retry."""

    environ: Mapping[str, str]
    folder: Path
    in_chat: bool = False


def server_failed_lines(
    event: ServerFailed,
    config: ServerConfig | None,
    glyphs: Glyphs,
    around: FailureSurroundings,
    *,
    short: bool,
) -> list[Text]:
    """A failed server: what and why, what it said last, where it is configured, and what to do about it.

    `short`: two lines, for where nobody watches.
    """
    name = safe_line(event.server, 64)
    why = reason(name, event.reason)
    head = Text.assemble((glyphs.failed, "error"), " ", (name, "user"), ": ", why)
    if config is None:  # what is wrong with its entry, and how to mend it, is in the reason
        return [head]
    do = safe_line(remedy(event, config, around.environ), 160)
    quoted = safe_line(shlex.quote(event.server), 64)
    log = f"full log: mcpagent mcp logs {quoted}" if config.command else ""
    done = [Text.assemble(("  do      ", "dim"), do)]
    if around.in_chat:
        done.append(Text.assemble(("  then    ", "dim"), f"/mcp restart {quoted}"))
    if done[-1].cell_len + len(log) + 3 <= MAX_WIDTH:
        done[-1].append(f"   {log}" if log else "", "dim")
    elif not short:
        done.append(Text(f"          {log}", "dim"))
    if short:
        return [head, done[0]]
    said = [line for line in event.stderr_tail[-ERROR_LINES:] if safe_line(line, 400) not in why]
    return [
        head,
        *(Text(f"    {glyphs.bar} {safe_line(line, 160)}", "dim") for line in said),
        _where(config, around.folder),
        *done,
    ]


def _where(config: ServerConfig, folder: Path) -> Text:
    target = f"{'command' if config.command else 'url'}  {target_of(config, 70)}"
    source = short_path(config.source, folder) if config.source else ""
    return Text(f"  config  {source}   {target}" if source else f"  config  {target}", "dim")


def reason(server: str, text: str) -> str:
    """Why a server failed, where its name already stands before."""
    return safe_line(text, 400).removeprefix(f'server "{server}" ')


def short_arguments(arguments: Mapping[str, Any]) -> str:
    """`city=Tokyo days=3 units="metric or not"`: values cut, strings quoted only where they need it."""
    return " ".join(f"{safe_line(str(key), 40)}={_short_value(value)}" for key, value in arguments.items())


def joined(names: Iterable[str], width: int, glyphs: Glyphs) -> str:
    """The names with commas; those that do not fit are counted."""
    kept: list[str] = []
    rest = [safe_line(name, 64) for name in names]
    used = 0
    while rest and (not kept or used + len(rest[0]) + 2 <= width - 10):
        used += len(rest[0]) + 2
        kept.append(rest.pop(0))
    more = f" {glyphs.ellipsis} {len(rest)} more" if rest else ""
    return ", ".join(kept) + more


def _short_value(value: Any) -> str:
    if isinstance(value, str):
        line = safe_line(value, MAX_VALUE)
        return line if line and " " not in line and "=" not in line else json.dumps(line, ensure_ascii=False)
    return safe_line(json.dumps(value, ensure_ascii=False, default=str), MAX_VALUE)


def _spread(left: Text, right: str, glyphs: Glyphs, width: int) -> Text:
    """Left and right on one line; what does not fit is cut from the left's end."""
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
    """The text in exactly so many terminal columns."""
    return set_cell_size(text, width)
