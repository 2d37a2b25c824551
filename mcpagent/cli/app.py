"""The commands and their options. Each function only gathers values; what it does is loaded when it runs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from mcpagent.cli import options as opt
from mcpagent.cli.exit_codes import ExitCode, code_of_error
from mcpagent.cli.failures import report_error, report_exception
from mcpagent.cli.help import MAX_WIDTH, TOP_LEVEL_HELP, command_help
from mcpagent.cli.routing import Grammar, UnknownCommandError, route
from mcpagent.errors import McpAgentError

_PLAIN: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}

app = typer.Typer(name="mcpagent", **_PLAIN)
tools_app = typer.Typer(help="The tools of your servers, and what a search finds.", **_PLAIN)
mcp_app = typer.Typer(help="Your MCP servers.", **_PLAIN)
cards_app = typer.Typer(help="Agent cards.", **_PLAIN)
app.add_typer(tools_app, name="tools")
app.add_typer(mcp_app, name="mcp")
app.add_typer(cards_app, name="cards")


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and gives its exit code; whatever goes wrong has been said in one line on stderr."""
    debug = "--debug" in arguments or os.environ.get("MCPAGENT_DEBUG", "") not in ("", "0", "false")
    _set_up_logging(debug=debug)
    try:
        code = _dispatch(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _end_of_pipe()
    except Exception as error:  # noqa: BLE001 - the top: nothing may reach the user as a traceback
        return _report(error, debug=debug)


def command_line() -> Any:
    """The whole command as typer's own object, for whoever writes documentation from it."""
    return typer.main.get_command(app)


def _dispatch(arguments: Sequence[str]) -> int:
    command = command_line()
    routed = route(arguments, _grammar(command))
    if _asks_for_help(routed):
        sys.stdout.write(_help_page(command, routed))
        return ExitCode.OK
    result = command.main(routed, prog_name="mcpagent", standalone_mode=False)
    return int(result or 0)


def _asks_for_help(routed: Sequence[str]) -> bool:
    own = routed[: routed.index("--")] if "--" in routed else routed
    return "--help" in own or "-h" in own


def _help_page(command: Any, routed: Sequence[str]) -> str:
    """The page of the command that the words name; typer would read the options before it shows its own."""
    path = ["mcpagent"]
    for word in routed[:2]:
        if word not in getattr(command, "commands", ()):
            break
        command = command.commands[word]
        path.append(word)
    if path == ["mcpagent"]:
        return TOP_LEVEL_HELP
    return command_help(command, " ".join(path), shutil.get_terminal_size((MAX_WIDTH, 24)).columns)


def _grammar(command: Any) -> Grammar:
    commands: dict[str, Any] = command.commands
    groups = {name: item for name, item in commands.items() if hasattr(item, "commands")}
    leaves = [item for name, item in commands.items() if name not in groups]
    leaves += [item for group in groups.values() for item in group.commands.values()]
    options = [param for leaf in leaves for param in leaf.params if param.param_type_name == "option"]
    return Grammar(
        commands=tuple(commands),
        groups=tuple(groups),
        options={"--help", *(name for option in options for name in option.opts)},
        value_options={name for option in options if not option.is_flag for name in option.opts},
    )


def _report(error: Exception, *, debug: bool) -> int:
    if isinstance(error, UnknownCommandError):
        report_error(str(error))
        return ExitCode.USAGE
    if isinstance(error, TyperException):
        report_error(_usage_line(error))
        return ExitCode.USAGE
    if debug:
        report_exception(error, debug=True)
    if isinstance(error, McpAgentError | TimeoutError):
        report_error(str(error))
    elif not debug:
        report_exception(error, debug=False)
    return code_of_error(error)


def _usage_line(error: TyperException) -> str:
    context = getattr(error, "ctx", None)
    where = f"; see {context.command_path} --help" if context is not None else ""
    message = error.format_message().strip().rstrip(".")
    near = getattr(error, "possibilities", None)
    if near:
        message = f"{error.message}; did you mean {' or '.join(near)}?"
        return message[:1].lower() + message[1:]
    return f"{message[:1].lower()}{message[1:]}{where}"


def _end_of_pipe() -> int:
    """The reader went away. What is still buffered must not raise again when the interpreter ends."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.BROKEN_PIPE


def _set_up_logging(*, debug: bool) -> None:
    import logging

    if debug or os.environ.get("MCPAGENT_LOG", "").lower() == "debug":
        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr, format="%(name)s: %(message)s")
    else:
        logging.getLogger().addHandler(logging.NullHandler())


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


@app.command()
def ask(
    prompt: Prompt = None,
    files: Files = None,
    model: opt.Model = None,
    output: Output = opt.OutputFormat.text,
    json: Annotated[bool, typer.Option("--json", help="The same as --output json.")] = False,
    card: opt.Card = None,
    config: opt.Config = None,
    server: opt.Server = None,
    tool_search: opt.ToolSearchOption = opt.ToolSearchMode.auto,
    always_load: opt.AlwaysLoad = None,
    approve: opt.Approve = opt.ApproveMode.ask,
    yes: opt.Yes = False,
    allow: opt.Allow = None,
    deny: opt.Deny = None,
    denied_ok: opt.DeniedOk = False,
    max_turns: opt.MaxTurns = 100,
    max_tokens: opt.MaxTokens = None,
    max_cost: opt.MaxCost = None,
    json_schema: opt.JsonSchema = None,
    estimate: opt.EstimateOnly = False,
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
        always_load=tuple(always_load or ()),
        approve=opt.ApproveMode.all if yes else approve,
        allow=tuple(allow or ()),
        deny=tuple(deny or ()),
        denied_ok=denied_ok,
        max_turns=max_turns,
        max_tokens=max_tokens,
        max_cost=max_cost,
        json_schema=json_schema,
        estimate=estimate,
        timeout=timeout,
        output=opt.OutputFormat.json if json else output,
        quiet=quiet,
        verbose=verbose,
        debug=debug,
        color=color,
    )
    return _answer(options, prompt or "", files or ())


@app.command()
def chat(
    model: opt.Model = None,
    card: opt.Card = None,
    config: opt.Config = None,
    server: opt.Server = None,
    tool_search: opt.ToolSearchOption = opt.ToolSearchMode.auto,
    always_load: opt.AlwaysLoad = None,
    approve: opt.Approve = opt.ApproveMode.ask,
    yes: opt.Yes = False,
    allow: opt.Allow = None,
    deny: opt.Deny = None,
    max_turns: opt.MaxTurns = 100,
    timeout: opt.Timeout = None,
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
        always_load=tuple(always_load or ()),
        approve=opt.ApproveMode.all if yes else approve,
        allow=tuple(allow or ()),
        deny=tuple(deny or ()),
        max_turns=max_turns,
        timeout=timeout,
        quiet=quiet,
        verbose=verbose,
        debug=debug,
        color=color,
    )
    if not is_a_terminal(sys.stdin):
        return _answer(options, "", ())
    from mcpagent.cli.chat import run_chat

    return run_chat(options, open_terminal(color, os.environ))


def _answer(options: opt.Options, prompt: str, files: Sequence[Path]) -> int:
    """One answer to the question, the files and what is piped in."""
    from mcpagent.cli.headless import ask_once
    from mcpagent.cli.prompts import joined_prompt, piped_text
    from mcpagent.cli.terminal import open_terminal

    terminal = open_terminal(options.color, os.environ)
    piped = piped_text(lambda line: terminal.err.print(line, style="dim"), options.timeout)
    return ask_once(options, joined_prompt(prompt, files, piped), terminal)


@tools_app.command("list")
def tools_list(
    pattern: Annotated[
        str | None, typer.Argument(metavar="FILTER", show_default=False, help="Only tools with these words.")
    ] = None,
    config: opt.Config = None,
    server: opt.Server = None,
    refresh: opt.Refresh = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """Every tool of the servers, with what its definition costs in tokens."""
    from mcpagent.cli.tool_commands import list_tools

    return list_tools(_tool_options(config, server, json, debug, color, refresh=refresh), pattern or "")


@tools_app.command("show")
def tools_show(
    name: Annotated[
        str, typer.Argument(metavar="NAME", show_default=False, help="A tool, with or without its server.")
    ],
    config: opt.Config = None,
    server: opt.Server = None,
    refresh: opt.Refresh = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """One tool: its description, parameters and cost."""
    from mcpagent.cli.tool_commands import show_tool

    return show_tool(_tool_options(config, server, json, debug, color, refresh=refresh), name)


@tools_app.command("search")
def tools_search(
    query: Annotated[list[str], typer.Argument(metavar="QUERY", show_default=False, help="Words or a regex pattern.")],
    limit: Annotated[int, typer.Option("-k", "--limit", metavar="N", min=1, max=50, help="Tools shown.")] = 5,
    explain: Annotated[bool, typer.Option("--explain", help="Tell which words matched where.")] = False,
    config: opt.Config = None,
    server: opt.Server = None,
    refresh: opt.Refresh = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """What the model would find with this query: exactly its ranking, without a model. Exit code 1: nothing."""
    from mcpagent.cli.tool_commands import search_tools

    return search_tools(
        _tool_options(config, server, json, debug, color, refresh=refresh), " ".join(query), limit, explain=explain
    )


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
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """Calls one tool, without a model; nobody is asked for approval. Exit code 1: the tool failed."""
    from mcpagent.cli.prompts import piped_text
    from mcpagent.cli.tool_commands import call_tool

    options = replace(_tool_options(config, server, json, debug, color), timeout=timeout)
    if whole == "-":
        whole = piped_text(lambda line: print(line, file=sys.stderr), timeout)  # noqa: T201 - the one line it tells
    return call_tool(options, name, arguments or (), whole)


@tools_app.command("tokens")
def tools_tokens(
    by: Annotated[opt.TokensBy, typer.Option("--by", help="What is summed up.")] = opt.TokensBy.server,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Lines shown.")] = 20,
    config: opt.Config = None,
    server: opt.Server = None,
    refresh: opt.Refresh = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """What the definitions cost in each request, and what tool search makes of it."""
    from mcpagent.cli.tool_commands import count_tokens

    return count_tokens(_tool_options(config, server, json, debug, color, refresh=refresh), by, top)


@tools_app.command("lint")
def tools_lint(
    config: opt.Config = None,
    server: opt.Server = None,
    refresh: opt.Refresh = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """Descriptions that keep a model from finding or using a tool. Exit code 1: there are some."""
    from mcpagent.cli.tool_commands import lint_tools

    return lint_tools(_tool_options(config, server, json, debug, color, refresh=refresh))


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
    config: opt.Config = None,
    server: opt.Server = None,
    refresh: opt.Refresh = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """How often the search finds the tools that your own queries should find: the recall."""
    from mcpagent.cli.tool_commands import evaluate_search

    options = _tool_options(config, server, json, debug, color, refresh=refresh)
    return evaluate_search(options, file, limit, least)


@mcp_app.command("list")
def mcp_list(
    config: opt.Config = None,
    server: opt.Server = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """The configured servers and where each comes from; starts none."""
    from mcpagent.cli.server_commands import list_servers

    return list_servers(_tool_options(config, server, json, debug, color))


@mcp_app.command("test")
def mcp_test(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", show_default=False, help="One server; without it all are tested.")
    ] = None,
    config: opt.Config = None,
    server: opt.Server = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """Starts the servers and says step by step what works and how long it takes. Exit code 5: one failed."""
    from mcpagent.cli.server_commands import run_server_test

    return run_server_test(_tool_options(config, server, json, debug, color), name)


@cards_app.command("check")
def cards_check(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATHS", show_default=False, help="Cards, or folders of them.")
    ],
    json: opt.Json = False,
    debug: opt.Debug = False,  # noqa: ARG001 - `run` has read it
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """Whether cards can be used: fields, servers, members; starts none. Exit code 3: one cannot."""
    from mcpagent.cli.card_commands import check_cards

    return check_cards(paths, opt.Options(output=_form(json), color=color))


@cards_app.command("show")
def cards_show(
    path: Annotated[Path, typer.Argument(metavar="PATH", show_default=False, help="A card, or a folder of them.")],
    json: opt.Json = False,
    debug: opt.Debug = False,  # noqa: ARG001 - `run` has read it
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """A card as it is understood, with variables as they are written."""
    from mcpagent.cli.card_commands import show_card

    return show_card(path, opt.Options(output=_form(json), color=color))


@app.command()
def demo(
    model: opt.Model = None,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """See how tool search works: a real conversation over the bundled server, what the model saw, what it cost."""
    from mcpagent.cli.demo import run_demo
    from mcpagent.cli.terminal import open_terminal

    return run_demo(opt.Options(model=model, debug=debug, color=color), open_terminal(color, os.environ))


def _form(json: bool) -> opt.OutputFormat:
    return opt.OutputFormat.json if json else opt.OutputFormat.text


def _tool_options(
    config: list[Path] | None,
    server: list[str] | None,
    json: bool,
    debug: bool,
    color: opt.ColorMode,
    *,
    refresh: bool = False,
) -> opt.Options:
    return opt.Options(
        config=tuple(config or ()),
        server=opt.servers_asked_for(server, os.environ),
        output=opt.OutputFormat.json if json else opt.OutputFormat.text,
        debug=debug,
        color=color,
        refresh=refresh,
    )
