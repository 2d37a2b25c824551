"""`mcpagent ask|chat|demo`: their options. Each only gathers values; what it does is loaded when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from mcpagent.cli import options as opt

Prompt = Annotated[
    str | None, typer.Argument(metavar="PROMPT", show_default=False, help="The question; without it stdin is.")
]
Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILES", show_default=False, help="Files that are added to the question."),
]
Print = Annotated[bool, typer.Option("--print", "-p", hidden=True)]
Output = Annotated[
    opt.OutputFormat,
    typer.Option("--output", "-o", envvar="MCPAGENT_OUTPUT", help="What stdout holds."),
]
Json = Annotated[bool, typer.Option("--json", envvar="MCPAGENT_JSON", help="The same as --output json.")]


def add_commands(app: typer.Typer) -> None:
    """Puts the commands that stand by themselves into `app`, in the order of the help page."""
    for command in (ask, chat, demo):
        app.command()(command)


@opt.taking(
    "model",
    *opt.CATALOGUE,
    *opt.RULES,
    "denied_ok",
    "trust_changes",
    "trust_project",
    "max_turns",
    "max_tokens",
    "max_cost",
    "json_schema",
    "estimate",
    "record",
    "replay",
    "timeout",
    "quiet",
    "verbose",
    "debug",
    "color",
    output=Output,
    json=Json,
)
def ask(
    options: opt.Options,
    prompt: Prompt = None,
    files: Files = None,
    print_: Print = False,  # noqa: ARG001 - routing has read it
) -> int:
    """One answer and exit; the same as -p. What is piped in is added to the question, or is the question."""
    return _answer(options, prompt or "", files or ())


@opt.taking(
    "model",
    *opt.CATALOGUE,
    *opt.RULES,
    "trust_changes",
    "trust_project",
    "max_turns",
    "record",
    "replay",
    "timeout",
    "status_line",
    "quiet",
    "verbose",
    "debug",
    "color",
)
def chat(options: opt.Options) -> int:
    """Talk to the agent in the terminal. Where stdin is no terminal, what is piped in is asked once."""
    from mcpagent.cli.terminal import is_a_terminal, open_terminal

    if not is_a_terminal(sys.stdin):
        return _answer(options, "", ())
    from mcpagent.cli.chat import run_chat
    from mcpagent.cli.first_steps import first_steps

    terminal = open_terminal(options.color, os.environ)
    return run_chat(first_steps(options, terminal), terminal)


def _answer(options: opt.Options, prompt: str, files: Sequence[Path]) -> int:
    """One answer to the question, the files and what is piped in."""
    from mcpagent.cli.headless import ask_once
    from mcpagent.cli.prompts import joined_prompt, piped_text
    from mcpagent.cli.terminal import open_terminal

    terminal = open_terminal(options.color, os.environ)
    piped = piped_text(lambda line: terminal.err.print(line, style="dim"), options.timeout)
    if options.replay is not None and not (prompt or files or piped):
        return ask_once(options, "", terminal)  # what was asked is in the recording
    return ask_once(options, joined_prompt(prompt, files, piped), terminal)


@opt.taking("model", "search_strategy", "debug", "color")
def demo(options: opt.Options) -> int:
    """See how tool search works: a real conversation over the bundled server, what the model saw, what it cost."""
    from mcpagent.cli.demo import run_demo
    from mcpagent.cli.terminal import open_terminal

    return run_demo(options, open_terminal(options.color, os.environ))
