"""`mcpagent ask|chat|demo`: their options. Each only gathers values; what it does is loaded when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mcpagent.cli import options as opt

catalogue = opt.together(
    opt.card, opt.config, opt.server, opt.tool_search, opt.search_strategy, opt.always_load, opt.learn
)
rules = opt.together(opt.approve, opt.yes, opt.allow, opt.deny)


@click.command()
@click.argument("prompt", required=False, metavar="PROMPT", help="The question; without it stdin is.")
@click.argument("files", nargs=-1, type=opt.FILE, metavar="FILES", help="Files that are added to the question.")
@opt.model
@click.option(
    "--output",
    "-o",
    envvar="MCPAGENT_OUTPUT",
    help="What stdout holds.",
    type=opt.Member(opt.OutputFormat),
    default=opt.OutputFormat.text,
)
@click.option("--json", envvar="MCPAGENT_JSON", help="The same as --output json.", is_flag=True)
@catalogue
@rules
@opt.denied_ok
@opt.trust_changes
@opt.trust_project
@opt.max_turns
@opt.max_tokens
@opt.max_cost
@opt.json_schema
@opt.estimate
@opt.record
@opt.replay
@opt.timeout
@opt.quiet
@opt.verbose
@opt.debug
@opt.color
@click.option("--print", "-p", is_flag=True, hidden=True, expose_value=False)  # routing has read it
def ask(prompt: str | None, files: tuple[Path, ...], **given: Any) -> int:
    """One answer and exit; the same as -p. What is piped in is added to the question, or is the question."""
    return _answer(opt.options_of(given), prompt or "", files)


@click.command()
@opt.model
@catalogue
@rules
@opt.trust_changes
@opt.trust_project
@opt.max_turns
@opt.record
@opt.replay
@opt.timeout
@opt.status_line
@opt.quiet
@opt.verbose
@opt.debug
@opt.color
def chat(**given: Any) -> int:
    """Talk to the agent in the terminal. Where stdin is no terminal, what is piped in is asked once."""
    from mcpagent.cli.terminal import is_a_terminal, open_terminal

    options = opt.options_of(given)
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


@click.command()
@opt.model
@opt.search_strategy
@opt.debug
@opt.color
def demo(**given: Any) -> int:
    """See how tool search works: a real conversation over the bundled server, what the model saw, what it cost."""
    from mcpagent.cli.demo import run_demo
    from mcpagent.cli.terminal import open_terminal

    options = opt.options_of(given)
    return run_demo(options, open_terminal(options.color, os.environ))
