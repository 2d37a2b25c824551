"""`mcpagent doctor`: is everything there that a chat needs, and where not, what to do.

Exit code 3 for a configuration that cannot be read, 4 for a model whose key is missing, 5 where a required server or
every server fails; a warning changes nothing.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rich.text import Text

from mcpagent.cli.activity import Activity
from mcpagent.cli.configuration import Configuration, short_path
from mcpagent.cli.doctor_checks import Finding, Level, file_findings, key_findings, model_finding, settings_findings
from mcpagent.cli.doctor_table import server_table
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.figures import counted
from mcpagent.cli.options import Options, OutputFormat
from mcpagent.cli.probing import Probe
from mcpagent.cli.server_tests import probe_servers
from mcpagent.cli.stdout import write_json
from mcpagent.cli.terminal import Glyphs, Terminal, open_terminal, put
from mcpagent.cli.trust_box import untrusted_apart
from mcpagent.config import ServersConfig, user_config_folder
from mcpagent.errors import ConfigError

_COLOURS = {None: "no colours", "standard": "16 colours", "256": "256 colours", "truecolor": "16 million colours"}


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found. `configuration` is empty where it could not be read."""

    findings: tuple[Finding, ...]
    configuration: Configuration
    probes: tuple[Probe, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        codes = [finding.code for finding in self.findings if finding.code is not ExitCode.OK]
        failed = [found for found in self.probes if not found.ok]
        if failed and (len(failed) == len(self.probes) or any(found.required for found in failed)):
            codes.append(ExitCode.SERVERS)
        return min(codes, default=ExitCode.OK)


def run_doctor(options: Options, command: Any, *, fix: bool) -> ExitCode:
    """Looks at everything and tells; with `fix` mends what can be mended without a question. `command` is typer's."""
    terminal = open_terminal(options.color, os.environ)
    told = options.output is OutputFormat.text
    configuration, findings = _configuration(options, terminal)
    findings = [*environment_findings(terminal), model_finding(options), *key_findings(options.environ), *findings]
    findings += [*settings_findings(options, command), *file_findings(options.environ)]
    if fix:
        findings = [finding.mended() for finding in findings]
    if told:
        put(terminal.out, *(line for finding in findings for line in _finding_lines(finding, terminal.glyphs)))
        put(terminal.out, *configuration_lines(configuration, options))
    probes = _probes(options, configuration, terminal)
    report = Report(tuple(findings), configuration, tuple(probes))
    if told:
        put(terminal.out, *server_table(probes, terminal, options.folder), *total_lines(probes))
    else:
        write_json(document(report, options))
    return report.exit_code


def _configuration(options: Options, terminal: Terminal) -> tuple[Configuration, list[Finding]]:
    try:
        return untrusted_apart(options, terminal), []
    except ConfigError as error:
        finding = Finding("config", "error", str(error), code=ExitCode.CONFIG)
        return Configuration(ServersConfig()), [finding]


def _probes(options: Options, configuration: Configuration, terminal: Terminal) -> list[Probe]:
    activity = Activity(terminal.err, terminal.glyphs)
    activity.show(f"testing {counted(len(configuration.enabled), 'server')}")
    try:
        return asyncio.run(probe_servers(options, configuration, lambda _: None))
    finally:
        activity.hide()


def environment_findings(terminal: Terminal) -> Iterator[Finding]:
    """Python, the packages that matter, and what the terminal can do."""
    python = platform.python_version()
    stream = terminal.out.file
    encoding = (getattr(stream, "encoding", None) or "unknown").upper()
    colours = _COLOURS.get(terminal.out.color_system, "colours") if terminal.out.is_terminal else "no terminal"
    text = f"mcpagent {_version('mcpagent')}, python {python}, mcp {_version('mcp')}, {colours}, {encoding}"
    yield Finding("environment", "ok", text)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"


def _finding_lines(finding: Finding, glyphs: Glyphs) -> Iterator[Text]:
    marks: Mapping[Level, tuple[str, str]] = {
        "ok": (glyphs.ok, "ok"),
        "warning": (glyphs.warning, "warning"),
        "error": (glyphs.failed, "error"),
        "fixed": (glyphs.ok, "ok"),
    }
    fixed = "fixed: " if finding.level == "fixed" else ""
    yield Text.assemble(marks[finding.level], " ", fixed, finding.text)
    if finding.mend and finding.level != "fixed":
        hint = "   (or: mcpagent doctor --fix)" if finding.fix is not None else ""
        yield Text(f"  do  {finding.mend}{hint}", "dim")


def configuration_lines(configuration: Configuration, options: Options) -> list[Text]:
    """The files that are read, and whose they are."""
    if configuration.is_demo:
        return [Text("config none found: the bundled demo server stands in; mcpagent mcp import takes over others'")]
    files = [
        f"{short_path(name, options.folder)} ({_whose(name, configuration, options)})"
        for name in configuration.servers.files
    ]
    return [Text(f"config {', '.join(files)}")] if files else []


def _whose(file: str, configuration: Configuration, options: Options) -> str:
    if options.config:
        return "given"
    if file.startswith(str(user_config_folder(options.environ))):
        return "yours"
    reasons = [item.reason for item in configuration.servers.problems if item.name in configuration.untrusted]
    if any(f"({short_path(file, options.folder)}:" in reason for reason in reasons):
        return "project, not trusted yet: say yes in mcpagent chat, or --trust-project"
    return "project, trusted"


def total_lines(probes: Sequence[Probe]) -> list[Text]:
    """`68 of 70 usable. 527 tools, 99,956 tokens; tool search: on`."""
    if not probes:
        return []
    from mcpagent.catalog import paying_tokens

    usable = sum(1 for found in probes if found.ok)
    tools, tokens = sum(found.tools for found in probes), sum(found.tokens for found in probes)
    limit = paying_tokens(None)
    search = f"; tool search: {'on' if tokens > limit else 'off'} (auto begins at about {limit:,} tokens)"
    lines = [Text(f"{usable} of {len(probes)} usable. {counted(tools, 'tool')}, {tokens:,} tokens{search}")]
    if usable < len(probes):
        lines.append(Text("mcpagent mcp test NAME tells more about one server", "dim"))
    return lines


def document(report: Report, options: Options) -> dict[str, Any]:
    """For `--json`."""
    return {
        "findings": [finding.document() for finding in report.findings],
        "files": [
            {"path": name, "whose": _whose(name, report.configuration, options).partition(":")[0]}
            for name in report.configuration.servers.files
        ],
        "demo": report.configuration.is_demo,
        "servers": {found.name: found.document() for found in report.probes},
        "exit_code": int(report.exit_code),
    }
