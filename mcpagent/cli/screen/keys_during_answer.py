"""Handle the keyboard between input lines: Ctrl-C and Esc stop an answer, other keys go to the next input line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import select
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

MAX_TYPED_BEFORE = 65_536
ESCAPE = b"\x1b"
_KEY_SEQUENCE = re.compile(rb"\x1b(?:\[[0-9;]*[@-~]|O.)")
"""The bytes of a key without a character, such as an arrow key."""

ESCAPE_SECONDS = 0.05
"""Maximum wait after Esc for the rest of an arrow key's sequence, which also begins with Esc."""


@contextlib.contextmanager
def on_interrupt(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` in the event loop on Ctrl-C, instead of raising `KeyboardInterrupt`."""
    loop = asyncio.get_running_loop()

    def handle(_signal: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(act)

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def typing_ahead() -> Iterator[None]:
    """Hide keys typed during an answer; the next input line receives them unchanged."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    import termios

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    silent = termios.tcgetattr(descriptor)
    silent[
        0
    ] &= (
        ~termios.ICRNL
    )  # keep Enter as it is, instead of turning it into Ctrl-J's line feed
    silent[3] &= ~(termios.ECHO | termios.ICANON)

    def stop(_signal: int, _frame: FrameType | None) -> None:
        """Handle Ctrl-Z: restore the shell's terminal mode, and mcpagent's mode when the process continues."""
        now = termios.tcgetattr(descriptor)
        termios.tcsetattr(descriptor, termios.TCSANOW, before)
        os.kill(os.getpid(), signal.SIGSTOP)
        termios.tcsetattr(descriptor, termios.TCSANOW, now)

    termios.tcsetattr(descriptor, termios.TCSANOW, silent)
    stopping = signal.signal(signal.SIGTSTP, stop)
    _keep_typed_before(descriptor)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, stopping)
        # If the terminal is closed, there is no mode to restore.
        with contextlib.suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSANOW, before)


class EscapeKey:
    """Calls `act` when Esc is pressed during an answer. Other keys go to the next input line.

    `show` receives all text that was typed so far, after each key.
    """

    def __init__(self, act: Callable[[], None], show: Callable[[str], None]) -> None:
        self._act = act
        self._show = show
        self._reads = False
        self._typed = b""
        self._waiting: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Read the keyboard during the block, if stdin is a terminal."""
        if sys.platform == "win32" or not sys.stdin.isatty():
            yield
            return
        self._begin()
        try:
            yield
        finally:
            self._end()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the keyboard to a question during the block."""
        if not self._reads:
            yield
            return
        self._end()
        try:
            yield
        finally:
            self._begin()

    def unsend(self) -> None:
        """Turn typed Enter keys into line breaks, so that the next input line shows the text and does not send it."""
        self._typed = self._typed.rstrip(b"\r").replace(b"\r", b"\n")

    def _begin(self) -> None:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read)
        self._reads = True

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._reads = False
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        typed, self._typed = self._typed, b""
        self._show("")
        _pass_on(typed)

    def _read(self) -> None:
        typed = os.read(sys.stdin.fileno(), 4096)
        if not typed:  # the terminal was closed
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            return
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        self._typed += typed
        if typed.endswith(ESCAPE):
            loop = asyncio.get_running_loop()
            self._waiting = loop.call_later(ESCAPE_SECONDS, self._pressed)
        characters = _KEY_SEQUENCE.sub(b"", self._typed.removesuffix(ESCAPE))
        self._show(characters.decode("utf-8", "replace"))

    def _pressed(self) -> None:
        self._waiting = None
        self._typed = self._typed.removesuffix(ESCAPE)
        self._act()


def _keep_typed_before(descriptor: int) -> None:
    """Pass keys typed before the start to the first input line.

    At that time, the terminal turned Enter into a line feed.
    """
    typed = b""
    while len(typed) < MAX_TYPED_BEFORE and select.select([descriptor], [], [], 0)[0]:
        piece = os.read(descriptor, 4096)
        if not piece:
            break
        typed += piece
    _pass_on(typed.replace(b"\n", b"\r"))


def _pass_on(typed: bytes) -> None:
    """Pass these keys to the next input line."""
    if not typed:
        return
    from prompt_toolkit.input import create_input
    from prompt_toolkit.input.typeahead import store_typeahead
    from prompt_toolkit.input.vt100_parser import Vt100Parser
    from prompt_toolkit.key_binding.key_processor import KeyPress

    keys: list[KeyPress] = []
    parser = Vt100Parser(keys.append)
    parser.feed_and_flush(typed.decode("utf-8", "replace"))
    store_typeahead(create_input(), keys)


@contextlib.contextmanager
def usual_terminal() -> Iterator[None]:
    """Restore line mode and echo during the block, for a program that uses the terminal."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    import termios

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    usual = termios.tcgetattr(descriptor)
    usual[0] |= termios.ICRNL
    usual[3] |= termios.ECHO | termios.ICANON
    termios.tcsetattr(descriptor, termios.TCSADRAIN, usual)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
