"""The lines of a call, a search, a turn and of names."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from mcpagent.cli.screen.lines import names_line, search_lines, short_arguments, tool_line, usage_line
from mcpagent.cli.screen.terminal import ASCII_GLYPHS, Glyphs
from mcpagent.values.events import RunFinished, ToolCallFinished, ToolsSearched
from mcpagent.values.messages import Text, ToolCall, ToolErrorKind, ToolResult, Usage
from tests.tables import each_row


def finished(
    arguments: dict[str, object] | None = None, *, text: str = "ok", error: ToolErrorKind | None = None, name: str = "t"
) -> ToolCallFinished:
    call = ToolCall("1", name, arguments or {})
    return ToolCallFinished(call, ToolResult("1", name, (Text(text),), error, 0.061), "weather")


def test_a_call_is_one_line_with_arguments_time_and_size() -> None:
    [line] = tool_line(finished({"city": "Tokyo", "note": "two words", "n": 3}, text="x" * 38_200), Glyphs(), 100)
    assert line.plain.startswith('● weather.t  city=Tokyo note="two words" n=3 ')
    assert line.plain.endswith(" 61 ms · 38.2k chars")
    assert cell_len(line.plain) == 100


@each_row("name, shown", [("t", "weather.t"), ("weather__t", "weather.t"), ("weather_now", "weather_now")])
def test_a_call_is_named_by_its_server_once(name: str, shown: str) -> None:
    [line] = tool_line(finished(name=name), Glyphs(), 100)
    assert line.plain.startswith(f"● {shown} ")


def test_a_failed_call_says_why_in_at_most_five_lines() -> None:
    head, *body = tool_line(finished(text="\n".join(f"line {n}" for n in range(8)), error="server_down"), Glyphs(), 100)
    assert head.plain.startswith("✗ weather.t")
    assert head.plain.endswith("server down · 61 ms")
    assert [line.plain for line in body] == [*(f"  line {n}" for n in range(5)), "  … 3 more lines"]


@given(st.text(max_size=300), st.integers(20, 130))
def test_whatever_a_tool_says_stays_on_its_lines(text: str, width: int) -> None:
    event = finished({text: text}, text=text, error="failed", name=text or "t")
    for line in tool_line(event, ASCII_GLYPHS, width):
        assert "\n" not in line.plain
        assert "\x1b" not in line.plain
        assert cell_len(line.plain) <= max(width, 30)


def test_a_search_has_a_line_of_its_own() -> None:
    names = tuple(f"tool_with_a_long_name_{n}" for n in range(5))
    head, below = search_lines(ToolsSearched("train\ntickets", 12, names, 527, 0.001), Glyphs(), 60)
    assert head.plain.startswith('⌕ search "train tickets" ')
    assert head.plain.endswith("12 of 527 · 1 ms")
    assert below.plain == "  └ tool_with_a_long_name_0 … 4 more"
    _, found, weak = search_lines(ToolsSearched("x", 1, ("a", "b", "c"), 9, 0.0), Glyphs(), 60)
    assert (found.plain, weak.plain) == ("  └ a", "    weak: b, c")
    [nothing] = search_lines(ToolsSearched("x", 0, (), 3, 0.0), Glyphs(), 60)
    assert "none of 3" in nothing.plain


def test_the_turn_ends_with_what_it_used() -> None:
    event = RunFinished("a", "answered", 2, Usage(9_800, 412, 6_958, 0, 2), 2.9)
    assert usage_line(event, 3, Glyphs()).plain == "  2 requests · in 9.8k (cache 71%) out 412 · 3 calls · 2.9 s"
    assert usage_line(RunFinished("a", "answered", 1, Usage(), 0.1), 0, Glyphs()).plain == "  1 request · 100 ms"


def test_arguments_are_cut_and_quoted_where_needed() -> None:
    assert short_arguments({"a": "x", "b": "", "c": [1, {"d": None}], "e": "k=v"}) == (
        'a=x b="" c=[1, {"d": null}] e="k=v"'
    )
    assert len(short_arguments({"text": "x" * 1000})) < 80


def test_names_that_do_not_fit_are_counted() -> None:
    assert names_line(["a", "b"], 40, Glyphs()) == "a, b"
    assert names_line(["a" * 30, "b" * 30], 40, Glyphs()) == f"{'a' * 30} … 1 more"
