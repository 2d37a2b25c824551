"""The whole command line: select the command, its help page and exit code, and report its failure."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from mcpagent.cli.common import options as opt
from mcpagent.cli.common.error_lines import (
    DebugLog,
    RunLog,
    report_error,
    report_exception,
    report_warning,
    run_log_path,
)
from mcpagent.cli.common.exit_codes import ExitCode, code_of_error
from mcpagent.cli.docs_app import docs_app
from mcpagent.cli.gateway_app import gateway_app
from mcpagent.cli.help import top_level_help
from mcpagent.cli.mcp_app import mcp_app
from mcpagent.cli.routing import Grammar, UnknownCommandError, cut_server, route
from mcpagent.cli.runs_app import Database, runs_app
from mcpagent.cli.sessions_app import sessions_app
from mcpagent.cli.setup_app import (
    cards_app,
    completion,
    config_app,
    doctor,
    keys_app,
    permissions_app,
    trust_app,
)
from mcpagent.cli.skills_app import skills_app
from mcpagent.cli.tools_app import tools_app
from mcpagent.cli.trace_app import trace_app
from mcpagent.errors import (
    ConfigError,
    InputError,
    McpAgentError,
    ModelError,
    ServerError,
)
from mcpagent.utilities.text.safe_text import safe_line

Prompt = Annotated[
    str | None,
    typer.Argument(metavar="PROMPT", help="The question; without it stdin is."),
]
Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILES", help="Files that are added to the question."),
]
Attach = Annotated[
    list[Path] | None,
    typer.Option(
        "--attach",
        metavar="FILE",
        help="A text, picture, PDF or recording for the question; repeatable.",
    ),
]
Print = Annotated[bool, typer.Option("--print", "-p", hidden=True)]
Json = Annotated[
    bool,
    typer.Option("--json", envvar="MCPAGENT_JSON", help="The same as --output json."),
]

_TRUSTING = ("trust_changes", "trust_project")
_ASKING = (
    "model",
    "system",
    "append_system",
    "instruction",
    "thinking",
    "profile",
    "set",
    "provider_tool",
    "code",
    *opt.CATALOGUE,
    *opt.RULES,
)
_LIMITS = (
    "max_turns",
    "max_calls",
    "max_tokens",
    "max_cost",
    "max_seconds",
    "context_window",
    "large_result_tokens",
)
_ONE_ANSWER = ("json_schema", "dry_run", "no_stream")
_KEEPING = ("continue_last", "session_db")
_RECORDING = ("record", "replay", "timeout", "server_wait")
_TELLING = ("quiet", "verbose", "debug", "color")


@opt.taking(
    [
        *("output", *_ASKING, "denied_ok", *_TRUSTING, *_LIMITS, *_ONE_ANSWER),
        *(*_KEEPING, "resume", "session", *_RECORDING, *_TELLING),
    ],
    json=Json,
)
def ask(
    options: opt.Options,
    prompt: Prompt = None,
    files: Files = None,
    attach: Attach = None,
    print_: Print = False,  # noqa: ARG001 - routing has read it
) -> int:
    """Print one answer and exit; the same as -p. Piped text is added to the question, or is the question."""
    _require_one_source(options)
    return _answer(
        _naming_the_session(options), prompt or "", [*(files or ()), *(attach or ())]
    )


@opt.taking(
    [
        *_ASKING,
        *_TRUSTING,
        *_LIMITS,
        *_KEEPING,
        "resume",
        "sessions",
        *_RECORDING,
        "status_line",
        *_TELLING,
    ]
)
def chat(options: opt.Options, attach: Attach = None) -> int:
    """Talk to the agent in the terminal. If stdin is no terminal, its text is the only question."""
    from mcpagent.cli.screen.terminal import is_a_terminal, open_terminal

    _require_one_source(options)
    if not is_a_terminal(sys.stdin):
        return _answer(_naming_the_session(options), "", attach or ())
    from mcpagent.cli.chat.conversation_loop import run_chat
    from mcpagent.cli.setup.first_steps import first_steps

    terminal = open_terminal(options.color)
    first_steps(options, terminal)
    return run_chat(options, terminal, attached=attach or ())


@opt.taking(
    [
        *(*_ASKING, *_TRUSTING, *_LIMITS, "session_db", "server_wait"),
        *("at_once", "per_user", "per_minute", *_TELLING),
    ]
)
def worker(
    options: opt.Options,
    database: Database = None,
) -> int:
    """Execute durable runs until Ctrl-C or SIGTERM, also those of a worker that died."""
    from mcpagent.cli.oneshot.durable_worker import work
    from mcpagent.cli.screen.terminal import open_terminal

    return work(options, open_terminal(options.color), database)


def _require_one_source(options: opt.Options) -> None:
    """Raise `InputError` for options that name two conversations, or a replay together with a stored conversation,
    which could not continue.
    """
    kept = {
        "--session": options.session,
        "--resume": options.resume,
        "--continue": options.continue_last or None,
    }
    named = [name for name, value in kept.items() if value is not None]
    if options.replay is not None and named:
        raise InputError(
            f"--replay gives a recorded run, of which nothing is kept; leave out {named[0]}, or --replay"
        )
    if "--resume" in named and len(named) > 1:
        raise InputError(
            f"{named[-1]} and {named[0]} name two conversations; write one of them"
        )


def _naming_the_session(options: opt.Options) -> opt.Options:
    """Return the options with the session of `--resume` as an ID, for runs without a user who can choose.

    Raises `InputError`, after printing a list on stderr, if several sessions match.
    """
    if options.resume is None:
        return options
    from mcpagent.cli.common.stored_sessions import store_of
    from mcpagent.cli.screen.terminal import open_terminal
    from mcpagent.cli.sessions_command.sessions_shown import the_one

    terminal = open_terminal(options.color)
    return replace(
        options,
        session=the_one(options, store_of(options), options.resume, terminal).id,
    )


def _answer(options: opt.Options, prompt: str, files: Sequence[Path]) -> int:
    """Answer the prompt, together with the files and the piped text."""
    from mcpagent.cli.common.configuration import link_lines
    from mcpagent.cli.oneshot.headless import ask_once
    from mcpagent.cli.oneshot.prompts import joined_prompt, piped_text
    from mcpagent.cli.screen.terminal import open_terminal, put

    terminal = open_terminal(options.color)
    piped = piped_text(
        lambda line: terminal.err.print(line, style="dim"), options.timeout
    )
    if options.replay is not None and not (prompt or files or piped):
        return ask_once(options, "", terminal)  # the recording contains the question
    put(terminal.err, *link_lines(files, options), style="dim")
    if named := _named_files(prompt):
        terminal.warn(f"{named}: sent as typed; --attach FILE sends a file along")
    question, attached = joined_prompt(prompt, files, piped)
    return ask_once(options, question, terminal, files=attached)


def _named_files(prompt: str) -> str:
    """Return the words of a prompt that name files as in a chat, such as `@notes.txt`, or ""."""
    if "@" not in prompt:
        return ""
    from mcpagent.cli.chat.attachments import marks

    named = [mark for mark in marks(prompt) if "." in mark or "/" in mark]
    return ", ".join(f"@{safe_line(mark, 60)}" for mark in named[:3])


@opt.taking(["model", "search_strategy", "debug", "color"])
def demo(options: opt.Options) -> int:
    """Show how tool search works: a real conversation over the bundled server, the offered tools and their cost."""
    from mcpagent.cli.oneshot.demo_run import run_demo
    from mcpagent.cli.screen.terminal import open_terminal

    return run_demo(options, open_terminal(options.color))


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

app = typer.Typer(name="mcpagent", **opt.PLAIN)
for _command in (ask, chat, demo):
    app.command()(_command)
app.add_typer(tools_app, name="tools")
app.add_typer(mcp_app, name="mcp")
app.add_typer(gateway_app, name="gateway")
app.add_typer(skills_app, name="skills")
app.add_typer(docs_app, name="docs")
app.add_typer(cards_app, name="cards")
app.command()(worker)
app.add_typer(runs_app, name="runs")
app.command()(doctor)
app.add_typer(config_app, name="config")
app.add_typer(keys_app, name="keys")
app.add_typer(permissions_app, name="permissions")
app.add_typer(trust_app, name="trust")
app.add_typer(sessions_app, name="sessions")
app.add_typer(trace_app, name="trace")
app.command()(completion)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; failures are already reported in one line on stderr."""
    debug = "--debug" in arguments or os.environ.get("MCPAGENT_DEBUG", "") not in (
        "",
        "0",
        "false",
    )
    _set_up_logging(debug=debug)
    try:
        code = _dispatch(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _end_of_pipe()
    except SystemExit as error:
        if isinstance(
            error.__context__, BrokenPipeError
        ):  # typer ends the process itself, with code 1
            return _end_of_pipe()
        raise
    except Exception as error:  # noqa: BLE001 - the top: nothing may reach the user as a traceback
        return _report(error, debug=debug)


def command_line() -> Any:
    """Return the whole command as typer's object, for generating documentation."""
    return typer.main.get_command(app)


def _dispatch(arguments: Sequence[str]) -> int:
    command = command_line()
    arguments, whole = _help_wanted(arguments)
    grammar = _grammar(command)
    routed = route(arguments, grammar)
    if "--" in routed:
        own = routed[: routed.index("--")]
    else:
        own = routed
    if "--help" in own or "-h" in own:
        # The page does not depend on the other arguments, so these are not parsed.
        sys.stdout.write(_help_page(command, routed, whole=whole))
        return ExitCode.OK
    if (
        routed[:1] == ["completion"] and "--" in routed
    ):  # a shell calls this at each key press, so nothing else is loaded
        from mcpagent.cli.setup.completion import print_candidates

        return print_candidates(routed[1:], command)
    _close_own_folders()
    defaults = _defaults(command, routed)
    try:
        result = command.main(
            routed, prog_name="mcpagent", standalone_mode=False, default_map=defaults
        )
    except TyperException as error:
        if cut := cut_server(arguments, grammar):
            raise UnknownCommandError(cut) from error
        raise
    return int(result or 0)


def _help_wanted(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Return the arguments with `--help` in place of `--help all` and `--help-all`, and whether one of these
    appeared.
    """
    words = list(arguments)
    end = len(words)
    if "--" in words:
        end = words.index("--")
    for place, word in enumerate(words[:end]):
        if word == "--help-all":
            return [*words[:place], "--help", *words[place + 1 :]], True
        is_help = word in ("--help", "-h") or (word == "help" and place == 0)
        if is_help and words[place + 1 : place + 2] == ["all"]:
            return [*words[:place], "--help", *words[place + 2 :]], True
    return words, False


def _help_page(command: Any, routed: Sequence[str], *, whole: bool) -> str:
    """Return the help page of the command that the arguments name, or that of the program."""
    from mcpagent.cli.help_pages import command_page, every_option

    path, named = _named_command(command, routed)
    if path:
        return command_page(named, " ".join(("mcpagent", *path)), None, whole=whole)
    if whole:
        return f"{top_level_help()}\n{every_option(command)}"
    return top_level_help()


def _close_own_folders() -> None:
    """Remove other users' write permission from mcpagent's folders, which a loose umask may have granted."""
    from mcpagent.utilities.filesystem.file_changes import close_to_others
    from mcpagent.utilities.filesystem.user_folders import own_folders

    with contextlib.suppress(RuntimeError):  # there is no home folder
        for folder in own_folders(os.environ):
            close_to_others(folder)


def _defaults(command: Any, routed: Sequence[str]) -> dict[str, Any]:
    """Return the defaults from `config.toml`. Commands about the settings files run without these defaults, and report
    errors.
    """
    from mcpagent.cli.common.settings import (
        default_map,
        misspelt_variables,
        read_settings,
        settable,
    )

    for line in misspelt_variables(os.environ, command):
        report_warning(line)
    is_about_files = routed[:1] and routed[0] in ("config", "doctor", "completion")
    try:
        settings = read_settings(_current_folder(), os.environ, settable(command))
    except ConfigError:
        if is_about_files:
            return {}
        raise
    for line in settings.warnings if not is_about_files else ():
        report_warning(line)
    return default_map(command, settings)


def _named_command(command: Any, routed: Sequence[str]) -> tuple[list[str], Any]:
    """Return the leading words that name a command or a group, and the command."""
    path: list[str] = []
    for word in routed:
        if word not in getattr(command, "commands", ()):
            break
        command = command.commands[word]
        path.append(word)
    return path, command


def _grammar(command: Any) -> Grammar:
    options = [
        param for _, leaf in opt.leaves(command) for param in opt.options_in(leaf)
    ]
    return Grammar(
        commands=tuple(command.commands),
        groups={
            name: _alone(item)
            for name, item in command.commands.items()
            if hasattr(item, "commands")
        },
        options={
            "--help",
            *(
                name
                for option in options
                for name in (*option.opts, *option.secondary_opts)
            ),
        },
        value_options={
            name for option in options if not option.is_flag for name in option.opts
        },
        may_be_bare={
            name: max(option.opts, key=len)
            for option in options
            if (option.metavar or "").startswith("[")
            for name in option.opts
        },
    )


def _alone(group: Any) -> str:
    """Return the subcommand that a group runs by default: `list`, `show` or `serve`, else `--help`."""
    names = [name for name in ("list", "show", "serve") if name in group.commands]
    return next(
        (
            name
            for name in names
            if not any(item.required for item in group.commands[name].params)
        ),
        "--help",
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
        # An external failure may need its traceback; for a mistake in the input, the line is enough.
        is_mishap = isinstance(error, ModelError | ServerError | TimeoutError)
        report_error(str(error), kept=error if is_mishap and not debug else None)
    elif isinstance(error, OSError) and error.filename is None and error.errno in _FULL:
        report_error(
            f"the output cannot be written: {error.strerror}; it is not complete"
        )
        _end_of_output()
    elif not debug:
        report_exception(error, debug=False)
    return code_of_error(error)


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise InputError(
            "the current folder was deleted or moved; cd into another one"
        ) from None


def _usage_line(error: TyperException) -> str:
    context = getattr(error, "ctx", None)
    where = ""
    if context is not None:
        where = f"; see {context.command_path} --help"
    message = error.format_message().replace("Value error, ", "").strip().rstrip(".")
    if (
        context is not None
        and context.info_name == "add"
        and hasattr(error, "option_name")
    ):
        where = "; what the command itself takes stands after --: mcpagent mcp add NAME -- COMMAND ARGS"
    if context is not None and context.info_name == "chat" and "extra arg" in message:
        where = '; a chat asks for its questions itself; one answer: mcpagent -p "..."'
    unknown = re.match(r"No such command '([^']*)'", message)
    if context is not None and unknown is not None:
        from mcpagent.cli.help_pages import unknown_subcommand

        return unknown_subcommand(unknown[1], context.command, context.command_path)
    if context is not None and hasattr(error, "possibilities"):
        from mcpagent.cli.help_pages import unknown_flag

        message, where = unknown_flag(
            str(getattr(error, "option_name", "")), context.command, where
        )
    return f"{message[:1].lower()}{message[1:]}{where}"


def _end_of_pipe() -> int:
    """Return the exit code after the reader of a pipe closed it."""
    _end_of_output()
    return ExitCode.BROKEN_PIPE


def _end_of_output() -> None:
    """Discard buffered output, so that it does not raise again when the interpreter ends."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _set_up_logging(*, debug: bool) -> None:
    import logging

    everything = logging.getLogger()
    # The handlers stay for messages while the interpreter ends; the next run replaces them.
    for handler in [
        item for item in everything.handlers if isinstance(item, RunLog | DebugLog)
    ]:
        everything.removeHandler(handler)
    everything.addHandler(RunLog(run_log_path(os.environ)))
    if debug or os.environ.get("MCPAGENT_LOG", "").lower() == "debug":
        everything.setLevel(logging.DEBUG)
        everything.addHandler(DebugLog(os.environ))
