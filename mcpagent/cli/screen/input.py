"""The input line: history, several lines, completion, keys, and the status line below it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.application.current import get_app_or_none
from prompt_toolkit.completion import Completer
from prompt_toolkit.filters import is_searching
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth, Output, create_output
from prompt_toolkit.output.plain_text import PlainTextOutput
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import is_dumb_terminal

from mcpagent.cli.screen.terminal import Terminal
from mcpagent.utilities.filesystem.file_changes import is_writable
from mcpagent.utilities.filesystem.user_folders import state_folder
from mcpagent.utilities.text.secrets import without_secrets

ESCAPE_SECONDS = 0.3
"""Maximum wait after Esc for another key, because terminals send Alt+Enter as Esc and Enter."""


class StoredHistory(FileHistory):
    """The history of typed lines, in a file.

    If the file cannot be read or written, the lines last for this run only, and `problem` is the reason.
    """

    problem = ""
    unfolded: Callable[[str], str] = str
    """Callback that returns a typed line with its folded pastes expanded, for the history file."""

    def load_history_strings(self) -> Iterable[str]:
        """Return the lines, newest first; nothing if the file cannot be read."""
        try:
            return super().load_history_strings()
        except OSError as error:
            self._note(error)
            return ()

    def store_string(self, string: str) -> None:
        """Append the line to the file, with secrets removed, if the file is writable."""
        try:
            super().store_string(without_secrets(self.unfolded(string)))
        except OSError as error:
            self._note(error)

    def _note(self, error: OSError) -> None:
        self.problem = f"what you type is not kept for the next time: {self.filename!s}: {error.strerror or error}"


FOLDED_LINES = 20
"""Maximum number of lines of a paste that is shown in full; a longer paste is replaced by a mark."""


class Pastes:
    """Long pasted texts of an input; the line shows a mark for each, such as `[paste 1: 2,000 lines]`."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def folded(self, text: str) -> str:
        """Return the mark of a long text, or a short text unchanged."""
        plain = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = plain.removesuffix("\n").count("\n") + 1
        if lines <= FOLDED_LINES:
            return plain
        mark = f"[paste {len(self._texts) + 1}: {lines:,} lines]"
        self._texts[mark] = plain
        return mark

    def unfolded(self, line: str) -> str:
        """Return the input with each mark replaced by its text."""
        for mark, text in self._texts.items():
            line = line.replace(mark, text)
        return line


