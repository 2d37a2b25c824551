"""`config.toml`: the user's own defaults for options, and those that a project may set for its users.

In order of precedence: a flag, its variable, the project's `.mcpagent.toml`, the user's `config.toml`, the built-in
default. A project's file came with a repository, so it may only set options that grant nothing: the model (without
options that could redirect the conversation), tool search, lower limits, and more denials.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mcpagent.cli.common.error_lines import did_you_mean
from mcpagent.cli.common.options import leaves, options_in
from mcpagent.config.config_documents import read_bytes
from mcpagent.errors import ConfigError
from mcpagent.utilities.filesystem.bounded_files import is_nobody_elses
from mcpagent.utilities.filesystem.user_folders import (
    project_folders,
    user_config_folder,
)
from mcpagent.utilities.text.safe_text import safe_line

USER_FILE = "config.toml"
PROJECT_FILE = ".mcpagent.toml"
LIMITS = frozenset(
    {
        "max_turns",
        "max_calls",
        "max_tokens",
        "max_cost",
        "max_seconds",
        "timeout",
        "server_wait",
    }
)
PROJECT_KEYS = LIMITS | {"model", "tool_search", "always_load", "deny"}
ONE_RUN_ONLY = frozenset(
    {"config", "card", "record", "replay", "json_schema", "debug", "trust_project"}
)
"""Options of a single run, which a file must not set for all runs."""

OWN_VARIABLES = frozenset(
    {
        "MCPAGENT_HOME",
        "MCPAGENT_LOG",
        "MCPAGENT_DEBUG",
        "MCPAGENT_PYTHON",
        "MCPAGENT_SIGNING_KEY",
        "MCPAGENT_CLIENT_SECRET",
    }
)
"""Environment variables of the program that are not options."""

LEAST_ALIKE = 0.9
"""Minimum similarity (`difflib`) of a suggested variable's name; the prefix alone gives 0.6."""

APART = frozenset({"demo"})
"""Commands that ignore settings, because they must behave the same for all users."""

MOST_KEYS = 1_000
_KEY = re.compile(r"[\"']?([^\"'=.\]\s]+)")


@dataclass(frozen=True, slots=True)
class Setting:
    """A value in a settings file; `name` is the option's, in Python's spelling."""

    name: str
    value: Any
    file: Path
    line: int
    is_project: bool


@dataclass(frozen=True, slots=True)
class Settings:
    """The effective values by name, the files that they come from, and one warning for each ignored value."""

    values: Mapping[str, Setting] = field(default_factory=dict[str, Setting])
    own_model: str = ""
    files: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()
    written: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True)
class Settable:
    """An option that a file may set, and a command that has this option, as typer's objects."""

    param: Any
    command: Any

    def read(self, value: Any) -> Any:
        """Return the value converted to the option's type. Raises typer's own error."""
        return self.param.process_value(self.command.context_class(self.command), value)


def settable(command: Any) -> dict[str, Settable]:
    """Return each option that a file may set, by name."""
    found: dict[str, Settable] = {}
    for path, leaf in leaves(command):
        for param in (
            options_in(leaf) if len(path) == 1 and path[0] not in APART else ()
        ):
            if param.envvar and param.name not in ONE_RUN_ONLY:
                found.setdefault(param.name, Settable(param, leaf))
    return found


def read_settings(
    folder: Path, environ: Mapping[str, str], known: Mapping[str, Settable]
) -> Settings:
    """Read all files and check the values against their options; later files win. Raises `ConfigError` with file and
    line.
    """
    values: dict[str, Setting] = {}
    warnings: list[str] = []
    written: list[Setting] = []
    own_model = ""
    own = user_config_folder(environ) / USER_FILE
    if not is_nobody_elses(own):
        warnings.append(
            f"{own}: another user's, or everybody may write into it; it counts as a project's; chmod go-w"
        )
    files = [(own, not is_nobody_elses(own))]
    files += [(above / PROJECT_FILE, True) for above in project_folders(folder)]
    warnings += [
        f"{path}: is no file that can be read, so nothing in it counts, no deny either; replace it with a file"
        for path, _ in files
        if os.path.lexists(path) and not path.is_file()
    ]
    files = [(path, is_project) for path, is_project in files if path.is_file()]
    for path, is_project in files:
        for setting in _settings_of(path, is_project=is_project):
            name, place = setting.name, f"{path}:{setting.line}"
            if warning := _objection(setting, known):
                warnings.append(f"{place}: {warning}")
                continue
            now, before = _checked(setting, known[name]), values.get(name)
            written.append(now)
            if before is not None:
                least = before.value
            else:
                least = known[name].param.default
            if (
                is_project
                and name in LIMITS
                and least is not None
                and _number(now.value) > _number(least)
            ):
                warnings.append(
                    f"{place}: {name} is higher than without it; it is left out"
                )
            elif (
                name == "deny" and before is not None
            ):  # a project's list is added to the user's
                values[name] = replace(now, value=[*before.value, *now.value])
            else:
                values[name] = now
        if not is_project and "model" in values:
            own_model = str(values["model"].value)
    return Settings(
        values,
        own_model,
        tuple(path for path, _ in files),
        tuple(warnings),
        tuple(written),
    )


