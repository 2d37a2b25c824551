"""Show events on the terminal during an answer, with a moving status line."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from mcpagent.cli.common.number_formats import duration
from mcpagent.cli.screen.lines import (
    event_lines,
    progress_words,
    provider_call_words,
    restart_line,
    server_failed_lines,
    source_lines,
    tool_line,
)
from mcpagent.cli.screen.markdown import BlockSplitter, block_lines, print_block
from mcpagent.cli.screen.terminal import Glyphs, put, silent_console
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import settled_length
from mcpagent.values.events import (
    AnswerRestarted,
    Event,
    LimitReached,
    Notice,
    ProviderCallFinished,
    ProviderCallStarted,
    RequestSent,
    ResponseReceived,
    ServerFailed,
    ServersAwaited,
    TextDelta,
    ThinkingDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolProgress,
    ToolsLoaded,
    ToolsSearched,
)
from mcpagent.values.messages import Citation

if TYPE_CHECKING:
    from rich.live import Live

    from mcpagent.config import ServerConfig

_TOLD_BY_AN_EVENT = {"search_tools": ToolsSearched, "add_tool": ToolsLoaded}
"""Calls whose own line is replaced by the line of an event."""


REFRESHES_PER_SECOND = 8

REDRAW_SECONDS = 0.03
"""Minimum time between two redraws for new text."""


class Activity:
    """Shows the current activity, with a spinner and its duration; the line is removed before anything is printed.

    Shows nothing if the console cannot erase lines. If `moves` is False, only the lines above the moving line are
    shown.
    """

    def __init__(self, console: Console, glyphs: Glyphs, *, moves: bool = True) -> None:
        self._console = console
        self._moves = moves
        self._frames = glyphs.spinner
        self._dot = glyphs.dot
        self._live: Live | None = None
        self._label = ""
        self._typed = ""
        self._above: Callable[[], list[Text]] | None = None
        self._pauses = 0
        self._wanted = False
        self._since = time.monotonic()
        self._drawn = 0.0

    def show(self, label: str, above: Callable[[], list[Text]] | None = None) -> None:
        """Show the label from now on, below the lines that `above` returns at each redraw.

        If no label was shown before, the clock restarts.
        """
        self._label = label
        self._above = above
        self._wanted = True
        if above is None and not self._moves:
            self._take_away()
            return
        if above is not None and self._live is not None:
            self._redraw(self._live)
        if self._pauses or self._live is not None or not self._console.is_interactive:
            return
        from rich.live import Live

        self._since = time.monotonic()
        self._live = Live(
            console=self._console,
            get_renderable=self._lines,
            transient=True,
            refresh_per_second=REFRESHES_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def hide(self) -> None:
        """Hide the line until `show` is called again."""
        self._wanted = False
        self._take_away()

    def show_typed(self, text: str) -> None:
        """Show at the end of the line what the user types meanwhile; "" for nothing."""
        self._typed = safe_line(text.replace("\r", f" {self._dot} "), 60)
        if self._live is not None:
            self._redraw(self._live)

    def end(self) -> None:
        """Remove the line for good."""
        self._take_away()
        self._pauses += 1

    @contextmanager
    def showing(self, label: str) -> Iterator[None]:
        """Show the label during the block."""
        self.show(label)
        try:
            yield
        finally:
            self.hide()

    def _take_away(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hide the line during the block, for other output or a question."""
        self._take_away()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if self._wanted:
                self.show(self._label)

    def _redraw(self, live: Live) -> None:
        """Draw new lines at once, but not so often that drawing takes most of the time."""
        started = time.monotonic()
        if started >= self._drawn:
            live.refresh()
            ended = time.monotonic()
            self._drawn = ended + max(REDRAW_SECONDS, 3 * (ended - started))

    def _lines(self) -> Text:
        """Return the lines of `above`, followed by the moving line."""
        above = self._above
        if above is None:
            return self._line()
        lines = above()[-max(self._console.height - 2, 1) :]
        if self._moves:
            lines.append(self._line())
        return Text("\n").join(lines)

    def _line(self) -> Text:
        passed = time.monotonic() - self._since
        frame = self._frames[int(passed * REFRESHES_PER_SECOND) % len(self._frames)]
        clock = ""
        if passed >= 1:
            clock = f" {self._dot} {duration(passed)}"
        typed = ""
        if self._typed:
            typed = f"  next: {self._typed}"
        room = max(self._console.width - len(clock) - 4, 10)
        line = f"{frame} {safe_line(self._label, room)}{clock}{typed}"
        return Text(line, "dim", no_wrap=True, overflow="ellipsis")