class InputLine:
    """Reads the user's input.

    `status` returns the text below the line, `completer` the completions for Tab; `unfold` handles Ctrl+T. `shown` is
    set once the line is on the screen. Without `stores_history`, typed questions stay in memory.
    """

    def __init__(
        self,
        terminal: Terminal,
        environ: Mapping[str, str],
        *,
        status: Callable[[], str],
        completer: Completer,
        unfold: Callable[[], None],
        stores_history: bool = True,
    ) -> None:
        self.shown = asyncio.Event()
        path = None
        if stores_history:
            path = history_file(environ)
        self._terminal, self._has_warned = terminal, False
        self._pastes = Pastes()
        self._history: History = InMemoryHistory()
        if path is not None:
            kept = StoredHistory(str(path))
            kept.unfolded = self._pastes.unfolded
            self._history = kept
        has_color = terminal.out.color_system is not None
        with create_app_session(input=keyboard_input(), output=terminal_output()):
            self._session: PromptSession[str] = PromptSession(
                message=[("class:prompt", "> ")],
                history=self._history,
                multiline=True,
                enable_suspend=True,
                prompt_continuation="  ",
                key_bindings=_keys(unfold, self._pastes),
                completer=completer,
                complete_while_typing=True,
                tempfile_suffix=".md",
                reserve_space_for_menu=6,
                bottom_toolbar=status,
                style=Style.from_dict(_STYLE if has_color else _PLAIN_STYLE),
                include_default_pygments_style=False,
                color_depth=ColorDepth.DEPTH_4_BIT
                if has_color
                else ColorDepth.DEPTH_1_BIT,
            )
        self._session.app.timeoutlen = self._session.app.ttimeoutlen = ESCAPE_SECONDS
        self._session.app.after_render += lambda _app: self.shown.set()

    async def read(self) -> str:
        """Return the next input. Raises `EOFError` for Ctrl-D and `KeyboardInterrupt` for Ctrl-C on an empty line.

        Other output in the meantime appears above the line.
        """
        if (problem := getattr(self._history, "problem", "")) and not self._has_warned:
            self._has_warned = True
            self._terminal.warn(problem)
        if (
            is_dumb_terminal()
        ):  # nothing is drawn here, and the proxy writes escape sequences
            self.shown.set()
            return self._pastes.unfolded(await self._session.prompt_async())
        with patch_stdout(raw=True):
            return self._pastes.unfolded(await self._session.prompt_async())

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Make room for other output during the block; on a terminal that cannot move the line, write it again below
        the output.
        """
        app = None
        if is_dumb_terminal():
            app = get_app_or_none()
        if app is None or not app.is_running:
            yield
            return
        output = terminal_output()
        output.write("\n")
        output.flush()
        yield
        output.write(f"> {app.current_buffer.text}")
        output.flush()

    def end(self, error: type[BaseException] = EOFError) -> bool:
        """End `read` with this error; return False if `read` is not running."""
        app = self._session.app
        if not app.is_running or app.is_done:
            return False
        app.exit(exception=error())
        return True

    def refresh(self) -> None:
        """Redraw the status line."""
        if self._session.app.is_running:
            self._session.app.invalidate()


_STYLE = {
    "prompt": "bold",
    "bottom-toolbar": "noreverse ansibrightblack",
    "bottom-toolbar.text": "noreverse",
    "completion-menu": "noreverse bg:default",
    "completion-menu.completion": "bg:default fg:default",
    "completion-menu.completion.current": "reverse",
    "completion-menu.meta.completion": "bg:default ansibrightblack",
    "completion-menu.meta.completion.current": "bg:default ansibrightblack",
}
_PLAIN_STYLE = {
    "bottom-toolbar": "noreverse",
    "bottom-toolbar.text": "noreverse",
    "completion-menu": "noreverse",
    "completion-menu.completion.current": "noreverse",
}


def _keys(unfold: Callable[[], None], pastes: Pastes) -> KeyBindings:
    keys = KeyBindings()
    typing = ~is_searching  # Ctrl+R search handles Enter, Esc and Ctrl+C itself

    @keys.add("enter", filter=typing)
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if (
            buffer.complete_state is not None
            and buffer.complete_state.current_completion is not None
        ):
            buffer.complete_state = None
            return
        buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=typing)
    @keys.add("c-j", filter=typing)
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add(Keys.BracketedPaste)
    def paste(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(pastes.folded(event.data))

    @keys.add("c-c", filter=typing)
    def clear_or_interrupt(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt())

    @keys.add("escape", filter=typing)
    def clear(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None:
            buffer.cancel_completion()
        else:
            buffer.reset()

    @keys.add("c-e")
    def edit(event: KeyPressEvent) -> None:
        given_back = lend(event.app.input)
        event.current_buffer.text = pastes.unfolded(event.current_buffer.text)
        event.current_buffer.open_in_editor(
            validate_and_handle=False
        ).add_done_callback(given_back)

    @keys.add("c-t")
    def show_more(event: KeyPressEvent) -> None:  # noqa: ARG001 - the interface's own
        unfold()

    return keys


def history_file(environ: Mapping[str, str]) -> Path | None:
    """Return the file of typed prompts, readable by its user only; None if the file cannot be written."""
    path = state_folder(environ) / "history"
    if is_writable(path):
        return path
    return None


def keyboard_input() -> Input:
    """Return an input on stdin that keeps the meaning of keys typed while other lines are printed.

    Without it, prompt_toolkit would reset the terminal for that moment, which would echo keys and turn Enter into
    Ctrl+J.
    """
    made = create_input()
    if sys.platform == "win32":
        return made
    from prompt_toolkit.input.vt100 import Vt100Input

    class TypedAheadInput(Vt100Input):
        is_lent = False

        def cooked_mode(self) -> AbstractContextManager[None]:
            if self.is_lent:
                return super().cooked_mode()
            return nullcontext()

    if isinstance(made, Vt100Input) and sys.stdin.isatty():
        return TypedAheadInput(sys.stdin)
    return made


def lend(keyboard: Input) -> Callable[[object], None]:
    """Reset the terminal for another program, until the caller calls the returned function."""
    keyboard.is_lent = True  # type: ignore[attr-defined]

    def take_back(_result: object) -> None:
        keyboard.is_lent = False  # type: ignore[attr-defined]

    return take_back


def terminal_output() -> Output:
    """Return stdout, or stderr if stdout is a pipe; a dumb terminal receives no escape sequences."""
    if sys.stdout.isatty():
        stream = sys.stdout
    else:
        stream = sys.stderr
    if is_dumb_terminal():
        return PlainTextOutput(stream)
    return create_output(stream)
