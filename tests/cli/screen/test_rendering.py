"""Calls while they run and as they end: groups, progress on the moving line, other people's words kept harmless."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from mcpagent.cli.screen.rendering import GroupPosition, RunningCalls, TurnView
from mcpagent.cli.screen.terminal import ASCII_GLYPHS, make_console
from mcpagent.values.events import (
    AnswerRestarted,
    RequestSent,
    ResponseReceived,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    ToolProgress,
)
from mcpagent.values.messages import Text, ToolCall, ToolErrorKind, ToolResult, Usage
from tests.terminal.picture import Picture


def started(call_id: str, name: str, server: str | None = "files") -> ToolCallStarted:
    return ToolCallStarted(ToolCall(call_id, name, {}), server)


def finished(call_id: str, name: str, text: str = "ok", error: ToolErrorKind | None = None) -> ToolCallFinished:
    call = ToolCall(call_id, name, {})
    return ToolCallFinished(call, ToolResult(call_id, name, (Text(text),), error, 0.25), "files")


def test_calls_that_run_together_are_one_group() -> None:
    running = RunningCalls()
    for call_id in "abc":
        running.start(started(call_id, f"tool_{call_id}"))
    assert running.finish(finished("b", "tool_b")) == GroupPosition(in_group=True, opens=3)
    running.start(started("d", "later"))
    assert running.finish(finished("d", "later")) == GroupPosition()
    assert running.finish(finished("a", "tool_a")) == GroupPosition(in_group=True)
    assert running.finish(finished("c", "tool_c")) == GroupPosition(in_group=True, is_last=True)
    running.start(started("e", "alone"))
    assert running.finish(finished("e", "alone")) == GroupPosition()


def test_the_moving_line_names_what_runs_and_how_far_it_is() -> None:
    running = RunningCalls()
    assert running.label == ""
    for call_id, name in (("1", "files_index"), ("2", "fetch"), ("3", "sum"), ("4", "sort")):
        running.start(started(call_id, name))
    running.progress(ToolProgress("files", "index", 3, 10, "reading \x1b[2J"))
    running.progress(ToolProgress("other", "fetch", 1, None, "of another server"))
    assert running.label == "index: reading [2J (3 of 10), fetch, sum, 1 more"
    running.finish(finished("1", "files_index"))
    assert running.label == "fetch, sum, sort"


def screen() -> tuple[io.StringIO, Console]:
    written = io.StringIO()
    return written, make_console(written, "never", {"COLUMNS": "60"})


def test_after_other_output_began_nothing_moves_and_lines_still_appear() -> None:
    """In `mcpagent -p ... | cat` another program writes the answer to the same terminal."""
    written = io.StringIO()
    console = make_console(written, "always", {"COLUMNS": "60", "TERM": "xterm"})
    console.is_interactive = True
    view = TurnView(console, None, ASCII_GLYPHS)
    view(RequestSent(1, (), 0, 0, 0))
    view.end_movement()
    before = len(written.getvalue())
    view(TextDelta("Hello"))
    view(RequestSent(2, (), 0, 0, 0))
    assert written.getvalue()[before:] == ""
    view(started("1", "read"))
    view(finished("1", "read"))
    view.close()
    assert "\x1b[2K" not in written.getvalue()[before:]
    assert "read" in written.getvalue()[before:]


def test_a_group_is_shown_with_a_line_for_each_call_and_errors_folded() -> None:
    written, console = screen()
    view = TurnView(console, None, ASCII_GLYPHS)
    for call_id, name in (("1", "read"), ("2", "write")):
        view(started(call_id, name))
    view(finished("2", "write", "\n".join(f"why {number} \x1b]0;title\x07" for number in range(7)), "failed"))
    view(finished("1", "read"))
    view.close()
    lines = [" ".join(line.split()) for line in written.getvalue().splitlines()]
    assert lines[0] == "* 2 calls at the same time"
    assert lines[1] == "- x files.write failed - 250 ms"
    assert lines[2:7] == [f"why {number} ]0;title" for number in range(5)]
    assert lines[7] == "... 2 more lines"
    assert lines[8] == "- * files.read 250 ms - 2 chars"
    assert all(len(line) <= 60 for line in written.getvalue().splitlines())
    assert "\x1b" not in written.getvalue()


def test_calls_of_a_program_stand_above_its_line_and_are_counted_beyond_the_first() -> None:
    written, console = screen()
    view = TurnView(console, None, ASCII_GLYPHS)
    view(started("p", "run_code"))
    for number in range(200):
        view(replace(started(f"p#{number}", "read"), parent="p"))
    for number in range(200):
        view(replace(finished(f"p#{number}", "read"), parent="p"))
    view(finished("p", "run_code"))
    view.close()
    lines = [" ".join(line.split()) for line in written.getvalue().splitlines()]
    assert lines[:8] == ["- * files.read 250 ms - 2 chars"] * 8
    assert lines[8:] == ["... 192 more calls", "* files.run_code 250 ms - 2 chars"]


def test_words_that_are_dropped_are_told_below_them() -> None:
    """Of a chain whose first model broke off in the middle of its answer."""
    written, console = screen()
    view = TurnView(console, console, ASCII_GLYPHS)
    view(TextDelta("A first paragraph.\n\nAnd"))
    view(TextDelta(" a second.\n\nAnd half of"))
    view(AnswerRestarted("openai:m answers instead", "A first paragraph.\n\nAnd a second.\n\nAnd half of"))
    view(TextDelta("The answer."))
    view(ResponseReceived(1, Usage(), 0.1))
    view.close()
    told = " ".join(written.getvalue().split())
    assert told.startswith("A first paragraph.")
    assert "the words above are dropped: openai:m answers instead; the answer starts again" in told
    assert told.endswith("The answer.")
    assert "And half of" not in told


def test_words_that_nobody_saw_yet_are_dropped_without_a_word() -> None:
    written, console = screen()
    view = TurnView(console, console, ASCII_GLYPHS)
    view(TextDelta("Half of"))
    view(AnswerRestarted("HTTP 529", "Half of"))
    view(TextDelta("The answer."))
    view(ResponseReceived(1, Usage(), 0.1))
    view.close()
    assert written.getvalue().split() == ["The", "answer."]


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


PARTS = (
    *("A paragraph that has ", "not ended **yet** ", "is shown as it grows.\n\n"),
    *("```python\n", *(f"line_{number} = {number}  # {'x' * 70}\n" for number in range(30)), "```\n\n"),
    *(f"- item {number}\n" for number in range(25)),
    *("\n| a | b |\n|---|---|\n", *(f"| {number} | two |\n" for number in range(20)), "\nThe end."),
)


@pytest.mark.slow
def test_words_appear_with_the_piece_that_brings_them_and_stand_once_at_the_end() -> None:
    for quiet in (False, True):
        written, picture = Tty(), Picture(60, 12)
        console = make_console(written, "never", {"COLUMNS": "60", "TERM": "xterm"})
        console.size = (60, 12)
        view = TurnView(None if quiet else console, console, ASCII_GLYPHS)
        view(RequestSent(1, ("search_tools",), 9, 1, 1))
        for at, part in enumerate(PARTS):
            view._activity._drawn = 0.0  # each piece is drawn, however fast they come here
            view(TextDelta(part))
            picture.feed(written.getvalue().replace("\n", "\r\n"))
            written.seek(0)
            written.truncate()
            if at == 1:
                assert "A paragraph that has not ended yet" in picture.text
        view(ResponseReceived(1, Usage(), 0.1))
        view.close()
        picture.feed(written.getvalue().replace("\n", "\r\n"))
        text = picture.text
        assert text.count("A paragraph") == 1
        code = "".join(line for line in text.splitlines() if "line_" in line or set(line) <= {"x"})
        for number in range(30):
            assert code.count(f"line_{number} = ") == 1, (quiet, number)
        assert code.count("x") == 30 * 70
        for number in range(25):
            assert text.count(f"item {number}\n") == 1, (quiet, number)
        assert text.count("two") == 20
        assert text.rstrip().endswith("The end.")
