"""The approval box: the call that needs approval, with all of its arguments, and one line for the answer.

The answer needs Enter, so that a key typed for another purpose approves nothing. Several words are a reason for a
denial; other text, such as stray keys, is asked about again.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
import textwrap
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.cells import cell_len
from rich.text import Text

from mcpagent.cli.approvals.approver import Reply, Scope, label_of
from mcpagent.cli.screen.drawn_width import cut_into_rows, drawn_width
from mcpagent.cli.screen.lines import MAX_WIDTH, column
from mcpagent.cli.screen.terminal import Glyphs, put
from mcpagent.run.validation import argument_problem
from mcpagent.utilities.text.safe_text import safe_line, visible, with_codes

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from rich.console import Console

    from mcpagent.permissions.decision import Decision
    from mcpagent.values.approval import PendingCall
    from mcpagent.values.messages import ToolDefinition

ANSWERS: dict[str, Scope] = {
    "y": "once",
    "yes": "once",
    "s": "session",
    "t": "tool",
    "x": "call",
    "r": "reads",
    "a": "server",
    "": "no",
    "n": "no",
    "no": "no",
}
VIEW_KEY = "[v] view all"
QUESTION = "run it? [N] or your reason: "
_ONE_WORD = re.compile(r"[^\W\d_]{3,}[.!]?")
_REFUSALS = frozenset(("nope", "stop", "never", "don't", "dont", "cancel", "deny"))
MAX_ROWS = 30
MOST_KEPT = 2_000
"""Maximum length of arguments for the answer "always with these arguments": no user reads longer ones twice."""

ReadLine: TypeAlias = Callable[[str, str], Awaitable[str]]
"""`await read(question, default)`; raises `EOFError` for Ctrl-D and `KeyboardInterrupt` for Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The means to ask the user, one question at a time.

    `read` is None if no user can be asked. During a question, `turn` is locked and `aside` is entered, which hides the
    progress line.
    """

    console: Console
    glyphs: Glyphs
    read: ReadLine | None
    aside: Callable[[], AbstractContextManager[None]] = nullcontext
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


async def ask_about_call(
    asking: Asking,
    request: PendingCall,
    label: str,
    tool: ToolDefinition | None,
    decision: Decision | None = None,
) -> Reply:
    """Draw the box and return the answer, possibly with other arguments. `decision` is the reason for the question."""
    arguments, console = request.arguments, asking.console

    def draw(limit: int | None = MAX_ROWS) -> bool:
        """Draw the box; return whether it shows all arguments."""
        lines = box_lines(arguments, label, tool, asking.glyphs, console.width, limit)
        put(console, *lines, exact=True)
        return (
            limit is None or len(_rows(arguments, label, tool, console.width)) <= limit
        )

    async with asking.turn:
        with asking.aside():
            is_whole = draw()
            forget_typed_ahead(console)
            while True:
                typed = (await _line(asking, QUESTION)).strip()
                word = typed.lower()
                if word == "v":
                    draw(limit=None)
                elif word == "e":
                    arguments = await _edited(asking, arguments, tool)
                    is_whole = draw()
                elif word in ("?", "h", "help"):
                    keys = key_lines(arguments, tool, is_whole=is_whole)
                    put(console, *keys, style="dim")
                elif word == "w":
                    put(console, *reason_lines(decision, label), style="dim")
                elif word in ANSWERS and _makes_sense(word, arguments, tool):
                    scope = ANSWERS[word]
                    return Reply(
                        scope,
                        None
                        if scope == "no" or arguments == request.arguments
                        else arguments,
                    )
                elif is_reason(typed):
                    return Reply("no", words=_reason(typed))
                else:
                    shown = safe_line(typed, 40)
                    put(console, f"  no answer: {shown}", style="dim")
                    if _ONE_WORD.fullmatch(typed):
                        hint = f"  to decline with that as the reason: n {shown}"
                        put(console, hint, style="dim")
                    keys = key_lines(arguments, tool, is_whole=is_whole)
                    put(console, *keys, style="dim")


def is_reason(typed: str) -> bool:
    """Return whether the text is a reason for "no": several words, or a single refusing word. Stray keys are not."""
    words = [word for word in typed.split() if any(map(str.isalpha, word))]
    return len(words) > 1 or typed.strip(" .!").lower() in _REFUSALS


def _reason(typed: str) -> str:
    """Return the reason without a leading key for "no": "tomorrow" for "n tomorrow"."""
    key, _, words = typed.partition(" ")
    if ANSWERS.get(key.lower().rstrip(",:")) == "no" and words.strip():
        return words.strip()
    return typed


async def _edited(
    asking: Asking, arguments: dict[str, Any], tool: ToolDefinition | None
) -> dict[str, Any]:
    """Return other arguments, typed as a JSON object that fits the tool; after invalid input, the same arguments."""
    typed = await _line(asking, "arguments ", _json(arguments))
    try:
        edited = json.loads(typed)
    except (ValueError, RecursionError) as error:
        why = f"no JSON: {safe_line(str(error), 100)}"
    else:
        if not isinstance(edited, dict):
            why = 'write an object, {"name": value}'
        elif tool is not None and (
            problem := argument_problem(tool.parameters, edited)
        ):
            why = f"not what the tool takes: {safe_line(problem, 200)}"
        else:
            return edited
    put(asking.console, f"{why}; the arguments are as before", style="warning")
    return arguments


async def _line(asking: Asking, question: str, default: str = "") -> str:
    """Return one line of input; Ctrl-C ends the turn, as it always does."""
    assert asking.read is not None
    try:
        return await asking.read(question, default)
    except EOFError:
        return ""
    except KeyboardInterrupt:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()  # waits until the turn is cancelled
        raise
    except (
        OSError
    ):  # the terminal was closed: the user declined nothing, and the call stays pending
        if not hasattr(signal, "SIGHUP") or signal.getsignal(signal.SIGHUP) in (
            signal.SIG_IGN,
            signal.SIG_DFL,
        ):
            raise
        signal.raise_signal(signal.SIGHUP)
        await asyncio.Event().wait()  # waits until the chat ends
        raise


def box_lines(
    arguments: dict[str, Any],
    label: str,
    tool: ToolDefinition | None,
    glyphs: Glyphs,
    width: int,
    limit: int | None = MAX_ROWS,
) -> list[Text]:
    """Return the box: the title with the server's hint, one row or more per argument, and the keys.

    The box has at most `limit` rows of arguments (None: all), and states the number of omitted rows.
    """
    rows = _rows(arguments, label, tool, width)
    width = max(min(width, MAX_WIDTH), 24)
    top_left, top_right, bottom_left, bottom_right = glyphs.corners
    claim = _claim(tool)
    if _is_beside(label, claim, width):
        title_label, end = label, f" {claim} {top_right}"
    else:
        title_label, end = safe_line(label, width - 19), top_right
    hidden = 0
    if limit is not None and len(rows) > limit:
        hidden = len(rows) - limit
    keys = [key for key in keys_of(arguments, tool) if hidden or key.typed != "v"]
    if hidden:
        rows = [
            *rows[:limit],
            Text(f"{glyphs.ellipsis} {hidden} more lines: [v] shows all", "warning"),
        ]
    title = f"{top_left} {title_label} wants to run "
    rule = glyphs.line * max(width - drawn_width(title) - drawn_width(end), 1)
    lines = [Text.assemble((title, "warning"), (rule, "dim"), (end, "dim"))]
    for row in rows:
        padding = " " * max(width - 4 - drawn_width(row.plain), 0)
        lines.append(
            Text.assemble(
                (f"{glyphs.bar} ", "dim"), row, padding, (f" {glyphs.bar}", "dim")
            )
        )
    in_one_line = "  ".join(key.label for key in keys)
    if len(in_one_line) + 4 <= width:
        rule = glyphs.line * (width - len(in_one_line) - 4)
        return [
            *lines,
            Text.assemble(
                (f"{bottom_left} ", "dim"),
                in_one_line,
                (f" {rule}{bottom_right}", "dim"),
            ),
        ]
    bottom = Text(bottom_left + glyphs.line * (width - 2) + bottom_right, "dim")
    wrapped = [
        line
        for is_always in (False, True)
        for line in _wrapped_labels(
            [key.label for key in keys if key.is_always == is_always], width - 2
        )
    ]
    return [*lines, bottom, *(Text(f"  {line}") for line in wrapped)]


def _rows(
    arguments: dict[str, Any], label: str, tool: ToolDefinition | None, width: int
) -> list[Text]:
    """Return all rows of the box: the parts of the title that do not fit there, and the arguments."""
    width = max(min(width, MAX_WIDTH), 24)
    rows = _argument_rows(arguments, width - 4)
    if tool is None:
        whole = label
    else:
        whole = label_of(tool, limit=sys.maxsize)
    claim = _claim(tool)
    is_beside = _is_beside(label, claim, width)
    title_label = label if is_beside else safe_line(label, width - 19)
    if title_label != whole:  # the text that is cut in the title appears below, first
        rows = [
            *(Text(piece, "user") for piece in cut_into_rows(whole, width - 4)),
            *rows,
        ]
    if not is_beside:
        rows = [Text(claim, "dim"), *rows]
    return rows


def _is_beside(label: str, claim: str, width: int) -> bool:
    """Return whether the server's hint fits into the title."""
    return drawn_width(label) + len(claim) + 21 <= width


