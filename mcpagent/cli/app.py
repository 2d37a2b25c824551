"""The command line as a whole: which command runs, its help page, its exit code, what is said when it fails."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from typer.exceptions import TyperException

from mcpagent.cli.ask_app import add_commands
from mcpagent.cli.cards_app import cards_app
from mcpagent.cli.exit_codes import ExitCode, code_of_error
from mcpagent.cli.failures import report_error, report_exception, report_warning
from mcpagent.cli.help import MAX_WIDTH, TOP_LEVEL_HELP, command_help
from mcpagent.cli.keys_app import approvals_app, keys_app
from mcpagent.cli.mcp_app import mcp_app
from mcpagent.cli.options import PLAIN
from mcpagent.cli.routing import Grammar, UnknownCommandError, route
from mcpagent.cli.run_log import RunLog, run_log_path
from mcpagent.cli.setup_app import completion, config_app, doctor
from mcpagent.cli.tools_app import tools_app
from mcpagent.errors import ConfigError, McpAgentError, ModelError, ServerError

app = typer.Typer(name="mcpagent", **PLAIN)
add_commands(app)
app.add_typer(tools_app, name="tools")
app.add_typer(mcp_app, name="mcp")
app.add_typer(cards_app, name="cards")
app.command()(doctor)
app.add_typer(config_app, name="config")
app.add_typer(keys_app, name="keys")
app.add_typer(approvals_app, name="approvals")
app.command()(completion)


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
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # typer ends the process itself, with 1
            return _end_of_pipe()
        raise
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
    if routed[:1] == ["completion"] and "--" in routed:  # a shell asks at each press of a key: nothing more is loaded
        from mcpagent.cli.completion import print_candidates

        return print_candidates(routed[1:], command)
    defaults = _defaults(command, routed)
    result = command.main(routed, prog_name="mcpagent", standalone_mode=False, default_map=defaults)
    return int(result or 0)


def _defaults(command: Any, routed: Sequence[str]) -> dict[str, Any]:
    """What `config.toml` says. Commands that show those files or mend them work without, and tell what is wrong."""
    from mcpagent.cli.settings import default_map, read_settings, settable

    is_about_files = routed[:1] and routed[0] in ("config", "doctor", "completion")
    try:
        settings = read_settings(Path.cwd(), os.environ, settable(command))
    except ConfigError:
        if is_about_files:
            return {}
        raise
    for line in settings.warnings if not is_about_files else ():
        report_warning(line)
    return default_map(command, settings)


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
        # What went wrong outside of us may need a closer look; what was typed or written wrong is in the line.
        is_mishap = isinstance(error, ModelError | ServerError | TimeoutError)
        report_error(str(error), kept=error if is_mishap and not debug else None)
    elif not debug:
        report_exception(error, debug=False)
    return code_of_error(error)


def _usage_line(error: TyperException) -> str:
    context = getattr(error, "ctx", None)
    where = f"; see {context.command_path} --help" if context is not None else ""
    message = error.format_message().replace("Value error, ", "").strip().rstrip(".")
    if context is not None and context.info_name == "add" and hasattr(error, "option_name"):
        where = "; what the command itself takes stands after --: mcpagent mcp add NAME -- COMMAND ARGS"
    near = getattr(error, "possibilities", None)
    if near:
        message = f"{error.message}; did you mean {' or '.join(near[:3])}?"
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
    everything = logging.getLogger()
    # It stays when the run has ended, for what the interpreter tells while it ends: the next run's takes its place.
    for handler in [item for item in everything.handlers if isinstance(item, RunLog)]:
        everything.removeHandler(handler)
    everything.addHandler(RunLog(run_log_path(os.environ)))
