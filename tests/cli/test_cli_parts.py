"""The pure parts of the terminal: routing, Markdown blocks, lines, figures, prompts, help."""

from __future__ import annotations

import io
import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from mcpagent.cli.app import command_line
from mcpagent.cli.chat.slash.desk import is_command
from mcpagent.cli.chat.slash.slash_table import COMMANDS, GROUPS, overview
from mcpagent.cli.chat.status_line import Status, servers_field, short_model, status_line
from mcpagent.cli.frame.exit_codes import ExitCode, code_of_error, code_of_stop
from mcpagent.cli.frame.figures import duration, saving, tokens
from mcpagent.cli.frame.options import ColorMode
from mcpagent.cli.help import TOP_LEVEL_HELP, command_help
from mcpagent.cli.oneshot.prompts import joined_prompt
from mcpagent.cli.routing import Grammar, UnknownCommandError, route
from mcpagent.cli.screen.input import history_file
from mcpagent.cli.screen.lines import names_line, search_lines, short_arguments, tool_line, usage_line
from mcpagent.cli.screen.markdown import BlockSplitter, print_block
from mcpagent.cli.screen.terminal import ASCII_GLYPHS, Glyphs, put, wants_color
from mcpagent.config.user_folders import state_folder
from mcpagent.errors import ConfigError, CredentialsError, InputError, LimitError, ModelError, ServerError
from mcpagent.events import RunFinished, ToolCallFinished, ToolsSearched
from mcpagent.mcp.server_status import ServerStatus
from mcpagent.messages import Text, ToolCall, ToolErrorKind, ToolResult, Usage
from tests.tables import each_row

_VALUED = ("--model", "-m", "--output", "-o", "--config", "--resume", "-r")
GRAMMAR = Grammar(
    commands=("chat", "ask", "tools", "mcp", "demo"),
    groups={"tools": "list", "mcp": "list", "cards": "--help", "sessions": "list"},
    options=[
        "--model",
        "-m",
        "--output",
        "-o",
        "--quiet",
        "-q",
        "--print",
        "-p",
        "--config",
        "--help",
        "--resume",
        "-r",
    ],
    value_options=("--model", "-m", "--output", "-o", "--config", "--resume", "-r"),
    may_be_bare={"--resume": "--resume", "-r": "--resume"},
)

# --- routing ---------------------------------------------------------------------------------------------------------


@each_row(
    "typed, routed",
    [
        ([], ["chat"]),
        (["-m", "x"], ["chat", "-m", "x"]),
        (["ask", "hi"], ["ask", "hi"]),
        (["-m", "x", "ask", "hi"], ["ask", "-m", "x", "hi"]),
        (["-p", "hi"], ["ask", "-p", "hi"]),
        (["-p"], ["ask", "-p"]),
        (["-p", "chat"], ["ask", "-p", "chat"]),
        (["-qp", "hi"], ["ask", "-qp", "hi"]),
        (["--print", "hi", "-o", "json"], ["ask", "--print", "hi", "-o", "json"]),
        (["what time is it"], ["ask", "what time is it"]),
        (["what time is it", "-p"], ["ask", "what time is it", "-p"]),
        (["--model", "x", "a question"], ["ask", "--model", "x", "a question"]),
        (["--model=x", "a question"], ["ask", "--model=x", "a question"]),
        (["-mx", "a question"], ["ask", "-mx", "a question"]),
        (["-m", "ask", "-p", "q"], ["ask", "-m", "ask", "-p", "q"]),
        (["--", "one"], ["ask", "--", "one"]),
        (["tools"], ["tools", "list"]),
        (["tools", "--json"], ["tools", "list", "--json"]),
        (["cards"], ["cards", "--help"]),
        (["tools", "--help"], ["tools", "--help"]),
        (["--config", "f", "tools", "search", "x"], ["tools", "search", "--config", "f", "x"]),
        (["--help"], ["--help"]),
        (["help", "tools"], ["tools", "--help"]),
        (["--modl", "x"], ["chat", "--modl", "x"]),
        (["--resume"], ["chat", "--resume="]),
        (["-r", "-q"], ["chat", "--resume=", "-q"]),
        (["-r", "1a2b", "-q"], ["chat", "-r", "1a2b", "-q"]),
        (["--resume", "two words"], ["chat", "--resume", "two words"]),
        (["-c"], ["chat", "-c"]),
        (["-c", "a question"], ["ask", "-c", "a question"]),
        (["--no-session", "tools"], ["tools", "list", "--no-session"]),
        (["sessions"], ["sessions", "list"]),
    ],
)
def test_what_is_typed_becomes_a_command(typed: list[str], routed: list[str]) -> None:
    assert route(typed, GRAMMAR) == routed


