"""The commands of `mcpagent tools` and their options; the implementation is loaded on demand."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from mcpagent.cli.common import options as opt

tools_app = typer.Typer(
    help="The tools of your servers, and what a search finds.", **opt.PLAIN
)


@opt.command(tools_app, "list", opt.OF_SERVERS)
def tools_list(
    options: opt.Options,
    pattern: Annotated[
        str | None,
        typer.Argument(metavar="FILTER", help="Only tools with these words."),
    ] = None,
) -> int:
    """List every tool of the servers, with the tokens of its definition."""
    from mcpagent.cli.tools_command.tool_commands import list_tools

    return list_tools(options, pattern or "")


@opt.command(tools_app, "show", opt.OF_SERVERS)
def tools_show(
    options: opt.Options,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A tool, with or without its server.")
    ],
) -> int:
    """Show one tool: its description, parameters and cost."""
    from mcpagent.cli.tools_command.tool_commands import show_tool

    return show_tool(options, name)


@opt.command(tools_app, "search", ["search_strategy", "learn", *opt.OF_SERVERS])
def tools_search(
    options: opt.Options,
    query: Annotated[
        list[str], typer.Argument(metavar="QUERY", help="Words or a regex pattern.")
    ],
    limit: Annotated[
        int | None,
        typer.Option(
            "-k",
            "--limit",
            metavar="N",
            min=1,
            max=50,
            help="Tools shown (5, or all named).",
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Report which words matched where."),
    ] = False,
) -> int:
    """Search as the model does, with the same ranking, but without a model. Exit code 1: no match."""
    from mcpagent.cli.tools_command.tool_commands import search_tools

    return search_tools(options, " ".join(query), limit, explain=explain)


examples_app = typer.Typer(
    help="The requests that tools are found by, besides their own texts.", **opt.PLAIN
)
tools_app.add_typer(examples_app, name="examples")
_TOOL = typer.Argument(metavar="TOOL", help="A tool, with or without its server.")


@opt.command(examples_app, "list", opt.OF_SERVERS)
def examples_list(
    options: opt.Options,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="TOOL", help="Only of these tools.")
    ] = None,
) -> int:
    """List the example requests of tools: yours, suggested, shipped and learned ones. Exit code 1: there are none."""
    from mcpagent.cli.tools_command.examples_commands import list_examples

    return list_examples(options, names or ())


@opt.command(examples_app, "add", opt.OF_SERVERS)
def examples_add(
    options: opt.Options,
    name: Annotated[str, _TOOL],
    request: Annotated[
        str,
        typer.Argument(
            metavar="REQUEST", help="What you would say to have this tool used."
        ),
    ],
) -> int:
    """Add an example request to a tool; later searches use it."""
    from mcpagent.cli.tools_command.examples_commands import add_example

    return add_example(options, name, request)


@opt.command(examples_app, "remove", opt.OF_SERVERS)
def examples_remove(
    options: opt.Options,
    name: Annotated[str, _TOOL],
    request: Annotated[
        str | None,
        typer.Argument(metavar="REQUEST", help="Just this one; all without it."),
    ] = None,
) -> int:
    """Remove example requests of a tool, except shipped ones. Exit code 1: there were none."""
    from mcpagent.cli.tools_command.examples_commands import remove_examples

    return remove_examples(options, name, request)


@opt.command(examples_app, "suggest", ["model", *opt.OF_SERVERS])
def examples_suggest(
    options: opt.Options,
    servers: Annotated[
        list[str] | None,
        typer.Argument(metavar="SERVER", help="Only tools of these servers."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask the model without a question.")
    ] = False,
    again: Annotated[
        bool,
        typer.Option("--replace", help="Also for tools that have such requests."),
    ] = False,
) -> int:
    """Let the model write example requests for each tool, once, after showing you the cost."""
    from mcpagent.cli.tools_command.examples_commands import suggest_examples

    return suggest_examples(options, servers or (), yes=yes, again=again)


@opt.command(tools_app, "learned", opt.REPORT)
def tools_learned(
    options: opt.Options,
    clear: Annotated[
        Literal["clear"] | None,
        typer.Argument(metavar="[clear]", help="clear: forget all of it."),
    ] = None,
) -> int:
    """Show the records of learn=true: the tools that were added and called after each query."""
    from mcpagent.cli.tools_command.tool_commands import show_learned

    return show_learned(options, clear=clear is not None)


@opt.command(
    tools_app,
    "call",
    [
        "timeout",
        "config",
        "server",
        "openapi",
        "trust_project",
        "trust_changes",
        *opt.REPORT,
    ],
)
def tools_call(
    options: opt.Options,
    name: Annotated[str, typer.Argument(metavar="SERVER.TOOL", help="The tool.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=TEXT|NAME:=JSON",
            help="Its arguments, or all of them as one JSON object; - reads that from stdin.",
        ),
    ] = None,
) -> int:
    """Call one tool without a model and without asking for approval. Exit code 1: the tool failed."""
    from mcpagent.cli.oneshot.prompts import piped_text
    from mcpagent.cli.tools_command.tool_commands import call_tool

    whole = None
    if arguments == ["-"]:
        whole = piped_text(lambda line: print(line, file=sys.stderr), options.timeout)  # noqa: T201 - its one line
    elif arguments and arguments[0].lstrip().startswith("{"):
        arguments, whole = arguments[1:], arguments[0]
    if arguments == ["-"]:
        arguments = []
    return call_tool(options, name, arguments or (), whole)


@opt.command(tools_app, "tokens", opt.OF_SERVERS)
def tools_tokens(
    options: opt.Options,
    by: Annotated[
        opt.TokensBy,
        typer.Argument(metavar=opt.one_of(opt.TokensBy), help="The unit of the sums."),
    ] = "server",
    top: Annotated[
        int, typer.Option("--limit", "-k", metavar="N", min=1, help="Lines shown.")
    ] = 20,
) -> int:
    """Show the cost of the definitions in each request, with and without tool search."""
    from mcpagent.cli.tools_command.tool_commands import count_tokens

    return count_tokens(replace(options, tool_search="on"), by, top)


@opt.command(tools_app, "lint", opt.OF_SERVERS)
def tools_lint(options: opt.Options) -> int:
    """List descriptions that keep a model from finding or using a tool. Exit code 1: there are some."""
    from mcpagent.cli.tools_command.tool_commands import lint_tools

    return lint_tools(options)


@opt.command(tools_app, "eval", ["search_strategy", *opt.OF_SERVERS])
def tools_eval(
    options: opt.Options,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help='JSON lines or a list of {"query": "...", "tools": ["server.tool", ...]}.',
        ),
    ],
    limit: Annotated[
        int,
        typer.Option(
            "-k", "--limit", metavar="N", min=1, max=50, help="Places that count."
        ),
    ] = 5,
    least: Annotated[
        float,
        typer.Argument(
            metavar="SHARE",
            min=0,
            max=1,
            help="Exit code 1 if the recall is lower, such as 0.8.",
        ),
    ] = 0.0,
) -> int:
    """Measure the recall of your own queries: how often the search finds the expected tools."""
    from mcpagent.cli.tools_command.tool_commands import evaluate_search

    return evaluate_search(options, file, limit, least)
