"""`mcpagent config show|path|edit`: every setting and where it comes from, the files, and an editor for them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from rich.text import Text

from mcpagent.cli.configuration import short_path
from mcpagent.cli.editor import editor_command
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.options import Options, OutputFormat, WriteScope
from mcpagent.cli.server_files import file_to_write, open_file
from mcpagent.cli.settings import PROJECT_FILE, USER_FILE, Settings, default_map, read_settings, settable
from mcpagent.cli.stdout import write_json, write_out
from mcpagent.cli.terminal import open_terminal, put
from mcpagent.config import (
    cache_folder,
    find_config_files,
    load_servers,
    state_folder,
    user_config_folder,
    user_data_folder,
)
from mcpagent.config.files import write_text
from mcpagent.errors import InputError
from mcpagent.safe_text import safe_line

TEMPLATE = """\
# Your own defaults for mcpagent's options; a flag or its variable goes before them.
# mcpagent config show --origin lists what counts and where it comes from.

# model = "anthropic:claude-sonnet-5-5"
# tool_search = "auto"          # auto, on or off
# always_load = ["time.*"]      # offered from the first request on
# approve = "ask"               # ask, safe, all or none
# allow = ["git.git_status"]
# deny = ["*.delete_*"]
# max_cost = 0.50               # US dollars an answer
# status_line = "my-status"     # gets JSON on its standard input, prints one line
"""

PROJECT_TEMPLATE = """\
# Defaults for whoever uses mcpagent in this project: a model, how tools are searched, lower limits, more to deny.

# model = "anthropic:claude-sonnet-5-5"
# always_load = ["git.*"]
# deny = ["*.delete_*"]
"""

_BEGINNINGS = {"config": TEMPLATE, "project-config": PROJECT_TEMPLATE}


@dataclass(frozen=True, slots=True)
class Shown:
    """One option: its value as it would be written, and where that comes from."""

    name: str
    value: Any
    origin: str


def show_config(options: Options, command: Any, *, with_origin: bool) -> ExitCode:
    """Every option that a file or a variable can set, as a command would see it now, and the files of servers."""
    terminal = open_terminal(options.color, os.environ)
    settings = read_settings(options.folder, options.environ, settable(command))
    shown = list(values_in_force(command, settings, options.environ, options.folder))
    if options.output is OutputFormat.json:
        values = {item.name: {"value": item.value, "origin": item.origin} for item in shown}
        files = [str(path) for path in find_config_files(options.folder, options.environ)]
        write_json({"settings": values, "server_files": files})
        return ExitCode.OK
    width = max((len(item.origin) for item in shown), default=0)
    for item in shown:
        origin = f"{item.origin:<{width}}  " if with_origin else ""
        style = "dim" if item.origin == "default" else ""
        put(terminal.out, Text.assemble((origin, "dim"), (f"{item.name} = {_toml(item.value)}", style)))
    files = [short_path(str(path), options.folder) for path in find_config_files(options.folder, options.environ)]
    put(
        terminal.out,
        Text(f"servers from {', '.join(files) or 'nowhere: mcpagent mcp add, mcpagent mcp import'}", "dim"),
    )
    put(terminal.err, *(f"{terminal.glyphs.warning} {warning}" for warning in settings.warnings), style="warning")
    return ExitCode.OK


def values_in_force(command: Any, settings: Settings, environ: Mapping[str, str], folder: Path) -> Iterator[Shown]:
    """By name: the value of each option that is not given, and whether a variable, a file or nobody says so."""
    found: dict[str, Shown] = {}
    defaults = default_map(command, settings)
    for name in ("ask", "chat"):
        leaf = command.commands[name]
        context = leaf.make_context(name, [], resilient_parsing=True, default_map=defaults.get(name, {}))
        for param in leaf.params:
            if param.param_type_name == "option" and param.envvar and param.name not in found:
                origin = _origin(param, settings, environ, folder)
                found[param.name] = Shown(param.name, _plain(context.params.get(param.name)), origin)
    yield from (found[name] for name in sorted(found))


def _origin(param: Any, settings: Settings, environ: Mapping[str, str], folder: Path) -> str:
    if environ.get(param.envvar):
        return f"env {param.envvar}"
    setting = settings.values.get(param.name)
    return short_path(f"{setting.file}:{setting.line}", folder) if setting is not None else "default"


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _toml(value: Any) -> str:
    return "(not set)" if value is None or value == [] else safe_line(json.dumps(value, ensure_ascii=False), 200)


# --- path and edit ---


def paths(options: Options) -> dict[str, Path]:
    """What `config path` and `config edit` can name."""
    state = state_folder(options.environ)
    return {
        "config": user_config_folder(options.environ) / USER_FILE,
        "servers": user_config_folder(options.environ) / "mcp.json",
        "project": file_to_write(options, WriteScope.project).path,
        "project-config": options.folder / PROJECT_FILE,
        "logs": state / "logs",
        "state": state,
        "data": user_data_folder(options.environ),
        "cache": cache_folder(options.environ),
    }


def print_path(options: Options, what: str | None) -> ExitCode:
    """One path, or all of them with their names."""
    known = paths(options)
    if what is not None:
        write_out(f"{_named(known, what)}\n")
        return ExitCode.OK
    width = max(map(len, known))
    for name, path in known.items():
        write_out(f"{name:<{width}}  {path}\n")
    return ExitCode.OK


def edit_config(options: Options, what: str, command: Any) -> ExitCode:
    """Opens the file in the user's editor and checks it afterwards. Raises `ConfigError` for what is wrong then."""
    terminal = open_terminal(options.color, os.environ)
    known = {name: path for name, path in paths(options).items() if path.suffix in (".toml", ".json")}
    path = _named(known, what)
    words = editor_command(options.environ)
    if not path.exists():
        text = _BEGINNINGS[what] if what in _BEGINNINGS else open_file(path, is_project=False).text
        write_text(path, text, new_mode=0o644 if what.startswith("project") else 0o600)
    try:
        code = subprocess.run([*words, str(path)], check=False).returncode  # noqa: S603 - the user's own editor
    except OSError as error:
        shown = safe_line(" ".join(words), 80)
        raise InputError(f"the editor {shown} cannot be started: {error.strerror}; set EDITOR") from None
    if code:
        raise InputError(f"the editor ended with exit code {code}; {path} is as it left it")
    warnings = _checks(options, command)[path.suffix](path)
    put(terminal.err, *(f"{terminal.glyphs.warning} {warning}" for warning in warnings), style="warning")
    put(terminal.out, f"{short_path(str(path), options.folder)} can be read", style="dim")
    return ExitCode.OK


def _checks(options: Options, command: Any) -> Mapping[str, Callable[[Path], list[str]]]:
    def settings(_path: Path) -> list[str]:
        return list(read_settings(options.folder, options.environ, settable(command)).warnings)

    def servers(path: Path) -> list[str]:
        if not open_file(path, is_project=False).entries:
            return []
        return [problem.reason for problem in load_servers(path, environ=options.environ).problems]

    return {".toml": settings, ".json": servers}


def _named(known: Mapping[str, Path], what: str) -> Path:
    if what in known:
        return known[what]
    from difflib import get_close_matches

    near = get_close_matches(what, known, n=2, cutoff=0.5) or list(known)
    raise InputError(f'no file "{safe_line(what, 40)}"; did you mean {" or ".join(near)}?')