SHOWN = 3
"""Maximum number of running calls that the status line names; the others are counted."""


SHOWN_INNER = 8
"""Maximum number of calls of one program with a separate line; the others are counted."""


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """The position of the line of a finished call.

    - `in_group`: the call belongs to a group; otherwise it ran alone.
    - `opens`: the number of calls in the group that this line begins, or 0.
    - `is_last`: the line ends its group.
    """

    in_group: bool = False
    opens: int = 0
    is_last: bool = False


class RunningCalls:
    """The running calls. A group consists of all calls that were running when the first of these ended."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[ToolCallStarted, str]] = {}
        self._group: set[str] = set()

    def start(self, event: ToolCallStarted) -> None:
        """Add a call that has just started."""
        self._running[event.call.id] = event, safe_line(event.call.name, 64)

    def progress(self, event: ToolProgress) -> None:
        """Record progress. The server reports it under its own name for the tool; the offered name ends with that
        name.
        """
        for call_id, (started, _) in self._running.items():
            name = started.call.name
            if started.server == event.server and (
                name == event.tool or name.endswith(f"_{event.tool}")
            ):
                self._running[call_id] = started, progress_words(event)

    def finish(self, event: ToolCallFinished) -> GroupPosition:
        """Remove a finished call and return the position of its line."""
        call_id = event.call.id
        opens = 0
        if not self._group and not event.parent and call_id in self._running:
            others = {
                running
                for running, (started, _) in self._running.items()
                if not started.parent
            }
            if len(others) > 1:
                self._group, opens = others, len(others)
            else:
                self._group, opens = set(), 0
        self._running.pop(call_id, None)
        if call_id not in self._group:
            return GroupPosition()
        self._group.discard(call_id)
        return GroupPosition(in_group=True, opens=opens, is_last=not self._group)

    @property
    def label(self) -> str:
        """The running calls, `index: reading (3 of 10), fetch, 2 more`, or ""."""
        labels = [label for _, label in self._running.values()]
        more = ""
        if len(labels) > SHOWN:
            more = f", {len(labels) - SHOWN} more"
        return ", ".join(labels[:SHOWN]) + more


class TurnView:
    """Shows the events of one turn: steps on the console `steps`, the model's text on `words`; None hides either."""

    def __init__(
        self, steps: Console | None, words: Console | None, glyphs: Glyphs
    ) -> None:
        self._steps = steps or silent_console()
        self._words = words
        self._glyphs = glyphs
        if words is not None and not self._steps.is_interactive:
            # Without steps on a terminal, such as with -q, only the text appears, on its own console.
            self._activity = Activity(words, glyphs, moves=False)
        else:
            self._activity = Activity(self._steps, glyphs)
        self._blocks = BlockSplitter()
        self._words_shown = False
        self._running = RunningCalls()
        self._held: ToolCallFinished | None = None
        self._calls = 0
        self._inner = Counter[str]()
        self._prints_steps = False

    def __call__(self, event: Event) -> None:
        self._settle(event)
        match event:
            case RequestSent() | ThinkingDelta():
                self._activity.show("thinking")
            case TextDelta(text=text):
                self._show_words(self._blocks.feed(text))
                self._show_open_block()
            case ResponseReceived(citations=citations):
                self._show_words(self._blocks.finish())
                self._show_sources(citations)
                self._words_shown = False
            case AnswerRestarted():
                self._drop_words(event)
            case ServersAwaited(servers=servers):
                self._activity.show(
                    f"connecting {', '.join(safe_line(server, 40) for server in servers)}"
                )
            case ToolCallStarted():
                self._running.start(event)
                self._show_running()
            case ToolProgress():
                self._running.progress(event)
                self._show_running()
            case ToolCallFinished():
                self._finish_call(event)
            case Notice():
                with (
                    self._activity.paused()
                ):  # the event belongs to another activity; the current one continues
                    put(
                        self._steps,
                        *event_lines(
                            event, self._calls, self._glyphs, self._steps.width
                        ),
                    )
                self._prints_steps = True
            case _:
                self._show_step(event)

    def note(self, line: Text) -> None:
        """Print an additional line among the steps."""
        self._settle(None)
        self._print(line)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop all movement while a question to the user is open."""
        self._settle(None)
        with self._activity.paused():
            yield

    def show_typed(self, text: str) -> None:
        """Show on the moving line what the user types meanwhile."""
        self._activity.show_typed(text)

    def end_movement(self) -> None:
        """Remove the moving line for good, because other output may follow on the same terminal."""
        self._activity.end()

    def close(self) -> None:
        """Print pending text and remove the moving line; call this however the turn ends."""
        self._settle(None)
        self._show_words(self._blocks.finish())
        self._activity.hide()

    def _finish_call(self, event: ToolCallFinished) -> None:
        self._calls += 1
        place = self._running.finish(event)
        if event.parent:
            self._print_inner(event)
            return
        if (more := self._inner.pop(event.call.id, 0) - SHOWN_INNER) > 0:
            self._print(Text(f"  {self._glyphs.ellipsis} {more} more calls", "dim"))
        if place.opens:
            self._print(
                Text(f"{self._glyphs.call} {place.opens} calls at the same time", "dim")
            )
        if event.result.error is None and event.call.name in _TOLD_BY_AN_EVENT:
            self._held = event
        elif place.in_group:
            if place.is_last:
                branch = self._glyphs.under
            else:
                branch = self._glyphs.branch
            self._print_call(event, f"  {branch} ")
        else:
            self._print_call(event)
        self._show_running()

    def _print_inner(self, event: ToolCallFinished) -> None:
        """Print a call that a program made, above the line of that program."""
        self._inner[event.parent] += 1
        if self._inner[event.parent] <= SHOWN_INNER:
            self._print_call(event, f"  {self._glyphs.branch} ")
        self._show_running()

    def _show_running(self) -> None:
        if label := self._running.label:
            self._activity.show(f"running {label}")

    def _settle(self, event: Event | None) -> None:
        """Print the line of the held call, unless this event reports the same in more detail."""
        held, self._held = self._held, None
        if held is not None and not isinstance(
            event, _TOLD_BY_AN_EVENT[held.call.name]
        ):
            self._print_call(held)

    def _print_call(self, event: ToolCallFinished, indent: str = "") -> None:
        self._print(*tool_line(event, self._glyphs, self._steps.width, indent))

    def _show_words(self, blocks: list[str]) -> None:
        if blocks:
            self._print_words(blocks)

    def _print_words(self, blocks: list[str], *, continues: bool = False) -> None:
        if self._words is None:
            return
        self._activity.hide()
        if self._prints_steps:  # an empty line separates the steps from the answer
            self._steps.print()
            self._prints_steps = False
        for block in blocks:
            print_block(self._words, block, continues=continues)
        self._words_shown = True

    def _show_open_block(self) -> None:
        """Show the text of the unfinished block above the status line; print the part that is too tall for the
        screen.
        """
        if self._words is None or not self._words.is_interactive:
            self._activity.show("writing")
            return
        while len(self._open_lines()) > self._words.height - 2 and (
            part := self._blocks.cut()
        ):
            self._print_words([part], continues=True)
        self._activity.show("writing", self._open_lines)

    def _open_lines(self) -> list[Text]:
        block = self._blocks.open_block
        block = block[: settled_length(block)]
        if self._words is None or not block:
            return []
        return block_lines(self._words, block)

    def _show_step(self, event: Event) -> None:
        """Show an event that prints a line.

        A provider's call, or the end of an answer that was cut off, appears after the text so far.
        """
        if isinstance(event, ProviderCallStarted | ProviderCallFinished | LimitReached):
            self._show_words(self._blocks.finish())
        self._print(*event_lines(event, self._calls, self._glyphs, self._steps.width))
        if isinstance(event, ProviderCallStarted):
            self._activity.show(provider_call_words(event.call))
        elif isinstance(event, ProviderCallFinished):
            self._activity.show("thinking")

    def _show_sources(self, citations: Sequence[Citation]) -> None:
        if citations and self._words_shown and self._words is not None:
            self._activity.hide()
            put(self._words, *source_lines(citations, self._glyphs, self._words.width))

    def _drop_words(self, event: AnswerRestarted) -> None:
        """Discard text that is not printed yet; a line below the printed text reports that it is no longer valid."""
        self._blocks.finish()
        if self._words_shown and self._words is not None:
            self._activity.hide()
            put(self._words, restart_line(event, self._glyphs), Text())
            self._words_shown = False
        self._activity.show("thinking")

    def _print(self, *lines: Text) -> None:
        if not lines:
            return
        self._prints_steps = True
        self._activity.hide()
        put(self._steps, *lines)


def print_failed_server(
    console: Console,
    event: ServerFailed,
    servers: Iterable[ServerConfig],
    glyphs: Glyphs,
    *,
    in_chat: bool = False,
) -> None:
    """Print the full description of the failure on a terminal, two lines elsewhere; `in_chat` adds the command that
    retries the server.
    """
    config = next((server for server in servers if server.name == event.server), None)
    put(
        console,
        *server_failed_lines(
            event, config, glyphs, short=not console.is_terminal, in_chat=in_chat
        ),
    )
