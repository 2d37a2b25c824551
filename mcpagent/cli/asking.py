"""The approval box: what wants to run, with all of its arguments, and one line to answer on.

The answer takes Enter, so that a key typed for something else approves nothing; whatever is no answer is a reason
for "no".
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.cells import cell_len, chop_cells
from rich.text import Text

from mcpagent.cli.approvals import Reply, Scope
from mcpagent.cli.lines import MAX_WIDTH, column
from mcpagent.cli.terminal import Glyphs, put
from mcpagent.safe_text import safe_line, safe_text

if TYPE_CHECKING:
    from rich.console import Console

    from mcpagent.messages import ToolDefinition
    from mcpagent.pending import PendingCall

ANSWERS: dict[str, Scope] = {
    "y": "once",
    "yes": "once",
    "s": "session",
    "t": "tool",
    "a": "server",
    "": "no",
    "n": "no",
    "no": "no",
}
KEYS = "[y] once  [s] this chat  [t] always this tool  [a] always this server  [e] edit  [N] no, or why"
QUESTION = "run it? [N] "
MAX_ROWS = 30

ReadLine: TypeAlias = Callable[[str, str], Awaitable[str]]
"""`await read(question, default)`; raises `EOFError` for Ctrl-D and `KeyboardInterrupt` for Ctrl-C."""


class ApprovalBox:
    """Asks on this console. `aside` is entered while it asks, to keep the moving line away."""

    def __init__(
        self,
        console: Console,
        glyphs: Glyphs,
        read: ReadLine | None = None,
        aside: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._console = console
        self._glyphs = glyphs
        self._read = read or read_answer
        self._aside = aside

    async def __call__(self, request: PendingCall, label: str, tool: ToolDefinition | None) -> Reply:
        with self._aside():
            put(self._console, *box_lines(request.arguments, label, tool, self._glyphs, self._console.width))
            forget_typed_ahead()
            while True:
                typed = await self._line(QUESTION)
                word = typed.strip().lower()
                if word == "v":
                    rows = box_lines(request.arguments, label, tool, self._glyphs, self._console.width, limit=None)
                    put(self._console, *rows)
                elif word != "e":
                    return Reply(ANSWERS[word]) if word in ANSWERS else Reply("no", words=typed.strip())
                elif (arguments := await self._edited(request.arguments)) is not None:
                    return Reply("once", arguments)

    async def _edited(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Other arguments, as a JSON object; None where what was typed is none."""
        typed = await self._line("arguments ", json.dumps(arguments, ensure_ascii=False))
        try:
            edited = json.loads(typed)
        except (ValueError, RecursionError) as error:
            put(self._console, f"no JSON: {safe_line(str(error), 100)}", style="warning")
            return None
        if not isinstance(edited, dict):
            put(self._console, 'write an object, {"name": value}', style="warning")
            return None
        return edited

    async def _line(self, question: str, default: str = "") -> str:
        try:
            return await self._read(question, default)
        except EOFError:
            return ""
        except KeyboardInterrupt:
            # The turn ends as with Ctrl-C at any other moment, and with it this wait.
            signal.raise_signal(signal.SIGINT)
            await asyncio.Event().wait()
            raise


def box_lines(
    arguments: dict[str, Any],
    label: str,
    tool: ToolDefinition | None,
    glyphs: Glyphs,
    width: int,
    limit: int | None = MAX_ROWS,
) -> list[Text]:
    """The box: title with the server's claim, one row or more per argument, and the keys.

    At most `limit` rows of arguments; it says how many more there are.
    """
    width = max(min(width, MAX_WIDTH), 24)
    rows = _argument_rows(arguments, width - 4)
    hidden = len(rows) - limit if limit is not None and len(rows) > limit else 0
    keys = KEYS
    if hidden:
        rows = [*rows[:limit], Text(f"{glyphs.ellipsis} {hidden} more lines: [v] shows all", "warning")]
        keys += "  [v] view all"
    top_left, top_right, bottom_left, bottom_right = glyphs.corners
    claim = _claim(tool)
    title = f"{top_left} {safe_line(label, max(width - len(claim) - 21, 20))} wants to run "
    end = f" {claim} {top_right}"
    rule = glyphs.line * max(width - cell_len(title) - cell_len(end), 1)
    lines = [Text.assemble((title, "warning"), (rule, "dim"), (end, "dim"))]
    if cell_len(lines[0].plain) > width:
        lines = [Text(title.rstrip(), "warning"), Text(f"{glyphs.bar} {claim}", "dim")]
    lines += [_row(row, glyphs, width) for row in rows]
    if len(keys) + 4 <= width:
        rule = glyphs.line * (width - len(keys) - 4)
        return [*lines, Text.assemble((f"{bottom_left} ", "dim"), keys, (f" {rule}{bottom_right}", "dim"))]
    bottom = Text(bottom_left + glyphs.line * (width - 2) + bottom_right, "dim")
    return [*lines, bottom, *(Text(f"  {line}") for line in _wrapped_keys(keys, width - 2))]


async def read_answer(question: str, default: str) -> str:
    """One line from the terminal, by prompt_toolkit; see `ReadLine`."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import create_app_session

    from mcpagent.cli.input import terminal_output

    with create_app_session(output=terminal_output()):
        session: PromptSession[str] = PromptSession()
        return await session.prompt_async(question, default=default)


async def read_above_output(question: str, default: str) -> str:
    """The same in a chat: what is printed meanwhile appears above the question."""
    from prompt_toolkit.patch_stdout import patch_stdout

    with patch_stdout(raw=True):
        return await read_answer(question, default)


def forget_typed_ahead() -> None:
    """Drops what was typed before the question could be seen: it cannot be the answer."""
    from prompt_toolkit.input import create_input
    from prompt_toolkit.input.typeahead import clear_typeahead

    clear_typeahead(create_input())
    if sys.platform != "win32" and sys.stdin.isatty():
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _claim(tool: ToolDefinition | None) -> str:
    claim = tool.read_only if tool is not None else None
    return {True: "server says: only reads", False: "server says: changes things"}.get(
        claim,  # type: ignore[arg-type]
        "server does not say what it does",
    )


def _argument_rows(arguments: dict[str, Any], width: int) -> list[Text]:
    """Every argument in full: a name in front, the value broken into as many rows as it needs."""
    if not arguments:
        return [Text("no arguments", "dim")]
    names = [safe_line(str(name), 40) for name in arguments]
    name_width = min(max(map(cell_len, names)), max(width // 3, 8))
    rows: list[Text] = []
    for name, value in zip(names, arguments.values(), strict=True):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        room = max(width - name_width - 2, 10)
        pieces = [
            piece
            for line in safe_text(text).expandtabs(4).splitlines() or [""]
            for piece in chop_cells(line, room) or [""]
        ]
        rows += [
            Text.assemble((column(name if place == 0 else "", name_width), "user"), "  ", piece)
            for place, piece in enumerate(pieces)
        ]
    return rows


def _row(row: Text, glyphs: Glyphs, width: int) -> Text:
    padding = " " * max(width - 4 - cell_len(row.plain), 0)
    return Text.assemble((f"{glyphs.bar} ", "dim"), row, padding, (f" {glyphs.bar}", "dim"))


def _wrapped_keys(keys: str, width: int) -> list[str]:
    """The keys on as many lines as they need, none of them broken."""
    lines = [""]
    for key in keys.split("  "):
        longer = f"{lines[-1]}  {key}" if lines[-1] else key
        if len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(key)
    return lines
