"""The help pages name every command and explain every option."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from mcpagent.cli.app import command_line, run
from mcpagent.cli.common.options import flags_of, leaves, options_in
from mcpagent.cli.help import TOP_LEVEL_HELP
from mcpagent.cli.help_pages import GRANTS, command_page
from tests.terminal.warm import on_a_terminal


def test_the_help_page_names_every_command_and_fits_on_a_screen() -> None:
    commands = command_line().commands
    for name, command in commands.items():
        subcommands = "|".join(getattr(command, "commands", ()))
        assert re.search(rf"^  {name}\b.*{re.escape(subcommands)}", TOP_LEVEL_HELP, re.MULTILINE), name
    assert len(TOP_LEVEL_HELP.splitlines()) <= 40
    assert max(map(len, TOP_LEVEL_HELP.splitlines())) <= 100


def test_every_option_is_explained_by_help_all() -> None:
    for path, command in leaves(command_line()):
        name = " ".join(path)
        page = command_page(command, f"mcpagent {name}", 80, whole=True)
        for param in command.params:
            if not getattr(param, "hidden", False):
                assert param.help, (name, param.name)
                first = [*param.opts, *param.secondary_opts][0]
                assert first.removeprefix("--set ") in page or param.metavar in page, (name, param.name)
        assert max(map(len, page.splitlines())) <= 80, name


def test_a_help_page_fits_on_a_screen_with_the_ten_options_people_use() -> None:
    for path, command in leaves(command_line()):
        page = command_page(command, " ".join(("mcpagent", *path)), 80, whole=False)
        shown = re.findall(r"^  (?:-\w, )*--", page, re.MULTILINE)
        assert len(page.splitlines()) <= 40, path
        assert len(shown) <= 10, (path, shown)
    for name, group in command_line().commands.items():
        if hasattr(group, "commands"):
            assert len(command_page(group, f"mcpagent {name}", 80, whole=False).splitlines()) <= 40, name


def test_the_commands_have_at_most_55_flags() -> None:
    of_options = {flag for _, leaf in leaves(command_line()) for item in options_in(leaf) for flag in flags_of(item)}
    flags = {flag for flag in of_options if flag.startswith("--")} | {"--help", "--help-all", "--version"}
    assert len(flags) <= 55, sorted(flags)


def test_help_all_prints_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help", "all"], ["--help-all"], ["help", "all"], ["-h", "all"]):
        assert run(arguments) == 0
        page = capsys.readouterr().out
        assert "  --trust-changes" in page, arguments
        assert "  max_calls=N" in page, arguments
    for arguments in (["chat", "--help", "all"], ["chat", "--help-all"], ["--help", "all", "chat"]):
        assert run(arguments) == 0
        page = capsys.readouterr().out
        assert page.startswith("Usage: mcpagent chat"), arguments
        assert "  max_calls=N" in page, arguments
    assert run(["tools", "examples", "add", "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: mcpagent tools examples add")


@pytest.mark.slow
def test_a_suggestion_never_names_a_flag_that_grants(capsys: pytest.CaptureFixture[str]) -> None:
    for granting in sorted(GRANTS):
        for mistyped in (f"{granting}s", granting[:-1], granting.replace("-", "", 2), f"--{granting[3:]}"):
            if mistyped != "--trust":
                run(["chat", mistyped])
                suggested = capsys.readouterr().err.partition("did you mean")[2]
                assert not GRANTS.intersection(re.findall(r"--[a-z-]+", suggested)), mistyped


def test_a_flag_of_another_program_is_answered_with_the_flag_here(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {
        "--system-prompt": "did you mean --system?",
        "--append-system-prompt": "did you mean --append-system?",
        "--mcp-config": "did you mean --config?",
        "--effort": "did you mean --set thinking=high?",
        "--temperature": "did you mean --set temperature=0?",
        "--max-calls": "write --set max_calls=VALUE",
        "--modle": "did you mean --model",
        "--verison": "did you mean --version",
        "--xyzzy": "see mcpagent chat --help",
    }
    for flag, expected in rows.items():
        assert run(["chat", flag]) == 2
        assert expected in capsys.readouterr().err, flag


def test_a_setting_is_read_from_set(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {
        "max_calls=0": "'--set max_calls'",
        "max-calls=0": "'--set max_calls'",
        "learn=maybe": "'--set learn'",
        "search_strategy=best": "'--set search_strategy'",
        "max_call=3": "is not known",
    }
    for setting, expected in rows.items():
        assert run(["ask", "hello there", "-m", "offline", "--set", setting]) in (2, 3)
        assert expected in capsys.readouterr().err, setting
    assert run(["sessions", "list", "--set", "temperature=0"]) == 2
    assert "takes session_db" in capsys.readouterr().err


def test_one_conversation_is_named_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["-c", "-r", "x"], ["-p", "hi", "-c", "-r", "x"], ["-p", "hi", "-r", "x", "--session", "y"]):
        assert run(arguments) == 2
        assert "name two conversations" in capsys.readouterr().err, arguments


@pytest.mark.skipif(sys.platform == "win32", reason="written for POSIX terminals")
def test_the_help_page_breaks_at_words_on_a_narrow_terminal(tmp_path: Path) -> None:
    for arguments in (["--help"], ["--help", "all"]):
        with on_a_terminal(arguments, tmp_path, columns=60) as screen:
            assert screen.exit_code() == 0
        lines = screen.text.splitlines()
        assert all(len(line) <= 60 for line in lines if max(map(len, line.split()), default=0) < 52)
        assert [word for line in lines for word in line.split()][
            : len(TOP_LEVEL_HELP.split())
        ] == TOP_LEVEL_HELP.split()
