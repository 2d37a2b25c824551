"""`mcpagent tools`: commands and their options. Each only gathers values; what it does is loaded when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from mcpagent.cli import options as opt

tools_app = click.Group("tools", help="The tools of your servers, and what a search finds.")


@tools_app.command("list")
@click.argument("pattern", required=False, metavar="FILTER", help="Only tools with these words.")
@opt.of_servers
def tools_list(pattern: str | None, **given: Any) -> int:
    """Every tool of the servers, with what its definition costs in tokens."""
    from mcpagent.cli.tool_commands import list_tools

    return list_tools(opt.options_of(given), pattern or "")


@tools_app.command("show")
@click.argument("name", metavar="NAME", help="A tool, with or without its server.")
@opt.of_servers
def tools_show(name: str, **given: Any) -> int:
    """One tool: its description, parameters and cost."""
    from mcpagent.cli.tool_commands import show_tool

    return show_tool(opt.options_of(given), name)


@tools_app.command("search")
@click.argument("query", nargs=-1, required=True, metavar="QUERY", help="Words or a regex pattern.")
@click.option("-k", "--limit", metavar="N", type=click.IntRange(1, 50), default=5, help="Tools shown.")
@click.option("--explain", is_flag=True, help="Tell which words matched where.")
@opt.search_strategy
@opt.learn
@opt.of_servers
def tools_search(query: tuple[str, ...], limit: int, explain: bool, **given: Any) -> int:
    """What the model would find with this query: exactly its ranking, without a model. Exit code 1: nothing."""
    from mcpagent.cli.tool_commands import search_tools

    return search_tools(opt.options_of(given), " ".join(query), limit, explain=explain)


@tools_app.command("learned")
@click.option("--clear", is_flag=True, help="Forget all of it.")
@opt.report
def tools_learned(clear: bool, **given: Any) -> int:
    """What tool search has learned with --learn: which tools were added and called after which queries."""
    from mcpagent.cli.tool_commands import show_learned

    return show_learned(opt.options_of(given), clear=clear)


@tools_app.command("call")
@click.argument("name", metavar="SERVER.TOOL", help="The tool.")
@click.argument("arguments", nargs=-1, metavar="NAME=TEXT|NAME:=JSON", help="Its arguments.")
@click.option("--input", "whole", metavar="JSON", help="All arguments as one JSON object; - reads it from stdin.")
@opt.timeout
@opt.config
@opt.server
@opt.trust_project
@opt.report
def tools_call(name: str, arguments: tuple[str, ...], whole: str | None, **given: Any) -> int:
    """Calls one tool, without a model; nobody is asked for approval. Exit code 1: the tool failed."""
    from mcpagent.cli.prompts import piped_text
    from mcpagent.cli.tool_commands import call_tool

    options = opt.options_of(given)
    if whole == "-":
        whole = piped_text(lambda line: print(line, file=sys.stderr), options.timeout)  # noqa: T201 - the line it tells
    return call_tool(options, name, arguments, whole)


@tools_app.command("tokens")
@click.option("--by", type=opt.Member(opt.TokensBy), default=opt.TokensBy.server, help="What is summed up.")
@click.option("--top", metavar="N", type=click.IntRange(1), default=20, help="Lines shown.")
@opt.of_servers
def tools_tokens(by: opt.TokensBy, top: int, **given: Any) -> int:
    """What the definitions cost in each request, and what tool search makes of it."""
    from mcpagent.cli.tool_commands import count_tokens

    return count_tokens(opt.options_of(given), by, top)


@tools_app.command("lint")
@opt.of_servers
def tools_lint(**given: Any) -> int:
    """Descriptions that keep a model from finding or using a tool. Exit code 1: there are some."""
    from mcpagent.cli.tool_commands import lint_tools

    return lint_tools(opt.options_of(given))


@tools_app.command("eval")
@click.argument(
    "file",
    type=opt.FILE,
    metavar="FILE",
    help='JSON lines or a list of {"query": "...", "tools": ["server.tool", ...]}.',
)
@click.option("-k", "--limit", metavar="N", type=click.IntRange(1, 50), default=5, help="Places that count.")
@click.option(
    "--min",
    "least",
    metavar="SHARE",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Exit code 1 where the recall is lower.",
)
@opt.search_strategy
@opt.of_servers
def tools_eval(file: Path, limit: int, least: float, **given: Any) -> int:
    """How often the search finds the tools that your own queries should find: the recall."""
    from mcpagent.cli.tool_commands import evaluate_search

    return evaluate_search(opt.options_of(given), file, limit, least)
