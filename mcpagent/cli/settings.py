"""`config.toml`: the user's own defaults for options, and those a project may set for whoever works in it.

A flag goes before its variable, that before the project's `.mcpagent.toml`, that before the user's `config.toml`, that
before the built-in default. A project's file came with a repository, so it sets only what allows nothing more: which
model (without options, which could send the talk elsewhere), how tools are searched, lower limits, and more to deny.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mcpagent.config.documents import read_bytes
from mcpagent.config.folders import project_folders, user_config_folder
from mcpagent.errors import ConfigError
from mcpagent.safe_text import safe_line

USER_FILE = "config.toml"
PROJECT_FILE = ".mcpagent.toml"
LIMITS = frozenset({"max_turns", "max_tokens", "max_cost", "timeout"})
PROJECT_KEYS = LIMITS | {"model", "tool_search", "always_load", "deny"}
ONE_RUN_ONLY = frozenset({"config", "card", "record", "replay", "json_schema", "debug", "trust_project"})
"""Options that say something about one run, or that nobody should say once and for all."""

APART = frozenset({"demo"})
"""Commands that are the same for everybody."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of a file; `name` is the option's, in Python's spelling."""

    name: str
    value: Any
    file: Path
    line: int
    is_project: bool


@dataclass(frozen=True, slots=True)
class Settings:
    """The values that count, by name; the files they came from; what was left out, one line each."""

    values: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    files: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settable:
    """An option that a file may set, and a command that has it, as typer declares them."""

    param: Any
    command: Any

    def read(self, value: Any) -> Any:
        """The value as the option takes it. Raises typer's own error."""
        return self.param.process_value(self.command.context_class(self.command), value)


def settable(command: Any) -> dict[str, Settable]:
    """Each option that a file may set, by name."""
    found: dict[str, Settable] = {}
    for name, leaf in command.commands.items():
        if name in APART or hasattr(leaf, "commands"):
            continue
        for param in leaf.params:
            if param.param_type_name == "option" and param.envvar and param.name not in ONE_RUN_ONLY:
                found.setdefault(param.name, Settable(param, leaf))
    return found


def find_settings_files(folder: Path, environ: Mapping[str, str]) -> list[tuple[Path, bool]]:
    """The files that exist and whether each is a project's, in reading order: a later one wins."""
    files = [(user_config_folder(environ) / USER_FILE, False)]
    files += [(above / PROJECT_FILE, True) for above in project_folders(folder)]
    return [(path, is_project) for path, is_project in files if path.is_file()]


def read_settings(folder: Path, environ: Mapping[str, str], known: Mapping[str, Settable]) -> Settings:
    """All files, checked against the options they set. Raises `ConfigError` with file and line."""
    values: dict[str, Setting] = {}
    warnings: list[str] = []
    files = find_settings_files(folder, environ)
    for path, is_project in files:
        for setting in _settings_of(path, is_project=is_project):
            if warning := _objection(setting, known):
                warnings.append(f"{path}:{setting.line}: {warning}")
                continue
            before, now = values.get(setting.name), _checked(setting, known[setting.name])
            if is_project and _is_higher(now, before, known[setting.name].param.default):
                warnings.append(f"{path}:{setting.line}: {setting.name} is higher than without it; it is left out")
            else:
                values[setting.name] = _joined(before, now)
    return Settings(values, tuple(path for path, _ in files), tuple(warnings))


def default_map(command: Any, settings: Settings) -> dict[str, Any]:
    """What typer takes as the defaults of each command."""
    values = {name: setting.value for name, setting in settings.values.items()}
    return dict(_defaults(command, values)) if values else {}


def _defaults(group: Any, values: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, item in group.commands.items():
        if hasattr(item, "commands"):
            yield name, dict(_defaults(item, values))
        elif name not in APART:
            own = {param.name: values[param.name] for param in item.params if param.name in values and param.envvar}
            yield name, own


def _settings_of(path: Path, *, is_project: bool) -> Iterable[Setting]:
    import tomllib

    try:
        text = read_bytes(path).decode("utf-8-sig")
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: {safe_line(str(error), 160)}") from None
    for key, value in data.items():
        yield Setting(_snake(key), value, path, _line_of(key, text), is_project)


def _is_higher(now: Setting, before: Setting | None, default: Any) -> bool:
    least = before.value if before is not None else default
    return now.name in LIMITS and least is not None and float(now.value) > float(least)


def _joined(before: Setting | None, now: Setting) -> Setting:
    """A project's list of what is denied is added to the user's; any other value replaces the one before."""
    if now.name != "deny" or before is None:
        return now
    return replace(now, value=[*before.value, *now.value])


def _snake(key: str) -> str:
    """`statusLine`, `status-line` -> `status_line`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).replace("-", "_").lower()


def _line_of(key: str, text: str) -> int:
    found = re.search(rf"^[ \t]*\[*[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*[=.\]]", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def _objection(setting: Setting, known: Mapping[str, Settable]) -> str:
    """Why a setting is left out, "" where it counts."""
    shown = safe_line(setting.name, 60)
    if setting.name in ONE_RUN_ONLY:
        return f"{shown} cannot be set for good; it is left out"
    if setting.name not in known:
        near = get_close_matches(setting.name, known, n=1, cutoff=0.6)
        return f"unknown key {shown}" + (f"; did you mean {near[0]}?" if near else "; see mcpagent config show")
    if not setting.is_project:
        return ""
    if setting.name not in PROJECT_KEYS:
        return f"{shown} counts only in your own {USER_FILE}, not in a project's; it is left out"
    if setting.name == "model" and "?" in str(setting.value):
        return f"a model with options counts only in your own {USER_FILE}, not in a project's; it is left out"
    return ""


def _checked(setting: Setting, option: Settable) -> Setting:
    """The setting, if the option takes it. Raises `ConfigError`."""
    from typer.exceptions import TyperException

    value = setting.value
    if option.param.multiple and isinstance(value, str):
        value = [value]
    if isinstance(value, dict) or isinstance(value, list) != bool(option.param.multiple):
        raise _error(setting, "expected a list of strings" if option.param.multiple else "expected one value")
    try:
        option.read(value)
    except TyperException as error:
        text = getattr(error, "message", "") or error.format_message()
        raise _error(setting, safe_line(text.removeprefix("Value error, ").rstrip("."), 160)) from None
    return replace(setting, value=value)


def _error(setting: Setting, what: str) -> ConfigError:
    return ConfigError(f"{setting.file}:{setting.line}: {safe_line(setting.name, 60)}: {what}")
