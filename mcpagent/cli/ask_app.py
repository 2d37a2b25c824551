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


def add_commands(app: typer.Typer) -> None:
    """Puts the commands that stand by themselves into `app`, in the order of the help page."""
    for command in (ask, chat, demo):
        app.command()(command)


def ask(
    prompt: Prompt = None,
    files: Files = None,
    model: opt.Model = None,
    output: Output = opt.OutputFormat.text,
    json: Annotated[bool, typer.Option("--json", envvar="MCPAGENT_JSON", help="The same as --output json.")] = False,
    card: opt.Card = None,
    config: opt.Config = None,
    server: opt.Server = None,
    tool_search: opt.ToolSearchOption = opt.ToolSearchMode.auto,
    search_strategy: opt.SearchStrategyOption = opt.SearchStrategy.auto,
    always_load: opt.AlwaysLoad = None,
    learn: opt.Learn = False,
    approve: opt.Approve = opt.ApproveMode.ask,
    yes: opt.Yes = False,
    allow: opt.Allow = None,
    deny: opt.Deny = None,
    denied_ok: opt.DeniedOk = False,
    trust_changes: opt.TrustChanges = False,
    trust_project: opt.TrustProject = False,
    max_turns: opt.MaxTurns = 100,
    max_tokens: opt.MaxTokens = None,
    max_cost: opt.MaxCost = None,
    json_schema: opt.JsonSchema = None,
    estimate: opt.EstimateOnly = False,
    record: opt.Record = None,
    replay: opt.Replay = None,
    timeout: opt.Timeout = None,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
    print_: Print = False,  # noqa: ARG001 - routing has read it
) -> int:
    """One answer and exit; the same as -p. What is piped in is added to the question, or is the question."""
    options = opt.Options(
        model=model,
        card=card,
        config=tuple(config or ()),
        server=opt.servers_asked_for(server, os.environ),
        tool_search=tool_search,
        search_strategy=search_strategy,
        always_load=tuple(always_load or ()),
        learn=learn,
        approve=opt.ApproveMode.all if yes else approve,
        allow=tuple(allow or ()),
        deny=tuple(deny or ()),
        denied_ok=denied_ok,
        trust_changes=trust_changes,
        trust_project=trust_project,
        max_turns=max_turns,
        max_tokens=max_tokens,
        max_cost=max_cost,
        json_schema=json_schema,
        estimate=estimate,
        record=record,
        replay=replay,
        timeout=timeout,
        output=opt.OutputFormat.json if json else output,
        quiet=quiet,
        verbose=verbose,
        debug=debug,
        color=color,
    )
    return _answer(options, prompt or "", files or ())


def chat(
    model: opt.Model = None,
    card: opt.Card = None,
    config: opt.Config = None,
    server: opt.Server = None,
    tool_search: opt.ToolSearchOption = opt.ToolSearchMode.auto,
    search_strategy: opt.SearchStrategyOption = opt.SearchStrategy.auto,
    always_load: opt.AlwaysLoad = None,
    learn: opt.Learn = False,
    approve: opt.Approve = opt.ApproveMode.ask,
    yes: opt.Yes = False,
    allow: opt.Allow = None,
    deny: opt.Deny = None,
    trust_changes: opt.TrustChanges = False,
    trust_project: opt.TrustProject = False,
    max_turns: opt.MaxTurns = 100,
    record: opt.Record = None,
    replay: opt.Replay = None,
    timeout: opt.Timeout = None,
    status_line: opt.StatusLine = "",
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """Talk to the agent in the terminal. Where stdin is no terminal, what is piped in is asked once."""
    from mcpagent.cli.terminal import is_a_terminal, open_terminal

    options = opt.Options(
        model=model,
        card=card,
        config=tuple(config or ()),
        server=opt.servers_asked_for(server, os.environ),
        tool_search=tool_search,
        search_strategy=search_strategy,
        always_load=tuple(always_load or ()),
        learn=learn,
        approve=opt.ApproveMode.all if yes else approve,
        allow=tuple(allow or ()),
        deny=tuple(deny or ()),
        trust_changes=trust_changes,
        trust_project=trust_project,
        max_turns=max_turns,
        record=record,
        replay=replay,
        timeout=timeout,
        status_line=status_line,
        quiet=quiet,
        verbose=verbose,
        debug=debug,
        color=color,
    )
    if not is_a_terminal(sys.stdin):
        return _answer(options, "", ())
    from mcpagent.cli.chat import run_chat
    from mcpagent.cli.first_steps import first_steps

    terminal = open_terminal(color, os.environ)
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


def demo(
    model: opt.Model = None,
    search_strategy: opt.SearchStrategyOption = opt.SearchStrategy.auto,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """See how tool search works: a real conversation over the bundled server, what the model saw, what it cost."""
    from mcpagent.cli.demo import run_demo
    from mcpagent.cli.terminal import open_terminal

    return run_demo(
        opt.Options(model=model, search_strategy=search_strategy, debug=debug, color=color),
        open_terminal(color, os.environ),
    )