def _wrapped_labels(labels: Sequence[str], width: int) -> list[str]:
    """Return the labels as lines; labels are not broken at their own spaces."""
    whole = "  ".join(label.replace(" ", "\0") for label in labels)
    return [line.replace("\0", " ") for line in textwrap.wrap(whole, width)]


async def read_answer(
    question: str, default: str, keyboard: Input | None = None
) -> str:
    """Return one line from the terminal, by prompt_toolkit; see `ReadLine`."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import create_app_session

    from mcpagent.cli.screen.input import terminal_output

    with create_app_session(input=keyboard, output=terminal_output()):
        session: PromptSession[str] = PromptSession(enable_suspend=True)
        return await session.prompt_async(question, default=default)


async def read_above_output(question: str, default: str) -> str:
    """Return one line from the terminal in a chat, where other output appears above the question."""
    from prompt_toolkit.patch_stdout import patch_stdout

    from mcpagent.cli.screen.input import keyboard_input

    with patch_stdout(raw=True):
        return await read_answer(question, default, keyboard_input())


def forget_typed_ahead(console: Console) -> None:
    """Drop keys typed before the question was visible: they cannot be the answer. A line says which."""
    from prompt_toolkit.input import create_input
    from prompt_toolkit.input.typeahead import get_typeahead

    keys = get_typeahead(create_input())
    typed = safe_line("".join(key.data for key in keys), 100)
    if typed:
        put(console, f"  typed before this question, not used: {typed}", style="dim")
    if sys.platform != "win32" and sys.stdin.isatty():
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _claim(tool: ToolDefinition | None) -> str:
    if tool is not None and tool.kind != "tool":
        listed = tool.kind == "prompt" or tool.read_only
        return f"{tool.kind}, {'listed by its server' if listed else 'not listed by its server'}"
    if tool is None or tool.read_only is None:
        return "server does not say what it does"
    if tool.read_only:
        return "server says: only reads"
    return "server says: changes things"


def reason_lines(decision: Decision | None, label: str) -> list[str]:
    """Return lines with the rule that requires the question, and its place."""
    if decision is None:
        return ["  the call is from an earlier run; no rule allows such a call"]
    words = f"  a rule asks: {decision}"
    if decision.rule.startswith("--approve"):
        words = f"  no rule allows or denies it: {decision}"
    if decision.key:
        words += f", {safe_line(decision.key, 140)}"
    how = f"  mcpagent permissions explain {safe_line(label, 140)}"
    return [words, f"{how} shows all of its rules"]


@dataclass(frozen=True, slots=True)
class Key:
    """A possible answer: the typed key, its label in the box, and its meaning."""

    typed: str
    label: str
    meaning: str

    @property
    def is_always(self) -> bool:
        """True if the answer is stored and also applies to later programs."""
        return ANSWERS.get(self.typed) in ("tool", "call", "reads", "server")


def keys_of(arguments: dict[str, Any], tool: ToolDefinition | None) -> list[Key]:
    """Return the answers to this call, in the order of the box."""
    kind, server = "tool", "this server"
    if tool is not None:
        kind = tool.kind
        server = safe_line(tool.server or "this server", 40)
    keys = [
        Key("y", "[y] once", "run it once"),
        Key("s", "[s] session", f"run it, and this {kind} until the program ends"),
        Key("t", f"always: [t] {kind}", f"always run this {kind}"),
        Key("x", "[x] call", "always run this call with exactly these arguments"),
        Key("r", "[r] reads", f"always run what {server} says only reads"),
        Key("a", "[a] server", f"always run everything of {server}"),
        Key("v", VIEW_KEY, "show all of the arguments"),
        Key("e", "[e] edit", "edit the arguments first"),
        Key("w", "[w] why", "show the rule because of which you are asked"),
        Key("?", "[?]", "explain the keys"),
        Key("n", "[N] no", "decline, as Enter alone does"),
    ]
    return [key for key in keys if _makes_sense(key.typed, arguments, tool)]


def key_lines(
    arguments: dict[str, Any], tool: ToolDefinition | None, *, is_whole: bool
) -> list[str]:
    """Return one line with the meaning of each answer to this call. `is_whole`: all arguments are visible."""
    lines = [
        f"  {key.typed}  {key.meaning}"
        for key in keys_of(arguments, tool)
        if not (is_whole and key.typed == "v")
    ]
    return [
        *lines,
        "  several words decline it too: the model receives them as the reason",
        "  Ctrl-C stops the answer",
    ]


def _makes_sense(
    word: str, arguments: dict[str, Any], tool: ToolDefinition | None
) -> bool:
    """Return whether this answer is offered for this call."""
    if word == "r":
        return _claims_to_read(tool)
    if word == "x":
        return (
            tool is not None
            and tool.kind == "tool"
            and 0 < len(_json(arguments)) - 2 <= MOST_KEPT
        )
    return True


def _claims_to_read(tool: ToolDefinition | None) -> bool:
    return tool is not None and tool.read_only is True


def _json(value: Any) -> str:
    return with_codes(json.dumps(value, ensure_ascii=False, default=str))


def _argument_rows(arguments: dict[str, Any], width: int) -> list[Text]:
    """Return rows with every argument in full: the name, then the value in as many rows as it needs."""
    if not arguments:
        return [Text("no arguments", "dim")]
    names = [visible(str(name), "") for name in arguments]
    name_width = min(max(map(cell_len, names)), max(width // 3, 8))
    rows: list[Text] = []
    for name, value in zip(names, arguments.values(), strict=True):
        if cell_len(name) > name_width:  # on a separate row, since names are never cut
            rows += [Text(piece, "user") for piece in cut_into_rows(name, width)]
            name = ""
        if isinstance(value, str):
            text = visible(value)
        else:
            text = _json(value)
        room = max(width - name_width - 2, 10)
        pieces = [
            piece
            for line in text.expandtabs(4).split("\n")
            for piece in cut_into_rows(line, room)
        ]
        rows += [
            Text.assemble(
                (column(name if place == 0 else "", name_width), "user"), "  ", piece
            )
            for place, piece in enumerate(pieces)
        ]
    return rows
