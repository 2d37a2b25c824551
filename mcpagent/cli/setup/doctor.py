"""`mcpagent doctor`: check everything that a chat needs, and suggest fixes.

Exit code 3: the configuration cannot be read. 4: a model's key is missing. 5: a required server or every server fails,
or is still connecting after `server_wait` seconds. Warnings do not change the exit code.
"""

from __future__ import annotations

import os
import platform
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rich.text import Text

from mcpagent.cli.approvals.project_trust import untrusted_apart
from mcpagent.cli.common.configuration import Configuration, short_path
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.number_formats import tokens
from mcpagent.cli.common.options import Options
from mcpagent.cli.common.settings import read_settings, settable
from mcpagent.cli.screen.lines import Cell, table
from mcpagent.cli.screen.terminal import Terminal, open_terminal, put, write_json
from mcpagent.cli.servers.probing import Probe, StageName
from mcpagent.cli.servers.server_commands import (
    probe_lines,
    probe_servers,
    probe_totals,
)
from mcpagent.config import (
    ServersConfig,
    state_folder,
    user_config_folder,
    user_data_folder,
)
from mcpagent.errors import ConfigError, CredentialsError
from mcpagent.tool_search.search_options import paying_tokens
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.version import __version__

if TYPE_CHECKING:
    from mcpagent.models import Model
    from mcpagent.models.http_model import HttpModel
    from mcpagent.models.local.local_servers import ListedModel

