"""`mcpagent config show|path|edit`: every setting with its origin, the files, and an editor for these."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rich.text import Text

from mcpagent.cli.common.configuration import short_path
from mcpagent.cli.common.error_lines import did_you_mean
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.options import Options, leaves, options_in
from mcpagent.cli.common.settings import (
    PROJECT_FILE,
    USER_FILE,
    Settings,
    default_map,
    read_settings,
    settable,
)
from mcpagent.cli.common.user_programs import editor_command, open_in_editor
from mcpagent.cli.screen.lines import Cell, table
from mcpagent.cli.screen.terminal import open_terminal, put, write_out
from mcpagent.cli.servers.server_editing import file_to_write, open_file
from mcpagent.config import (
    cache_folder,
    find_config_files,
    load_servers,
    state_folder,
    user_config_folder,
    user_data_folder,
)
from mcpagent.errors import InputError
from mcpagent.utilities.filesystem.file_changes import write_text
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_secrets


def show_config(options: Options, command: Any, *, with_origin: bool) -> ExitCode:
    """Show every option that a file or a variable can set, with its current value, and the server files."""
    terminal = open_terminal(options.color)
    settings = read_settings(options.folder, options.environ, settable(command))
    values = _values_in_force(command, settings, options.environ, options.folder)
    files = [str(path) for path in find_config_files(options.folder, options.environ)]
    rows: list[list[Cell]] = []
    plain: list[Text] = []
    for name, found in values.items():
        value, origin = found["value"], found["origin"]
        shown = "(not set)"
        if value not in (None, [], ()):
            shown = safe_line(json.dumps(value, ensure_ascii=False, default=str), 200)
        line = (f"{name} = {shown}", "dim" if origin == "default" else "")
        rows.append([(origin, "dim"), line])
        chosen = "" if origin == "default" else f"   {origin}"
        plain.append(Text.assemble(line, (chosen, "dim")))
    named = ", ".join(short_path(path, options.folder) for path in files)
    where = Text(
        f"servers from {named or 'nowhere: mcpagent mcp add, mcpagent mcp import'}",
        "dim",
    )
    lines = table(rows) if with_origin else plain
    terminal.report(options, {"settings": values, "server_files": files}, *lines, where)
    terminal.warn(*settings.warnings)
    return ExitCode.OK


def _values_in_force(
    command: Any, settings: Settings, environ: Mapping[str, str], folder: Path
) -> dict[str, dict[str, Any]]:
    """Return each option's value and origin by name: a variable, a file and line, or the default."""
    found: dict[str, dict[str, Any]] = {}
    defaults = default_map(command, settings)
    for (name, *_), leaf in leaves(command):
        if name in ("ask", "chat", "worker"):
            context = leaf.make_context(
                name, [], resilient_parsing=True, default_map=defaults.get(name, {})
            )
            for param in options_in(leaf):
                if param.envvar and param.name not in found:
                    setting = settings.values.get(param.name)
                    origin = "default"
                    if setting is not None:
                        origin = short_path(f"{setting.file}:{setting.line}", folder)
                    if environ.get(param.envvar):
                        origin = f"env {param.envvar}"
                    value = _shown(param.name, context.params.get(param.name))
                    found[param.name] = {"value": value, "origin": origin}
    return dict(sorted(found.items()))


def _shown(name: str, value: Any) -> Any:
    """Return an option's value without secrets: a model's name can contain headers, a database's address a password."""
    from mcpagent.models.model_names import shown_spec

    if not isinstance(value, str):
        return value
    if name == "model":
        return shown_spec(value)
    if name == "session_db":
        return without_secrets(value)
    return value


# --- path and edit ---


def paths(options: Options) -> dict[str, Path]:
    """Return the names that `config path` and `config edit` accept, with their paths."""
    state = state_folder(options.environ)
    return {
        "config": user_config_folder(options.environ) / USER_FILE,
        "servers": user_config_folder(options.environ) / "mcp.json",
        "project": file_to_write(options, "project").path,
        "project-config": options.folder / PROJECT_FILE,
        "logs": state / "logs",
        "state": state,
        "data": user_data_folder(options.environ),
        "cache": cache_folder(options.environ),
    }


def print_path(options: Options, what: str | None) -> ExitCode:
    """Print one path, or all paths with their names."""
    known = paths(options)
    if what is not None:
        write_out(f"{_named(known, what)}\n")
    else:
        width = max(map(len, known))
        write_out("".join(f"{name:<{width}}  {path}\n" for name, path in known.items()))
    return ExitCode.OK


def edit_config(options: Options, what: str, command: Any) -> ExitCode:
    """Open the file in the user's editor, and then check it. Raises `ConfigError` for mistakes in the file."""
    terminal = open_terminal(options.color)
    known = {
        name: path
        for name, path in paths(options).items()
        if path.suffix in (".toml", ".json")
    }
    path = _named(known, what)
    if not path.exists():
        editor_command(
            options.environ
        )  # report a missing editor before creating the file
        beginning = Path(__file__).with_name(f"{what}.toml")
        if path.suffix == ".toml":
            text = beginning.read_text("utf-8")
        else:
            text = open_file(path, is_project=False).text
        write_text(path, text, new_mode=0o644 if what.startswith("project") else 0o600)
    asyncio.run(open_in_editor(path, options.environ))
    if path.suffix == ".toml":
        terminal.warn(
            *read_settings(options.folder, options.environ, settable(command)).warnings
        )
    elif open_file(path, is_project=False).entries:
        terminal.warn(
            *(
                problem.reason
                for problem in load_servers(path, environ=options.environ).problems
            )
        )
    put(
        terminal.out,
        f"{short_path(str(path), options.folder)} can be read",
        style="dim",
    )
    return ExitCode.OK


def _named(known: Mapping[str, Path], what: str) -> Path:
    if what in known:
        return known[what]
    near = get_close_matches(what, known, n=2, cutoff=0.5) or list(known)
    raise InputError(f'no file "{safe_line(what, 40)}"; {did_you_mean(near)}')
