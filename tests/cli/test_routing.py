"""Which command a typed line is; a single word that is none reaches no model."""

from __future__ import annotations

import pytest

from mcpagent.cli.app import run
from mcpagent.cli.routing import Grammar, UnknownCommandError, route
from tests.tables import each_row

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
        "--server",
        "--help",
        "--resume",
        "-r",
    ],
    value_options=("--model", "-m", "--output", "-o", "--config", "--server", "--resume", "-r"),
    may_be_bare={"--resume": "--resume", "-r": "--resume"},
)


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
        ("models", "mcpagent -m PROVIDER:MODEL?"),
        ("export", "mcpagent sessions export ID?"),
        ("hello", "mcpagent --help"),
        ("-", "mcpagent --help"),
    ],
)
def test_a_single_word_that_is_no_command_is_never_sent_to_a_model(word: str, hint: str) -> None:
    with pytest.raises(UnknownCommandError) as error:
        route([word], GRAMMAR)
    assert hint in str(error.value)
    assert f"mcpagent -p {word}" in str(error.value)


def test_only_a_word_that_is_much_like_a_command_means_it() -> None:
    for typed, message in (
        (["what", "time", "is", "it"], "unknown command \"what\"; a question: mcpagent -p 'what time is it'"),
        (["session", "lst"], "did you mean: mcpagent sessions list? (a question: "),
        (["tols", "show", "a", "b"], "did you mean: mcpagent tools"),
    ):
        with pytest.raises(UnknownCommandError) as error:
            route(typed, GRAMMAR)
        assert message in str(error.value)


def test_a_question_without_quotes_is_repeated_in_quotes() -> None:
    for typed, command in ((["hello", "how", "are", "you?"], "'hello how are you?'"), (["hello", "-q"], "hello)")):
        with pytest.raises(UnknownCommandError) as error:
            route(typed, GRAMMAR)
        assert f"mcpagent -p {command}" in str(error.value)


def test_words_of_other_programs_for_the_commands_of_a_group_are_answered_with_ours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    expected = {
        "mcp rm x": "mcpagent mcp remove",
        "mcp get x": "mcpagent mcp list",
        "mcp restart x": "mcpagent mcp test",
        "sessions delte x": "mcpagent sessions delete",
        "sessions remove x": "mcpagent sessions delete",
        "sessions resume x": "mcpagent --resume ID",
        "tools run x": "mcpagent tools call",
        "tools ls": "mcpagent tools list",
        "permissions remove x": "mcpagent permissions forget",
        "trust remove x": "mcpagent trust revoke",
        "config set model x": "mcpagent config edit",
        "config list": "mcpagent config show",
        "keys unset x": "mcpagent keys remove",
    }
    said = {}
    for typed in expected:
        assert run(typed.split()) == 2
        said[typed] = capsys.readouterr().err.partition("did you mean ")[2].rstrip("?\n")
    assert said == expected
    assert run(["mcp", "xyz"]) == 2
    assert capsys.readouterr().err == "error: no such command: xyz; see mcpagent mcp --help\n"


@each_row(
    "typed, meant",
    [
        ("chat --server slow=python ../slow.py", "slow='python ../slow.py'"),
        ("-p hello --server slow=./run ../slow.py", "slow='./run ../slow.py'"),
        ("--server fs=npx -y @scope/server /tmp --quiet", "fs='npx -y @scope/server /tmp'"),  # -y is --yes here
        ("ask --server npx -y pkg", "NAME='npx -y pkg'"),
        ("--server slow=python slow.py", "slow='python slow.py'"),  # no command either
        ("ask --server slow=./server hello", "slow='./server hello'"),
        ("ask hello --server slow=./server", ""),
        ("ask hello --server slow=./server -m offline", ""),
        ("--server slow=./server -p hello", ""),
        ("tools search --server slow=./server clock", ""),  # the command takes this word
        ("chat --server slow=python", ""),  # an error of its start
        ("chat --server x=http://localhost:1/mcp hello", ""),
        ("mcp add slow -- python --server a=python b", ""),
    ],
)
def test_a_server_whose_command_is_not_quoted_is_one_error_with_the_right_quotes(typed: str, meant: str) -> None:
    if not meant:
        route(typed.split(), GRAMMAR)
        return
    with pytest.raises(UnknownCommandError) as caught:
        route(typed.split(), GRAMMAR)
    assert str(caught.value).endswith(
        f"put its whole command in quotes: --server {meant}; a question goes before --server"
    )


def test_words_that_no_option_and_no_argument_takes_are_the_rest_of_a_servers_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for typed in (
        ["tools", "list", "--server", "fs=npx", "-y", "pkg"],
        ["tools", "call", "--server=fs=npx", "-y", "pkg"],
        ["doctor", "--server", "fs=npx", "pkg"],
    ):
        assert run(typed) == 2
        said = capsys.readouterr().err
        assert "--server fs: words follow npx; put its whole command in quotes: --server fs='npx " in said
    assert run(["tools", "list", "--server", "fs=npx -y pkg", "-x"]) == 2
    assert "no such option" in capsys.readouterr().err