Level: TypeAlias = Literal["ok", "warning", "error", "fixed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A result of a check. `fix` is the instruction, `repair` applies it; `code` is the exit code of an error."""

    about: Literal["environment", "model", "key", "config", "files"]
    level: Level
    text: str
    fix: str = ""
    repair: Callable[[], None] | None = None
    code: ExitCode = ExitCode.OK

    def repaired(self) -> Finding:
        """Return the finding after its repair; unchanged if it has no repair."""
        if self.repair is None:
            return self
        try:
            self.repair()
        except OSError as error:
            return replace(
                self,
                text=f"{self.text}; not fixed: {safe_line(str(error))}",
                repair=None,
            )
        return replace(self, level="fixed", code=ExitCode.OK)


def model_findings(options: Options) -> list[Finding]:
    """Return one finding for each model of the chain; an unusable model is only a warning if another one is usable."""
    from mcpagent.models.model_names import names_in

    spec = options.model or options.environ.get("MCPAGENT_MODEL", "").strip()
    names = [name for name in names_in(spec) if name]
    found = [_model_finding(replace(options, model=name)) for name in names] or [
        _model_finding(options)
    ]
    if all(finding.code is not ExitCode.OK for finding in found):
        return found
    return [
        replace(finding, level="warning", code=ExitCode.OK) if finding.code else finding
        for finding in found
    ]


def _model_finding(options: Options) -> Finding:
    """Return the finding about a model: the origin of its key, with only the last four characters of the key."""
    from mcpagent.cli.oneshot.agent_options import model_of
    from mcpagent.models.model_names import shown_spec
    from mcpagent.models.resolve import resolve_model

    spec = options.model or options.environ.get("MCPAGENT_MODEL", "").strip() or None
    try:
        model = resolve_model(model_of(options), environ=options.environ_with_keys)
    except CredentialsError as error:
        named = safe_line(shown_spec(spec or ""), 80)
        return Finding(
            "model", "error", f"model {named}: {error}", code=ExitCode.CREDENTIALS
        )
    except ConfigError as error:
        return Finding("model", "error", str(error), code=ExitCode.CONFIG)
    name = safe_line(model.name, 80)
    if name.startswith("offline"):
        text = "model offline: rules, no language model"
        if spec:
            return Finding("model", "ok", text)
        fix = "export ANTHROPIC_API_KEY=..., or mcpagent keys set ANTHROPIC_API_KEY, or -m ollama:<model>"
        return Finding("model", "warning", f"{text}, since no key is set", fix)
    text = f"model {name}, {_key_source(spec or name, options.environ_with_keys)}"
    return _at_own_server(text, model) or Finding("model", "ok", text)


def _at_own_server(text: str, model: Model) -> Finding | None:
    """Return a finding about the model from a server on this computer; None for other models."""
    from mcpagent.models.http_model import HttpModel
    from mcpagent.models.local.local_servers import (
        is_here,
        listed_models,
        parameters_at_ollama,
    )

    if not isinstance(model, HttpModel) or not is_here(model.target.base_url):
        return None
    at, hint = model.target.address, model.target.hint
    listed = listed_models(model.target.base_url)
    if listed is None:
        return Finding("model", "warning", f"{text}; no list of models at {at}", hint)
    names = (model.model_name, f"{model.model_name}:latest")
    found = next((one for one in listed if one.name in names), None)
    if found is None:
        there = ", ".join(one.name for one in listed[:5]) or "none"
        return Finding(
            "model", "warning", f"{text}; not among the models at {at}: {there}", hint
        )
    size = found.parameters or (
        parameters_at_ollama(at, model.model_name)
        if model.provider == "ollama"
        else None
    )
    return Finding(
        "model",
        "ok",
        "; ".join([text, ", ".join([f"at {at}", *_what_it_can(model, found, size)])]),
    )


def _what_it_can(
    model: HttpModel, found: ListedModel, size: int | None
) -> Iterator[str]:
    """Yield the server's data about the model, and the model's properties found by test requests, which are cached for
    a day.
    """
    from mcpagent.models.local.model_size import is_of_small_size

    known = model.server()
    window, size = found.window_tokens or known.window_tokens, size or known.parameters
    if window:
        yield f"{window:,} tokens"
    if size:
        yield f"{size / 1e9:.1f}B parameters"
    if is_of_small_size(model.model_name, window, size):
        yield "worked with as a small model (--set profile=large takes that back)"
    if not known.takes_tools:
        yield "takes no tools: they are described in the prompt"
    if not known.takes_schemas:
        yield "takes tools' schemas without patterns and limits"


def _key_source(spec: str, environ: Mapping[str, str]) -> str:
    """Return `key from env ANTHROPIC_API_KEY (…x9Qa)`."""
    from mcpagent.models.resolve import PROVIDERS, parse_spec

    parsed = parse_spec(spec)
    named = parsed.options.get("api_key_env")
    variables = (named,) if named else PROVIDERS[parsed.prefix].key_variables
    if "base_url" in parsed.options and not named:
        return "no key"
    for place, source in (("env", _plain(environ)), ("keys set", environ)):
        for variable in variables:
            if (value := source.get(variable, "")).strip():
                return f"key from {place} {variable} ({last_four(value)})"
    return "no key"


def _plain(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment without mcpagent's stored keys."""
    from mcpagent.config.secret_store import EnvironmentWithKeys

    if isinstance(environ, EnvironmentWithKeys):
        return environ.environ
    return environ


def last_four(key: str) -> str:
    """Return `…x9Qa`, or `…` for a short key, of which four characters would be a large part."""
    if len(key) >= 16:
        return f"…{safe_line(key[-4:], 4)}"
    return "…"


def key_findings(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Report keys that are set but unusable: a blank key counts as missing, which users easily overlook."""
    from mcpagent.models.resolve import PROVIDERS
    from mcpagent.models.transport.sdk_connection import usable_key

    plain = _plain(environ)
    for variable in dict.fromkeys(
        name for provider in PROVIDERS.values() for name in provider.key_variables
    ):
        if variable not in plain:
            continue
        if not plain[variable].strip():
            fix = f"unset {variable}, or give it a value"
            yield Finding("key", "warning", f"{variable} is empty (set but blank)", fix)
            continue
        try:
            usable_key(plain[variable], variable)
        except CredentialsError as error:
            yield Finding("key", "warning", str(error))


def settings_findings(options: Options, command: Any) -> Iterator[Finding]:
    """Check the `config.toml` files: errors, and ignored settings."""
    try:
        settings = read_settings(options.folder, options.environ, settable(command))
    except ConfigError as error:
        yield Finding(
            "config", "error", str(error), "mcpagent config edit", code=ExitCode.CONFIG
        )
        return
    yield from (Finding("config", "warning", warning) for warning in settings.warnings)


def file_findings(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Report the user's files with keys, conversations or decisions that other users can read or write."""
    if sys.platform == "win32":
        return
    data, state = user_data_folder(environ), state_folder(environ)
    paths = [user_config_folder(environ) / "mcp.json"]
    paths += [state / name for name in ("trust.json", "approvals.json", "history")]
    for folder in (data / "keys", data / "tokens"):
        paths += [folder, *sorted(folder.glob("*.json"))]
    for path in paths:
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        if others := mode & 0o077:
            text = f"{path} can be {'changed' if others & 0o022 else 'read'} by others (mode {mode:04o})"
            wanted = mode & 0o700
            yield Finding(
                "files",
                "warning",
                text,
                f"chmod {wanted:o} {path}",
                partial(os.chmod, path, wanted),
            )


_COLOURS = {
    None: "no colours",
    "standard": "16 colours",
    "256": "256 colours",
    "truecolor": "16 million colours",
}


def run_doctor(options: Options, command: Any, *, fix: bool) -> ExitCode:
    """Run all checks and report; with `fix`, apply repairs that need no question. `command` is typer's."""
    terminal = open_terminal(options.color)
    is_text = options.output == "text"
    findings = [
        _environment_finding(terminal),
        *model_findings(options),
        *key_findings(options.environ_with_keys),
    ]
    try:
        configuration = untrusted_apart(options, terminal)
    except ConfigError as error:
        configuration = Configuration(ServersConfig())
        findings.append(Finding("config", "error", str(error), code=ExitCode.CONFIG))
    findings += [*settings_findings(options, command), *file_findings(options.environ)]
    if fix:
        findings = [finding.repaired() for finding in findings]
    if is_text:
        put(
            terminal.out,
            *(
                line
                for finding in findings
                for line in _finding_lines(finding, terminal)
            ),
        )
        put(terminal.out, *_configuration_lines(configuration, options))
    probes = probe_servers(
        options, configuration, terminal, seconds=options.server_wait
    )
    code = _exit_code(findings, probes)
    if is_text:
        put(terminal.out, *_server_table(probes, terminal))
        for found in probes:
            if found.warnings or not found.ok:
                put(terminal.out, *probe_lines(found, options, terminal))
        put(
            terminal.out,
            *_total_lines(probes, _search_words(probes, options, configuration)),
        )
    else:
        files = [
            {
                "path": name,
                "whose": _whose(name, configuration, options).partition(":")[0],
            }
            for name in configuration.servers.files
        ]
        document = {
            "findings": [
                {
                    "about": item.about,
                    "level": item.level,
                    "text": item.text,
                    "fix": item.fix or None,
                }
                for item in findings
            ],
            "files": files,
            "demo": configuration.is_demo,
            "servers": {found.name: found.document() for found in probes},
            "exit_code": int(code),
        }
        write_json(document)
    return code


def _exit_code(findings: Sequence[Finding], probes: Sequence[Probe]) -> ExitCode:
    codes = [finding.code for finding in findings if finding.code is not ExitCode.OK]
    failed = [found for found in probes if not found.ok]
    if failed and (
        len(failed) == len(probes) or any(found.required for found in failed)
    ):
        codes.append(ExitCode.SERVERS)
    return min(codes, default=ExitCode.OK)


def _environment_finding(terminal: Terminal) -> Finding:
    """Return a finding with the versions of Python and important packages, and the terminal's capabilities."""
    encoding = (getattr(terminal.out.file, "encoding", None) or "unknown").upper()
    colours = "no terminal"
    if terminal.out.is_terminal:
        colours = _COLOURS.get(terminal.out.color_system, "colours")
    packages = f"mcpagent {__version__}, python {platform.python_version()}, mcp {version('mcp')}"
    return Finding("environment", "ok", f"{packages}, {colours}, {encoding}")


def _finding_lines(finding: Finding, terminal: Terminal) -> Iterator[Text]:
    glyphs = terminal.glyphs
    marks: Mapping[str, tuple[str, str]] = {
        "warning": (glyphs.warning, "warning"),
        "error": (glyphs.failed, "error"),
    }
    fixed = ""
    if finding.level == "fixed":
        fixed = "fixed: "
    yield Text.assemble(
        marks.get(finding.level, (glyphs.ok, "ok")), " ", fixed, finding.text
    )
    if finding.fix and not fixed:
        hint = ""
        if finding.repair is not None:
            hint = "   (or: mcpagent doctor --fix)"
        yield Text(f"  do  {finding.fix}{hint}", "dim")


def _configuration_lines(configuration: Configuration, options: Options) -> list[Text]:
    """Return lines with the configuration files and their owners."""
    if configuration.is_demo:
        why = configuration.why_demo(options.folder)
        return [
            Text(
                f"config ({why}): the bundled demo server stands in; mcpagent mcp import takes over others'"
            )
        ]
    files = [
        f"{short_path(name, options.folder)} ({_whose(name, configuration, options)})"
        for name in configuration.servers.files
    ]
    if files:
        return [Text(f"config {', '.join(files)}")]
    return []


def _whose(file: str, configuration: Configuration, options: Options) -> str:
    if options.config:
        return "given"
    if file.startswith(str(user_config_folder(options.environ))):
        return "yours"
    reasons = [
        item.reason
        for item in configuration.servers.problems
        if item.name in configuration.untrusted
    ]
    if any(f"({short_path(file, options.folder)}:" in reason for reason in reasons):
        return "project, not trusted yet: say yes in mcpagent chat, or --trust-project"
    return "project, trusted"


def _search_words(
    probes: Sequence[Probe], options: Options, configuration: Configuration
) -> str:
    """Return whether a chat starts with tool search, and why."""
    from mcpagent.cli.oneshot.agent_options import enabled_search

    chosen = enabled_search(options, configuration)
    if isinstance(chosen, bool):
        return "on" if chosen else "off"
    total = sum(found.tokens for found in probes)
    each = total / max(sum(found.tools for found in probes), 1)
    limit = paying_tokens(None, each)
    word = "on" if total > limit else "off"
    return f"{word} (auto begins at about {tokens(limit)} tokens)"


def _total_lines(probes: Sequence[Probe], search: str) -> Iterator[Text]:
    """Yield `68 of 70 usable. 527 tools, 99,956 tokens; tool search: on`."""
    if not probes:
        return
    yield Text(f"{probe_totals(probes, '.')}; tool search: {search}")


# -- Table of servers --------------------------------------------------------------------------------------------------

COLUMNS: tuple[tuple[str, tuple[StageName, ...]], ...] = (
    ("vars", ("variables", "trust")),
    ("exec", ("executable", "address")),
    ("spawn", ("spawn",)),
    ("init", ("initialize",)),
    ("list", ("list",)),
)
NAME_WIDTH = 24


def _server_table(probes: Sequence[Probe], terminal: Terminal) -> list[Text]:
    """Return the head and a row for each server; a row ends at the stage that failed."""
    head: list[Cell] = [
        (title, "dim")
        for title in ("server", *(title for title, _ in COLUMNS), " tools", "  tokens")
    ]
    if probes:
        return table([head, *(_row(found, terminal) for found in probes)], "  ")
    return []


def _row(found: Probe, terminal: Terminal) -> list[Cell]:
    glyphs = terminal.glyphs
    row: list[Cell] = [(safe_line(found.name, NAME_WIDTH), "user")]
    for title, names in COLUMNS:
        stage = next((stage for stage in found.stages if stage.name in names), None)
        if stage is not None and not stage.ok:
            row.append(
                ("..", "dim") if found.is_connecting else (glyphs.failed, "error")
            )
            return [*row, *[""] * (len(COLUMNS) + 3 - len(row))]
        if stage is None and title == "spawn":  # a remote server has no process
            row.append(("-", "dim"))
        elif stage is None or stage.seconds is None:
            row.append((glyphs.ok, "ok"))
        else:
            row.append(f"{stage.seconds:.1f}s")
    return [*row, f"{found.tools:>6}", f"{found.tokens:>8,}"]