def misspelt_variables(environ: Mapping[str, str], command: Any) -> list[str]:
    """Return a warning for each variable whose name is similar to one that the program reads.

    Variables with other names may be the user's own, for `${NAME}` in a configuration.
    """
    known = {*OWN_VARIABLES}
    for _, leaf in leaves(command):
        known |= {param.envvar for param in options_in(leaf) if param.envvar}
    return [
        f"variable {safe_line(name, 60)} is not read; {did_you_mean(near)}"
        for name in sorted(environ)
        if name.startswith("MCPAGENT_") and name not in known
        if (near := get_close_matches(name[:80], known, n=1, cutoff=LEAST_ALIKE))
    ]


def _number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def default_map(command: Any, settings: Settings) -> dict[str, Any]:
    """Return the defaults of each command in typer's form."""
    found: dict[str, Any] = {}
    for path, leaf in leaves(command) if settings.values else ():
        own = {
            param.name: settings.values[param.name].value
            for param in options_in(leaf)
            if param.name in settings.values and param.envvar
        }
        if "model" in own and (model := settings.values["model"]).is_project:
            own |= {"model_file": str(model.file), "own_model": settings.own_model}
        if path[0] not in APART:
            if len(path) == 1:
                group = found
            else:
                group = found.setdefault(path[0], {})
            group[path[-1]] = own
    return found


def _settings_of(path: Path, *, is_project: bool) -> Iterable[Setting]:
    import tomllib

    try:
        text = read_bytes(path).decode("utf-8-sig")
        data = tomllib.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # errors of TOML, of UTF-8, or about a number of over 4,300 digits
        what = safe_line(str(error).partition("; use sys.")[0], 160)
        raise ConfigError(f"{path}: {what}; write what TOML allows") from None
    if len(data) > MOST_KEYS:
        raise ConfigError(
            f"{path}: has more than {MOST_KEYS} keys; it sets options of the command line"
        )
    lines: dict[str, int] = {}
    for number, words in enumerate(text.splitlines(), start=1):
        found = _KEY.match(words.strip().lstrip("[").lstrip())
        if found is not None:
            lines.setdefault(found[1], number)
    for key, value in data.items():
        name = (
            re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).replace("-", "_").lower()
        )  # accepts statusLine and status-line
        yield Setting(name, value, path, lines.get(key, 1), is_project)


def _objection(setting: Setting, known: Mapping[str, Settable]) -> str:
    """Return why a setting is ignored; "" if it is valid."""
    shown = safe_line(setting.name, 60)
    if setting.name in ONE_RUN_ONLY:
        return f"{shown} cannot be set for good; it is left out"
    if setting.name not in known:
        near = get_close_matches(setting.name[:80], known, n=1)
        return f"unknown key {shown}; {did_you_mean(near, 'see mcpagent config show')}"
    if not setting.is_project:
        return ""
    if setting.name not in PROJECT_KEYS:
        return f"{shown} counts only in your own {USER_FILE}, not in a project's; it is left out"
    if setting.name == "model" and "?" in str(setting.value):
        return f"a model with options counts only in your own {USER_FILE}, not in a project's; it is left out"
    return ""


def _checked(setting: Setting, option: Settable) -> Setting:
    """Return the setting with the value converted by its option. Raises `ConfigError`."""
    from typer.exceptions import TyperException

    value = setting.value
    if option.param.multiple and isinstance(value, str):
        value = [value]
    place = f"{setting.file}:{setting.line}: {safe_line(setting.name, 60)}"
    if option.param.multiple:
        is_list = isinstance(value, list)
        if not is_list or not all(isinstance(item, str) for item in value):
            raise ConfigError(f"{place}: expected a list of strings")
    elif isinstance(value, list | dict):
        raise ConfigError(f"{place}: expected one value")
    try:
        option.read(value)
    except OverflowError:
        raise ConfigError(f"{place}: is no number that can be used") from None
    except TyperException as error:
        text = getattr(error, "message", "") or error.format_message()
        raise ConfigError(
            f"{place}: {safe_line(text.removeprefix('Value error, ').rstrip('.'), 160)}"
        ) from None
    return replace(setting, value=value)
