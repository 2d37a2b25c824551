"""Whether there are colours, and how long lines wrap."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from mcpagent.cli.common.options import ColorMode
from mcpagent.cli.screen.terminal import put, wants_color
from tests.tables import each_row


@each_row(
    "is_terminal, mode, environ, colors",
    [
        (True, "auto", {}, True),
        (False, "auto", {}, False),
        (True, "auto", {"NO_COLOR": "1"}, False),
        (True, "auto", {"NO_COLOR": ""}, True),
        (False, "auto", {"FORCE_COLOR": "1"}, True),
        (True, "auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (True, "auto", {"TERM": "dumb"}, False),
        (True, "always", {"NO_COLOR": "1"}, True),
        (True, "never", {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_is_the_flag_then_no_color_then_force_color_then_the_terminal(
    is_terminal: bool, mode: ColorMode, environ: dict[str, str], colors: bool
) -> None:
    assert wants_color(is_terminal, mode, environ) is colors


@given(st.text(alphabet="a漢 ✓!●>", max_size=300), st.integers(24, 100))
def test_no_wrapped_line_begins_as_one_of_ours(text: str, width: int) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=width, color_system=None, markup=False, highlight=False)
    put(console, f"! {text}")
    first, *rest = stream.getvalue().rstrip("\n").split("\n")
    assert first.startswith("!")
    assert all(line.startswith("  ") or not line.strip() for line in rest)
    assert all(cell_len(line) <= width for line in (first, *rest))