@each_row(
    "word, hint",
    [
        ("chta", "mcpagent chat?"),
        ("prmpt", 'mcpagent ask "..."?'),
        ("tool", "mcpagent tools list"),
        ("severs", "mcpagent mcp list"),
        ("hello", "mcpagent --help"),
        ("-", "mcpagent --help"),
    ],
)
def test_a_single_word_that_is_no_command_is_never_sent_to_a_model(word: str, hint: str) -> None:
    with pytest.raises(UnknownCommandError) as error:
        route([word], GRAMMAR)
    assert hint in str(error.value)
    assert f"mcpagent -p {word}" in str(error.value)


def test_the_help_page_names_every_command_and_fits_on_a_screen() -> None:
    commands = command_line().commands
    for name, command in commands.items():
        subcommands = "|".join(getattr(command, "commands", ()))
        assert re.search(rf"^  {name}\b.*{re.escape(subcommands)}", TOP_LEVEL_HELP, re.MULTILINE), name
    assert len(TOP_LEVEL_HELP.splitlines()) <= 25
    assert max(map(len, TOP_LEVEL_HELP.splitlines())) <= 100


def leaves() -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name, command in command_line().commands.items():
        inner = getattr(command, "commands", None)
        found += [(f"{name} {sub}", item) for sub, item in inner.items()] if inner else [(name, command)]
    return found


@each_row("name, command", leaves())
def test_every_option_is_explained(name: str, command: object) -> None:
    page = command_help(command, f"mcpagent {name}", 80)
    for param in command.params:  # type: ignore[attr-defined]
        if not getattr(param, "hidden", False):
            assert param.help, param.name
            assert param.opts[0] in page or param.metavar in page
    assert max(map(len, page.splitlines())) <= 80


# --- figures ---------------------------------------------------------------------------------------------------------


def test_numbers_are_short() -> None:
    assert [tokens(count) for count in (0, 950, 4100, 99_956, 1_234_567)] == ["0", "950", "4.1k", "100k", "1.2M"]
    assert [duration(seconds) for seconds in (0.0611, 2.94, 125.2)] == ["61 ms", "2.9 s", "2 min 5 s"]
    assert [saving(3, 100), saving(100, 100), saving(1, 100_000), saving(0, 0)] == ["-97%", "", "-99%", ""]


@given(st.integers(0, 10**9))
def test_a_figure_never_takes_more_than_seven_columns(count: int) -> None:
    assert len(tokens(count)) <= 7


# --- Markdown --------------------------------------------------------------------------------------------------------

TEXT = """# Title

Some words
on two lines.

1. one

   still one
2. two

```python
def f():

    return 1
```
after the code

````
```
inner

```
````

| a | b |
|---|---|
| 1 | 2 |
"""

BLOCKS = [
    "# Title",
    "Some words\non two lines.",
    "1. one\n\n   still one\n2. two",
    "```python\ndef f():\n\n    return 1\n```\nafter the code",
    "````\n```\ninner\n\n```\n````",
    "| a | b |\n|---|---|\n| 1 | 2 |",
]


def split(pieces: list[str]) -> list[str]:
    splitter = BlockSplitter()
    return [*(block for piece in pieces for block in splitter.feed(piece)), *splitter.finish()]


def test_blocks_end_where_nothing_later_can_change_them() -> None:
    assert split([TEXT]) == BLOCKS


@given(st.lists(st.integers(0, len(TEXT)), max_size=30))
def test_blocks_do_not_depend_on_how_the_text_arrives(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TEXT)]
    assert split([TEXT[start:end] for start, end in itertools.pairwise(places)]) == BLOCKS


@given(st.text(alphabet="a`~# \n-1.|>", max_size=200))
def test_no_line_is_lost(text: str) -> None:
    lines = [line for block in split([text]) for line in block.splitlines() if line.strip()]
    assert lines == [line for line in text.split("\n") if line.strip()] or [line.rstrip() for line in lines] == [
        line.rstrip() for line in text.split("\n") if line.strip()
    ]


# --- lines -----------------------------------------------------------------------------------------------------------


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


# --- status ----------------------------------------------------------------------------------------------------------


def test_the_status_line_drops_fields_from_the_right() -> None:
    servers = {
        **{f"s{n}": ServerStatus(f"s{n}", "ready") for n in range(61)},
        **{f"c{n}": ServerStatus(f"c{n}", "connecting") for n in range(8)},
        "f": ServerStatus("f", "failed"),
    }
    status = Status(
        "anthropic:claude-x",
        servers=servers,
        offered=3,
        known=527,
        offered_tokens=600,
        known_tokens=99_956,
        used=4_100,
    )
    whole = " claude-x │ ctx 4.1k │ tools 3/527 · 600 of 100k (-99%) │ mcp 61 ok 8.. 1! │ ask "
    assert status_line(status, Glyphs(), 100) == whole
    assert status_line(status, Glyphs(), 60).endswith("(-99%) ")
    assert status_line(status, Glyphs(), 25) == " claude-x │ ctx 4.1k "


