"""Choose one of several stored conversations: arrow keys or a number; typing filters, Enter selects, Esc leaves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import (
    BufferControl,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import Output
from prompt_toolkit.utils import is_dumb_terminal

from mcpagent.cli.chat.session_rows import session_rows
from mcpagent.cli.common.number_formats import counted
from mcpagent.cli.screen.input import keyboard_input, terminal_output
from mcpagent.cli.screen.terminal import Terminal, put
from mcpagent.journal.sessions import SessionInfo
from mcpagent.utilities.text.safe_text import safe_line

MOST_ROWS = 10
QUESTION = "which one? "
KEYS = "arrows or a number, words filter, Enter goes on with it, Esc leaves"


class Choice:
    """The typed filter, the matching conversations, and the position of the chosen one among them."""

    def __init__(self, infos: Sequence[SessionInfo]) -> None:
        self._all = list(infos)
        self.shown = self._all
        self.place = 0

    def type(self, text: str) -> None:
        """Apply the filter: a number selects among all conversations; words match title, folder, model or ID."""
        words = text.casefold().split()
        if (
            len(words) == 1
            and words[0].isdecimal()
            and 1 <= int(words[0]) <= len(self._all)
        ):
            self.shown, self.place = self._all, int(words[0]) - 1
            return
        self.shown = [
            info for info in self._all if all(word in _words_of(info) for word in words)
        ]
        self.place = 0

    def move(self, rows: int) -> None:
        """Move the selection down by `rows`, or up if negative; stop at both ends."""
        self.place = max(0, min(self.place + rows, len(self.shown) - 1))

    @property
    def chosen(self) -> SessionInfo | None:
        """The selected conversation; None if none matches."""
        if self.shown:
            return self.shown[self.place]
        return None

    def window(self, rows: int) -> range:
        """Return the positions to display if there is room for `rows` rows."""
        first = max(0, min(self.place - rows // 2, len(self.shown) - rows))
        return range(first, min(first + rows, len(self.shown)))


def _words_of(info: SessionInfo) -> str:
    return f"{info.title} {info.folder} {info.model} {info.id}".casefold()


async def pick_session(
    infos: Sequence[SessionInfo],
    terminal: Terminal,
    folder: Path,
    keyboard: Input | None = None,
    output: Output | None = None,
) -> SessionInfo | None:
    """Return the conversation that the user chooses; None if the user leaves."""
    with create_app_session(
        input=keyboard or keyboard_input(), output=output or terminal_output()
    ):
        if is_dumb_terminal():
            return await _typed(Choice(infos), terminal, folder)
        application = _application(Choice(infos), terminal, folder)
        return await application.run_async()


def _application(
    choice: Choice, terminal: Terminal, folder: Path
) -> Application[SessionInfo | None]:
    keys, filtering = KeyBindings(), Buffer(multiline=False)
    filtering.on_text_changed += lambda buffer: choice.type(buffer.text)
    width, height = terminal.out.width, terminal.out.height
    rows = max(3, min(MOST_ROWS, height - 4))
    table = _Table(choice, folder, width)

    for names, step in (
        (("up", "c-p"), -1),
        (("down", "c-n"), 1),
        (("pageup",), -rows),
        (("pagedown",), rows),
    ):
        for name in names:

            @keys.add(name)
            def _(_event: KeyPressEvent, step: int = step) -> None:
                choice.move(step)

    @keys.add("enter")
    def take(event: KeyPressEvent) -> None:
        if choice.chosen is not None:
            event.app.exit(result=choice.chosen)

    @keys.add("escape", eager=True)
    @keys.add("c-c")
    @keys.add("c-d")
    def leave(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    def listed() -> StyleAndTextTuples:
        pieces: StyleAndTextTuples = []
        for place in choice.window(rows):
            if place == choice.place:
                mark, style = ">", "bold"
            else:
                mark, style = " ", ""
            pieces.append((style, f"{mark} {table.row(place)}\n"))
        count = len(choice.shown)
        more = "none has these words; Esc leaves"
        if count:
            more = f"{counted(count, 'conversation')}; {KEYS}"
        return [*pieces, ("ansibrightblack", more[: width - 1])]

    line = Window(
        BufferControl(filtering, input_processors=[BeforeInput(QUESTION, "bold")]),
        height=1,
    )
    shown = Window(
        FormattedTextControl(listed), dont_extend_height=True, wrap_lines=False
    )
    return Application(
        Layout(HSplit([line, shown]), focused_element=line),
        key_bindings=keys,
        erase_when_done=True,
        full_screen=False,
    )


class _Table:
    """The rows of all conversations, formatted once."""

    def __init__(self, choice: Choice, folder: Path, width: int) -> None:
        infos = choice.shown
        numbers = [
            f"{place:>{len(str(len(infos)))}}" for place in range(1, len(infos) + 1)
        ]
        rows = session_rows(infos, numbers, folder, width - 2)
        self._rows = {info.id: row.plain for info, row in zip(infos, rows, strict=True)}
        self._choice = choice

    def row(self, place: int) -> str:
        return self._rows[self._choice.shown[place].id]


async def _typed(
    choice: Choice, terminal: Terminal, folder: Path
) -> SessionInfo | None:
    """Return the chosen conversation on a terminal that cannot be redrawn: print a list, and read one line. None: no
    choice.
    """
    table, session = _Table(choice, folder, terminal.out.width), PromptSession[str]()
    while True:
        put(
            terminal.out,
            *(table.row(place) for place in range(min(len(choice.shown), MOST_ROWS))),
        )
        if len(choice.shown) > MOST_ROWS:
            put(terminal.out, f"{len(choice.shown) - MOST_ROWS} more; words filter")
        try:
            typed = (await session.prompt_async(QUESTION)).strip()
        except (EOFError, KeyboardInterrupt):
            return None
        if not typed:
            return None
        choice.type(typed)
        if len(choice.shown) == 1 or typed.isdecimal():
            return choice.chosen
        if not choice.shown:
            put(terminal.out, f"none has the words {safe_line(typed, 60)}")
            choice.type("")
