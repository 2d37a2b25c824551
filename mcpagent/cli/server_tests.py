"""`mcpagent mcp test`: each server stage by stage, with times, what is doubtful about it, and what mends it."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from rich.text import Text

from mcpagent.cli.activity import Activity
from mcpagent.cli.configuration import Configuration, short_path
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.figures import counted, duration
from mcpagent.cli.folders import state_folder
from mcpagent.cli.options import Options, OutputFormat
from mcpagent.cli.probing import Probe, probe_all, probe_of_problem
from mcpagent.cli.server_files import unknown_server
from mcpagent.cli.stdout import write_json
from mcpagent.cli.terminal import Terminal, open_terminal, put
from mcpagent.cli.trust_box import untrusted_apart
from mcpagent.config import ServersConfig
from mcpagent.errors import InputError
from mcpagent.mcp.authentication import stored_sign_ins
from mcpagent.safe_text import safe_line

LABEL_WIDTH = 11

TellProbe: TypeAlias = Callable[[Probe], None]


def run_server_test(options: Options, name: str | None) -> ExitCode:
    """Tries every server, or the named one. Exit code 5 where one failed."""
    terminal = open_terminal(options.color, os.environ)
    configuration = untrusted_apart(options, terminal)
    if name is not None:
        configuration = only(configuration, name)
    told = options.output is OutputFormat.text

    def tell(found: Probe) -> None:
        if told:
            with activity.paused():
                put(terminal.out, *probe_lines(found, options, terminal))

    activity = Activity(terminal.err, terminal.glyphs)
    activity.show(f"testing {counted(len(configuration.enabled), 'server')}")
    try:
        probes = asyncio.run(probe_servers(options, configuration, tell))
    finally:
        activity.hide()
    if told:
        put(terminal.out, totals(probes, terminal))
    else:
        write_json({found.name: found.document() for found in probes})
    return ExitCode.OK if all(found.ok for found in probes) else ExitCode.SERVERS


async def probe_servers(options: Options, configuration: Configuration, tell: TellProbe) -> list[Probe]:
    """All servers, in the order of the configuration: those that cannot be tried first, disabled ones left out."""
    problems = [
        probe_of_problem(problem, untrusted=problem.name in configuration.untrusted)
        for problem in configuration.servers.problems
    ]
    for found in problems:
        tell(found)
    logs, auth = state_folder(options.environ) / "logs", stored_sign_ins(options.environ)
    return [*problems, *await probe_all(configuration.enabled, options.environ, logs, auth, tell)]


def only(configuration: Configuration, name: str) -> Configuration:
    """The configuration with this server alone. Raises `InputError`."""
    servers = [server for server in configuration.servers.servers if server.name == name]
    problems = [problem for problem in configuration.servers.problems if problem.name == name]
    if not (servers or problems):
        raise InputError(unknown_server(name, configuration.names))
    if servers and servers[0].disabled:
        raise InputError(f'server "{name}" is disabled; mcpagent mcp enable {shlex.quote(name)}')
    found = ServersConfig(tuple(servers), tuple(problems), configuration.servers.files)
    return Configuration(found, configuration.is_demo, configuration.untrusted)


def probe_lines(found: Probe, options: Options, terminal: Terminal) -> list[Text]:
    """A head line, a line for each stage, and what to do."""
    return list(_lines(found, options, terminal))


def _lines(found: Probe, options: Options, terminal: Terminal) -> Iterator[Text]:
    glyphs = terminal.glyphs
    mark = (glyphs.ok, "ok") if found.ok else (glyphs.failed, "error")
    yield Text.assemble(mark, " ", (safe_line(found.name, 64), "user"))
    for stage in found.stages:
        detail = short_path(stage.detail, options.folder) if stage.name == "config" else stage.detail
        took = "" if stage.seconds is None else duration(stage.seconds)
        text = "   ".join(filter(None, (took, detail)))
        if stage.ok:
            yield Text(f"    {stage.name:<{LABEL_WIDTH}} {text}", "dim")
        else:
            yield Text.assemble(f"    {stage.name:<{LABEL_WIDTH}} ", (f"{glyphs.failed} ", "error"), text)
    if found.capabilities:
        yield Text(f"    {'can':<{LABEL_WIDTH}} {', '.join(found.capabilities)}", "dim")
    if found.tools:
        yield Text(f"    {'tokens':<{LABEL_WIDTH}} {found.tokens:,}", "dim")
    shown = found.failure.detail if found.failure is not None else ""
    for line in found.said[-5:] if not found.ok else ():
        if line not in shown:
            yield Text(f"    {glyphs.bar} {safe_line(line, 160)}", "dim")
    if found.mend:
        yield Text(f"    {'do':<{LABEL_WIDTH}} {found.mend}")
    if not found.ok and any(stage.name == "spawn" for stage in found.stages):
        yield Text(f"    {'full log':<{LABEL_WIDTH}} mcpagent mcp logs {shlex.quote(safe_line(found.name, 64))}", "dim")
    for warning in found.warnings:
        yield Text(f"    {glyphs.warning} {warning}", "warning")


def totals(probes: Sequence[Probe], terminal: Terminal) -> str:
    """`2 of 3 usable . 14 tools, 2,310 tokens`."""
    usable = sum(1 for found in probes if found.ok)
    tools = sum(found.tools for found in probes)
    tokens = sum(found.tokens for found in probes)
    return f"{usable} of {len(probes)} usable {terminal.glyphs.dot} {counted(tools, 'tool')}, {tokens:,} tokens"