def test_before_anything_is_connected_the_status_says_so() -> None:
    assert servers_field(Status("x:y", servers={"a": ServerStatus("a", "connecting")})) == "mcp 1.."
    assert short_model("offline:rules") == "offline"
    assert short_model("ollama:qwen3") == "qwen3"


# --- prompts ---------------------------------------------------------------------------------------------------------


def test_what_is_piped_in_is_fenced_beside_the_question_or_is_the_question() -> None:
    assert joined_prompt("what is this?", (), "a\nb\n") == "what is this?\n\n```\na\nb\n```"
    assert joined_prompt("", (), "a question\n") == "a question"
    assert joined_prompt("q", (), "") == "q"
    assert joined_prompt("q", (), "has ``` inside") == "q\n\n````\nhas ``` inside\n````"


@given(st.text(min_size=1, max_size=100).filter(str.strip))
def test_piped_text_can_never_end_its_fence(text: str) -> None:
    fence = joined_prompt("q", (), text).splitlines()[2]
    assert fence not in text


def test_files_are_named(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("hello\n", "utf-8")
    assert joined_prompt("q", [file], "") == f"q\n\n{file}:\n```\nhello\n```"
    with pytest.raises(InputError, match="put the whole question in quotes"):
        joined_prompt("what", [Path("time")], "")
    with pytest.raises(InputError, match="there is no question"):
        joined_prompt(" ", (), "\n")


# --- the rest --------------------------------------------------------------------------------------------------------


@each_row(
    "error, code",
    [
        (ConfigError("x"), 3),
        (CredentialsError("x"), 4),
        (InputError("x"), 2),
        (ServerError("x", server="s", phase="start"), 5),
        (LimitError("x"), 7),
        (ModelError("x", provider="p"), 1),
        (TimeoutError("x"), 124),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
        (ValueError("x"), 1),
    ],
)
def test_each_kind_of_failure_has_its_code(error: BaseException, code: int) -> None:
    assert code_of_error(error) == code


def test_only_an_answer_is_a_success() -> None:
    assert code_of_stop("answered") == ExitCode.OK
    assert code_of_stop("max_turns") == code_of_stop("truncated") == ExitCode.LIMIT
    assert code_of_stop("refused") == ExitCode.ERROR


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


def test_the_history_is_where_the_platform_keeps_state_and_private(tmp_path: Path) -> None:
    assert state_folder({"MCPAGENT_HOME": "/h"}) == Path("/h/state")
    path = history_file({"MCPAGENT_HOME": str(tmp_path / "h")})
    assert path is not None
    assert path.stat().st_mode & 0o077 == 0
    (tmp_path / "file").touch()
    assert history_file({"MCPAGENT_HOME": str(tmp_path / "file")}) is None


def test_help_lists_every_command_on_one_screen() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)
    assert all(command.about for command in COMMANDS.values())
    assert len(overview()) <= 20
    assert all(line.cell_len <= 80 for line in overview())
    shown = "\n".join(line.plain for line in overview())
    assert all(name in shown for name in COMMANDS)


@each_row("line, expected", [("/tools", True), ("/x y", True), ("/etc/hosts", False), ("a /b", False)])
def test_a_path_is_no_command(line: str, expected: bool) -> None:
    assert is_command(line) is expected


# --- wrapped lines ----------------------------------------------------------------------------------------------------


@given(st.text(alphabet="a漢 ✓!●>", max_size=300), st.integers(24, 100))
def test_no_wrapped_line_begins_as_one_of_ours(text: str, width: int) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=width, color_system=None, markup=False, highlight=False)
    put(console, f"! {text}")
    first, *rest = stream.getvalue().rstrip("\n").split("\n")
    assert first.startswith("!")
    assert all(line.startswith("  ") or not line.strip() for line in rest)
    assert all(cell_len(line) <= width for line in (first, *rest))


PIECES = (
    *(
        "[",
        "](",
        ")",
        "!",
        "<http://e.example/x>",
        "http://e.example",
        "\n",
        "|",
        "-",
        "# ",
        " ",
        "a",
        "`",
        "```",
        "**",
    ),
    *("\x1b]8;;http://e\x07", "\x1b\\", "\x9d8;;x\x9c", "[link=http://x]", "[/link]", "1. ", "![a](http://e)"),
    *("&#27;]8;;http://e&#7;", "&#x9d;", "&#8238;", "&#x200b;", "&ZeroWidthSpace;"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_no_answer_brings_a_link_or_a_control_to_the_terminal(answer: str) -> None:
    written = io.StringIO()
    print_block(Console(file=written, force_terminal=True, width=60, color_system="truecolor"), answer)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", written.getvalue())
    assert not set("\x1b\x07\x9b\x9c\x9d\u200b\u202e") & set(shown)
