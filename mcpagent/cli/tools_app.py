"""`mcpagent tools`: commands and their options. Each only gathers values; what it does is loaded when it runs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from mcpagent.cli import options as opt

tools_app = typer.Typer(help="The tools of your servers, and what a search finds.", **opt.PLAIN)


@tools_app.command("list")
def tools_list(
    pattern: Annotated[
        str | None, typer.Argument(metavar="FILTER", show_default=False, help="Only tools with these words.")
    ] = None,
    config: opt.Config = None,
    server: opt.Server = None,
    trust_project: opt.TrustProject = False,
    refresh: opt.Refresh = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """Every tool of the servers, with what its definition costs in tokens."""
    from mcpagent.cli.tool_commands import list_tools

    options = opt.server_options(config, server, json, debug, color, refresh=refresh, trust_project=trust_project)
    return list_tools(options, pattern or "")


@tools_app.command("show")
def tools_show(
    name: Annotated[
        str, typer.Argument(metavar="NAME", show_default=False, help="A tool, with or without its server.")
    ],
    config: opt.Config = None,
    server: opt.Server = None,
    trust_project: opt.TrustProject = False,
    refresh: opt.Refresh = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """One tool: its description, parameters and cost."""
    from mcpagent.cli.tool_commands import show_tool

    options = opt.server_options(config, server, json, debug, color, refresh=refresh, trust_project=trust_project)
    return show_tool(options, name)


@tools_app.command("search")
def tools_search(
    query: Annotated[list[str], typer.Argument(metavar="QUERY", show_default=False, help="Words or a regex pattern.")],
    limit: Annotated[int, typer.Option("-k", "--limit", metavar="N", min=1, max=50, help="Tools shown.")] = 5,
    explain: Annotated[bool, typer.Option("--explain", help="Tell which words matched where.")] = False,
    search_strategy: opt.SearchStrategyOption = opt.SearchStrategy.auto,
    learn: opt.Learn = False,
    config: opt.Config = None,
    server: opt.Server = None,
    trust_project: opt.TrustProject = False,
    refresh: opt.Refresh = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """What the model would find with this query: exactly its ranking, without a model. Exit code 1: nothing."""
    from mcpagent.cli.tool_commands import search_tools

    options = opt.server_options(
        config,
        server,
        json,
        debug,
        color,
        refresh=refresh,
        trust_project=trust_project,
        search_strategy=search_strategy,
        learn=learn,
    )
    return search_tools(options, " ".join(query), limit, explain=explain)


@tools_app.command("learned")
def tools_learned(
    clear: Annotated[bool, typer.Option("--clear", help="Forget all of it.")] = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """What tool search has learned with --learn: which tools were added and called after which queries."""
    from mcpagent.cli.tool_commands import show_learned

    return show_learned(opt.server_options(None, None, json, debug, color), clear=clear)


@tools_app.command("call")
def tools_call(
    name: Annotated[str, typer.Argument(metavar="SERVER.TOOL", show_default=False, help="The tool.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=TEXT|NAME:=JSON", show_default=False, help="Its arguments."),
    ] = None,
    whole: Annotated[
        str | None,
        typer.Option("--input", metavar="JSON", help="All arguments as one JSON object; - reads it from stdin."),
    ] = None,
    timeout: opt.Timeout = None,
    config: opt.Config = None,
    server: opt.Server = None,
    trust_project: opt.TrustProject = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """Calls one tool, without a model; nobody is asked for approval. Exit code 1: the tool failed."""
    from mcpagent.cli.prompts import piped_text
    from mcpagent.cli.tool_commands import call_tool

    options = replace(
        opt.server_options(config, server, json, debug, color, trust_project=trust_project), timeout=timeout
    )
    if whole == "-":
        whole = piped_text(lambda line: print(line, file=sys.stderr), timeout)  # noqa: T201 - the one line it tells
    return call_tool(options, name, arguments or (), whole)


@tools_app.command("tokens")
def tools_tokens(
    by: Annotated[opt.TokensBy, typer.Option("--by", help="What is summed up.")] = opt.TokensBy.server,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Lines shown.")] = 20,
    config: opt.Config = None,
    server: opt.Server = None,
    trust_project: opt.TrustProject = False,
    refresh: opt.Refresh = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """What the definitions cost in each request, and what tool search makes of it."""
    from mcpagent.cli.tool_commands import count_tokens

    options = opt.server_options(config, server, json, debug, color, refresh=refresh, trust_project=trust_project)
    return count_tokens(options, by, top)


@tools_app.command("lint")
def tools_lint(
    config: opt.Config = None,
    server: opt.Server = None,
    trust_project: opt.TrustProject = False,
    refresh: opt.Refresh = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """Descriptions that keep a model from finding or using a tool. Exit code 1: there are some."""
    from mcpagent.cli.tool_commands import lint_tools

    options = opt.server_options(config, server, json, debug, color, refresh=refresh, trust_project=trust_project)
    return lint_tools(options)


@tools_app.command("eval")
def tools_eval(
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
    search_strategy: opt.SearchStrategyOption = opt.SearchStrategy.auto,
    config: opt.Config = None,
    server: opt.Server = None,
    trust_project: opt.TrustProject = False,
    refresh: opt.Refresh = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """How often the search finds the tools that your own queries should find: the recall."""
    from mcpagent.cli.tool_commands import evaluate_search

    options = opt.server_options(
        config,
        server,
        json,
        debug,
        color,
        refresh=refresh,
        trust_project=trust_project,
        search_strategy=search_strategy,
    )
    return evaluate_search(options, file, limit, least)
