"""`mcpagent tools`: commands and their options. Each only gathers values; what it does is loaded when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mcpagent.cli import options as opt

tools_app = typer.Typer(help="The tools of your servers, and what a search finds.", **opt.PLAIN)


@tools_app.command("list")
@opt.taking(*opt.OF_SERVERS)
def tools_list(
    options: opt.Options,
    pattern: Annotated[
        str | None, typer.Argument(metavar="FILTER", show_default=False, help="Only tools with these words.")
    ] = None,
) -> int:
    """Every tool of the servers, with what its definition costs in tokens."""
    from mcpagent.cli.tool_commands import list_tools

    return list_tools(options, pattern or "")


@tools_app.command("show")
@opt.taking(*opt.OF_SERVERS)
def tools_show(
    options: opt.Options,
    name: Annotated[
        str, typer.Argument(metavar="NAME", show_default=False, help="A tool, with or without its server.")
    ],
) -> int:
    """One tool: its description, parameters and cost."""
    from mcpagent.cli.tool_commands import show_tool

    return show_tool(options, name)


@tools_app.command("search")
@opt.taking("search_strategy", "learn", *opt.OF_SERVERS)
def tools_search(
    options: opt.Options,
    query: Annotated[list[str], typer.Argument(metavar="QUERY", show_default=False, help="Words or a regex pattern.")],
    limit: Annotated[int, typer.Option("-k", "--limit", metavar="N", min=1, max=50, help="Tools shown.")] = 5,
    explain: Annotated[bool, typer.Option("--explain", help="Tell which words matched where.")] = False,
) -> int:
    """What the model would find with this query: exactly its ranking, without a model. Exit code 1: nothing."""
    from mcpagent.cli.tool_commands import search_tools

    return search_tools(options, " ".join(query), limit, explain=explain)


@tools_app.command("learned")
@opt.taking(*opt.REPORT)
def tools_learned(
    options: opt.Options,
    clear: Annotated[bool, typer.Option("--clear", help="Forget all of it.")] = False,
) -> int:
    """What tool search has learned with --learn: which tools were added and called after which queries."""
    from mcpagent.cli.tool_commands import show_learned

    return show_learned(options, clear=clear)


@tools_app.command("call")
@opt.taking("timeout", "config", "server", "trust_project", *opt.REPORT)
def tools_call(
    options: opt.Options,
    name: Annotated[str, typer.Argument(metavar="SERVER.TOOL", show_default=False, help="The tool.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=TEXT|NAME:=JSON", show_default=False, help="Its arguments."),
    ] = None,
    whole: Annotated[
        str | None,
        typer.Option("--input", metavar="JSON", help="All arguments as one JSON object; - reads it from stdin."),
    ] = None,
) -> int:
    """Calls one tool, without a model; nobody is asked for approval. Exit code 1: the tool failed."""
    from mcpagent.cli.prompts import piped_text
    from mcpagent.cli.tool_commands import call_tool

    if whole == "-":
        whole = piped_text(lambda line: print(line, file=sys.stderr), options.timeout)  # noqa: T201 - the one line it tells
    return call_tool(options, name, arguments or (), whole)


@tools_app.command("tokens")
@opt.taking(*opt.OF_SERVERS)
def tools_tokens(
    options: opt.Options,
    by: Annotated[opt.TokensBy, typer.Option("--by", help="What is summed up.")] = opt.TokensBy.server,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Lines shown.")] = 20,
) -> int:
    """What the definitions cost in each request, and what tool search makes of it."""
    from mcpagent.cli.tool_commands import count_tokens

    return count_tokens(options, by, top)


@tools_app.command("lint")
@opt.taking(*opt.OF_SERVERS)
def tools_lint(options: opt.Options) -> int:
    """Descriptions that keep a model from finding or using a tool. Exit code 1: there are some."""
    from mcpagent.cli.tool_commands import lint_tools

    return lint_tools(options)


@tools_app.command("eval")
@opt.taking("search_strategy", *opt.OF_SERVERS)
def tools_eval(
    options: opt.Options,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help='JSON lines or a list of {"query": "...", "tools": ["server.tool", ...]}.',
        ),
    ],
    limit: Annotated[int, typer.Option("-k", "--limit", metavar="N", min=1, max=50, help="Places that count.")] = 5,
    least: Annotated[
        float, typer.Option("--min", metavar="SHARE", min=0, max=1, help="Exit code 1 where the recall is lower.")
    ] = 0.0,
) -> int:
    """How often the search finds the tools that your own queries should find: the recall."""
    from mcpagent.cli.tool_commands import evaluate_search

    return evaluate_search(options, file, limit, least)
