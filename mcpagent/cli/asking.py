"""The approval box: what wants to run, with all of its arguments, and one line to answer on.

The answer takes Enter, so that a key typed for something else approves nothing; whatever is no answer is a reason
for "no".
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.cells import cell_len, chop_cells
from rich.text import Text

from mcpagent.cli.approvals import Reply, Scope
from mcpagent.cli.lines import MAX_WIDTH, column
from mcpagent.cli.terminal import Glyphs, put
from mcpagent.safe_text import safe_line, visible
from mcpagent.validation import argument_problem

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from rich.console import Console

    from mcpagent.messages import ToolDefinition
    from mcpagent.pending import PendingCall

ANSWERS: dict[str, Scope] = {
    "y": "once",
    "yes": "once",
    "s": "session",
    "t": "tool",
    "r": "reads",
    "a": "server",
    "": "no",
    "n": "no",
    "no": "no",
}
KEYS = (
    "[y] once",
    "[s] this session",
    "[t] always tool",
    "[a] always server",
    "[e] edit",
    "[N] no + say why",
)
READS_KEY = "[r] always what only reads here"
VIEW_KEY = "[v] view all"
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
        arguments = request.arguments
        with self._aside():
            self._draw(arguments, label, tool)
            forget_typed_ahead()
            while True:
                typed = await self._line(QUESTION)
                word = typed.strip().lower()
                if word == "v":
                    self._draw(arguments, label, tool, limit=None)
                elif word == "e":
                    arguments = await self._edited(arguments, tool)
                    self._draw(arguments, label, tool)
                elif word in ANSWERS and not (word == "r" and not _claims_to_read(tool)):
                    scope = ANSWERS[word]
                    return Reply(scope, None if scope == "no" or arguments == request.arguments else arguments)
                else:
                    return Reply("no", words=typed.strip())

    def _draw(
        self, arguments: dict[str, Any], label: str, tool: ToolDefinition | None, limit: int | None = MAX_ROWS
    ) -> None:
        put(self._console, *box_lines(arguments, label, tool, self._glyphs, self._console.width, limit))

    async def _edited(self, arguments: dict[str, Any], tool: ToolDefinition | None) -> dict[str, Any]:
        """Other arguments, typed as a JSON object that fits the tool; the same where what was typed is none."""
        typed = await self._line("arguments ", _json(arguments))
        try:
            edited = json.loads(typed)
        except (ValueError, RecursionError) as error:
            return self._unedited(f"no JSON: {safe_line(str(error), 100)}", arguments)
        if not isinstance(edited, dict):
            return self._unedited('write an object, {"name": value}', arguments)
        if tool is not None and (problem := argument_problem(tool.parameters, edited)):
            return self._unedited(f"not what the tool takes: {safe_line(problem, 200)}", arguments)
        return edited

    def _unedited(self, why: str, arguments: dict[str, Any]) -> dict[str, Any]:
        put(self._console, f"{why}; the arguments are as before", style="warning")
        return arguments

    async def _line(self, question: str, default: str = "") -> str:
        """One answer; Ctrl-C ends the turn, as at any other moment."""
        try:
            return await self._read(question, default)
        except EOFError:
            return ""
        except KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)
            await asyncio.Event().wait()  # ends with the turn
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
    keys = [*KEYS[:-1], *([READS_KEY] if _claims_to_read(tool) else []), *([VIEW_KEY] if hidden else []), KEYS[-1]]
    if hidden:
        rows = [*rows[:limit], Text(f"{glyphs.ellipsis} {hidden} more lines: [v] shows all", "warning")]
    top_left, top_right, bottom_left, bottom_right = glyphs.corners
    claim = _claim(tool)
    title = f"{top_left} {safe_line(label, max(width - len(claim) - 21, 20))} wants to run "
    end = f" {claim} {top_right}"
    rule = glyphs.line * max(width - cell_len(title) - cell_len(end), 1)
    lines = [Text.assemble((title, "warning"), (rule, "dim"), (end, "dim"))]
    if cell_len(lines[0].plain) > width:
        lines = [Text(title.rstrip(), "warning"), Text(f"{glyphs.bar} {claim}", "dim")]
    lines += [_row(row, glyphs, width) for row in rows]
    in_one_line = "  ".join(keys)
    if len(in_one_line) + 4 <= width:
        rule = glyphs.line * (width - len(in_one_line) - 4)
        return [*lines, Text.assemble((f"{bottom_left} ", "dim"), in_one_line, (f" {rule}{bottom_right}", "dim"))]
    bottom = Text(bottom_left + glyphs.line * (width - 2) + bottom_right, "dim")
    return [*lines, bottom, *(Text(f"  {line}") for line in _wrapped_keys(keys, width - 2))]


async def read_answer(question: str, default: str, keyboard: Input | None = None) -> str:
    """One line from the terminal, by prompt_toolkit; see `ReadLine`."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import create_app_session

    from mcpagent.cli.input import terminal_output

    with create_app_session(input=keyboard, output=terminal_output()):
        session: PromptSession[str] = PromptSession(enable_suspend=True)
        return await session.prompt_async(question, default=default)


async def read_above_output(question: str, default: str) -> str:
    """The same in a chat: what is printed meanwhile appears above the question."""
    from prompt_toolkit.patch_stdout import patch_stdout

    from mcpagent.cli.input import keyboard_input

    with patch_stdout(raw=True):
        return await read_answer(question, default, keyboard_input())


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


def _claims_to_read(tool: ToolDefinition | None) -> bool:
    return tool is not None and tool.read_only is True


def _json(value: Any) -> str:
    return visible(json.dumps(value, ensure_ascii=False, default=str))


def _argument_rows(arguments: dict[str, Any], width: int) -> list[Text]:
    """Every argument in full: a name in front, the value broken into as many rows as it needs."""
    if not arguments:
        return [Text("no arguments", "dim")]
    names = [safe_line(visible(str(name)), 40) for name in arguments]
    name_width = min(max(map(cell_len, names)), max(width // 3, 8))
    rows: list[Text] = []
    for name, value in zip(names, arguments.values(), strict=True):
        text = visible(value) if isinstance(value, str) else _json(value)
        room = max(width - name_width - 2, 10)
        pieces = [piece for line in text.expandtabs(4).split("\n") for piece in chop_cells(line, room) or [""]]
        rows += [
            Text.assemble((column(name if place == 0 else "", name_width), "user"), "  ", piece)
            for place, piece in enumerate(pieces)
        ]
    return rows


def _row(row: Text, glyphs: Glyphs, width: int) -> Text:
    padding = " " * max(width - 4 - cell_len(row.plain), 0)
    return Text.assemble((f"{glyphs.bar} ", "dim"), row, padding, (f" {glyphs.bar}", "dim"))


def _wrapped_keys(keys: Sequence[str], width: int) -> list[str]:
    """The keys on as many lines as they need, none of them broken."""
    lines = [""]
    for key in keys:
        longer = f"{lines[-1]}  {key}" if lines[-1] else key
        if len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(key)
    return lines
