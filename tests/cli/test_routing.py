"""Which command a typed line is; a single word that is none reaches no model."""

from __future__ import annotations

import pytest

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
        "--help",
        "--resume",
        "-r",
    ],
    value_options=("--model", "-m", "--output", "-o", "--config", "--resume", "-r"),
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
        ("hello", "mcpagent --help"),
        ("-", "mcpagent --help"),
    ],
)
def test_a_single_word_that_is_no_command_is_never_sent_to_a_model(word: str, hint: str) -> None:
    with pytest.raises(UnknownCommandError) as error:
        route([word], GRAMMAR)
    assert hint in str(error.value)
    assert f"mcpagent -p {word}" in str(error.value)
