"""From events to the terminal while a question is being answered."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from mcpagent.cli.activity import Activity
from mcpagent.cli.lines import (
    FailureSurroundings,
    loaded_line,
    removed_line,
    search_lines,
    server_failed_lines,
    tool_line,
    usage_line,
)
from mcpagent.cli.markdown import BlockSplitter, print_block
from mcpagent.cli.running import RunningCalls
from mcpagent.cli.terminal import put, silent_console
from mcpagent.events import (
    Event,
    Notice,
    RequestSent,
    ResponseReceived,
    RunFinished,
    ServerFailed,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolProgress,
    ToolsLoaded,
    ToolsRemoved,
    ToolsSearched,
)
from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from mcpagent.cli.terminal import Glyphs
    from mcpagent.config import ServerConfig

_TOLD_BY_AN_EVENT = {"search_tools": ToolsSearched, "add_tool": ToolsLoaded}
"""Calls whose own line is replaced by what they brought about."""


class TurnView:
    """Shows the events of one turn: steps on `steps`, the model's words on `words`; None is nowhere."""

    def __init__(self, steps: Console | None, words: Console | None, glyphs: Glyphs) -> None:
        self._steps = steps or silent_console()
        self._words = words
        self._glyphs = glyphs
        self._activity = Activity(self._steps, glyphs)
        self._blocks = BlockSplitter()
        self._running = RunningCalls()
        self._held: ToolCallFinished | None = None
        self._calls = 0
        self._prints_steps = False

    def __call__(self, event: Event) -> None:
        self._settle(event)
        match event:
            case RequestSent() | ThinkingDelta():
                self._activity.show("thinking")
            case TextDelta(text=text):
                self._show_words(self._blocks.feed(text))
                self._activity.show(self._blocks.open_line or "writing")
            case ResponseReceived():
                self._show_words(self._blocks.finish())
            case ToolCallStarted():
                self._running.start(event)
                self._show_running()
            case ToolProgress():
                self._running.progress(event)
                self._show_running()
            case ToolCallFinished():
                self._finish_call(event)
            case _:
                self._print(*self._lines_of(event))

    def _lines_of(self, event: Event) -> list[Text]:
        """The lines of an event that is told once and leaves nothing to follow."""
        width = self._steps.width
        match event:
            case ToolsSearched():
                return search_lines(event, self._glyphs, width)
            case ToolsLoaded():
                return [loaded_line(event, self._glyphs, width)]
            case ToolsRemoved():
                return [removed_line(event, self._glyphs, width)]
            case Notice(text=text, level=level):
                return [notice_line(text, level, self._glyphs)]
            case RunFinished():
                return [usage_line(event, self._calls, self._glyphs)]
            case _:
                return []

    def note(self, line: Text) -> None:
        """Prints one more line among the steps."""
        self._settle(None)
        self._print(line)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing moves while somebody is asked something."""
        self._settle(None)
        with self._activity.paused():
            yield

    def close(self) -> None:
        """Prints what is still held back and takes the moving line away; to be called however the turn ends."""
        self._settle(None)
        self._show_words(self._blocks.finish())
        self._activity.hide()

    def _finish_call(self, event: ToolCallFinished) -> None:
        self._calls += 1
        place = self._running.finish(event)
        if place.opens:
            self._print(Text(f"{self._glyphs.call} {place.opens} calls at the same time", "dim"))
        if event.result.error is None and event.call.name in _TOLD_BY_AN_EVENT:
            self._held = event
        elif place.in_group:
            branch = self._glyphs.under if place.is_last else self._glyphs.branch
            self._print(*tool_line(event, self._glyphs, self._steps.width, f"  {branch} "))
        else:
            self._print(*tool_line(event, self._glyphs, self._steps.width))
        self._show_running()

    def _show_running(self) -> None:
        if label := self._running.label:
            self._activity.show(f"running {label}")

    def _settle(self, event: Event | None) -> None:
        """The held call's line is printed, unless this event tells the same better."""
        held, self._held = self._held, None
        if held is not None and not isinstance(event, _TOLD_BY_AN_EVENT[held.call.name]):
            self._print(*tool_line(held, self._glyphs, self._steps.width))

    def _show_words(self, blocks: list[str]) -> None:
        if not blocks or self._words is None:
            return
        self._end_steps()
        self._activity.hide()
        for block in blocks:
            print_block(self._words, block)

    def _print(self, *lines: Text) -> None:
        if not lines:
            return
        self._prints_steps = True
        self._activity.hide()
        put(self._steps, *lines)

    def _end_steps(self) -> None:
        """An empty line between the steps and the words."""
        if self._prints_steps and self._words is not None:
            self._activity.hide()
            self._steps.print()
        self._prints_steps = False


def notice_line(text: str, level: str, glyphs: Glyphs) -> Text:
    style = "warning" if level == "warning" else "dim"
    return Text(f"{glyphs.warning} {safe_line(text, 300)}", style)


def print_failed_server(
    console: Console,
    event: ServerFailed,
    servers: Mapping[str, ServerConfig],
    glyphs: Glyphs,
    *,
    in_chat: bool = False,
) -> None:
    """The failure block on a terminal, two lines elsewhere; `in_chat` names the command that tries it again."""
    config = servers.get(event.server)
    environ = FailureSurroundings(os.environ, Path.cwd(), in_chat=in_chat)
    put(console, *server_failed_lines(event, config, glyphs, environ, short=not console.is_terminal))
