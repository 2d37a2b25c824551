"""Write the help pages of commands, and suggest a flag for an unknown one."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from mcpagent.cli.common.error_lines import did_you_mean
from mcpagent.cli.common.options import (
    PLAIN,
    SETTING,
    first_name,
    flags_of,
    is_listed,
    leaves,
    options_in,
)
from mcpagent.utilities.text.safe_text import safe_line

GRANTS = frozenset(
    {
        "--allow",
        "--approve",
        "--plain-secrets",
        "--trust",
        "--trust-changes",
        "--trust-project",
        "--yes",
    }
)
"""Flags that permit calls without a question; they are never suggested."""

_TRIED: Mapping[str, str] = {
    "--system": "system-prompt instructions",
    "--append-system": "append-system-prompt",
    "--instruction": "system-prompt-file instructions-file prompt-file",
    "--config": "mcp-config config-file settings servers-file",
    "--server": "servers mcp mcp-server add-server",
    "--output": "output-format format",
    "--json-schema": "schema output-schema",
    "--attach": "attachment file image input",
    "--max-cost": "max-budget max-budget-usd budget",
    "--set thinking=high": "effort reasoning reasoning-effort",
    "--set temperature=0": "temperature temp",
    "--set top_p=0.9": "top-p",
    "--set max_output_tokens=1000": "max-output-tokens",
    "--dry-run": "estimate count-tokens",
    "--verbose": "origin explain",
    "--no-session": "no-save ephemeral",
}
_ALSO_TYPED = {
    f"--{word}": flag for flag, words in _TRIED.items() for word in words.split()
}


_SUBCOMMANDS: Mapping[str, str] = {
    "remove delete forget revoke": "rm del remove delete unset uninstall unregister forget drop clear revoke",
    "list show": "list ls all names status",
    "show list": "show get info describe inspect view cat open",
    "search": "find query grep",
    "call": "run exec invoke use",
    "set edit add": "set add edit new create write change configure put install register update",
    "test": "check ping probe start restart connect doctor",
    "export": "save dump",
    "logs": "log output",
}
"""Words that users try, and the commands that they may mean; the first one that the group has counts."""


_RESUMES = frozenset(("resume", "continue", "load", "restore"))


def unknown_subcommand(word: str, group: Any, path: str) -> str:
    """Return the message about an unknown word in a group, with the commands that it may mean."""
    known = list(group.commands)
    meant = [
        next(name for name in names.split() if name in known)
        for names, words in _SUBCOMMANDS.items()
        if word.lower() in words.split() and not set(known).isdisjoint(names.split())
    ]
    if path.endswith(" sessions") and word.lower() in _RESUMES:
        return f"no such command: {word}; did you mean mcpagent --resume ID?"
    near = meant or get_close_matches(word.lower(), known, n=2)
    hint = f"see {path} --help"
    if near:
        hint = did_you_mean([f"{path} {name}" for name in near])
    return f"no such command: {safe_line(word, 40)}; {hint}"


def command_page(command: Any, path: str, width: int | None, *, whole: bool) -> str:
    """Return the help page of a command or a group.

    `whole` lists all options; otherwise the page lists the most used options, without variables.
    """
    context = command.context_class(
        command, info_name=path, terminal_width=width, **PLAIN["context_settings"]
    )
    if hasattr(command, "commands"):
        return f"{command.get_help(context)}\n"
    formatter = context.make_formatter()
    command.format_usage(context, formatter)
    command.format_help_text(context, formatter)
    arguments = [item for item in command.params if item.param_type_name == "argument"]
    _write_rows(formatter, "Arguments", _records(arguments, context))
    options = [item for item in options_in(command) if not item.hidden]
    flags = [item for item in options if flags_of(item)]
    if whole:
        _write_rows(formatter, "Options", _records(flags, context))
        settings = [item for item in options if not flags_of(item)]
        _write_rows(
            formatter,
            "Settings, for --set NAME=VALUE, config.toml or a variable",
            [_setting_record(item, context) for item in settings],
        )
        return str(formatter.getvalue())
    shown = [item for item in options if is_listed(item)]
    rows = [(names, _first_sentence(text)) for names, text in _records(shown, context)]
    _write_rows(formatter, "Options", rows)
    more = len(options) - len(shown)
    if more:
        formatter.write_paragraph()
        formatter.write_text(f"{path} --help all: {more} more options and settings")
    return str(formatter.getvalue())


def every_option(command: Any) -> str:
    """Return a page with each option and setting of all commands once, for `mcpagent --help all`."""
    where: dict[str, list[str]] = {}
    declared: dict[str, Any] = {}
    context = command.context_class(
        command, info_name="mcpagent", max_content_width=100
    )
    for path, leaf in leaves(command):
        for option in options_in(leaf):
            if not option.hidden:
                name = first_name(option)
                declared.setdefault(name, option)
                where.setdefault(name, []).append(" ".join(path))
    formatter = context.make_formatter()
    for title, is_wanted in (("Flags", True), ("Settings (--set NAME=VALUE)", False)):
        rows: list[tuple[str, str]] = []
        for name, option in sorted(declared.items()):
            if bool(flags_of(option)) != is_wanted:
                continue
            if is_wanted:
                names, text = _without_slash(*option.get_help_record(context))
            else:
                names, text = _setting_record(option, context)
            commands = where[name]
            named = ", ".join(commands)
            if len(commands) > 4:
                named = f"{len(commands)} commands"
            rows.append((names, f"{text} ({named})"))
        _write_rows(formatter, title, rows)
    return str(formatter.getvalue())


def _write_rows(formatter: Any, title: str, rows: Iterable[tuple[str, str]]) -> None:
    rows = list(rows)
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


def _records(params: Sequence[Any], context: Any) -> list[tuple[str, str]]:
    records = [item.get_help_record(context) for item in params]
    return [_without_slash(*record) for record in records if record is not None]


def _without_slash(names: str, text: str) -> tuple[str, str]:
    """Return a row of the option table without " / ", which typer writes before an option that only turns something
    off.
    """
    return names.removeprefix(" / "), text


def _setting_record(option: Any, context: Any) -> tuple[str, str]:
    names, text = option.get_help_record(context)
    name = first_name(option).removeprefix(SETTING)
    _, _, metavar = names.removeprefix(SETTING).partition(" ")
    return f"{name}={metavar or 'true'}", text


def _first_sentence(text: str) -> str:
    sentence = text.partition("  [")[0].partition(". ")[0]
    return inspect.cleandoc(sentence).rstrip(".")


def unknown_flag(flag: str, command: Any, otherwise: str) -> tuple[str, str]:
    """Return the message about an unknown flag, and its ending: a suggestion, or `otherwise`."""
    shown = safe_line(flag, 60)
    options = [item for item in options_in(command) if not item.hidden]
    setting = flag.removeprefix("--").replace("-", "_")
    if any(first_name(item) == f"{SETTING}{setting}" for item in options):
        fix = f"write --set {setting}=VALUE, or {setting} = VALUE in config.toml"
        return f"{shown} is a setting", f"; {fix}"
    flags = {name for item in options for name in flags_of(item) if name[:2] == "--"}
    flags |= {"--version", "--help"}  # typer adds these two flags
    meant = _ALSO_TYPED.get(flag, "")
    near = [meant]
    if meant.partition(" ")[0] not in flags:
        near = get_close_matches(flag, sorted(flags - GRANTS), n=2)
    hint = otherwise
    if near:
        hint = f"; {did_you_mean(near)}"
    return f"no such option: {shown}", hint
