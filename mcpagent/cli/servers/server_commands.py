"""`mcpagent mcp list|test|logs`: list the configured servers, test each stage by stage, show their output."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from rich.text import Text

from mcpagent.cli.approvals.project_trust import untrusted_apart, waiting_servers
from mcpagent.cli.common.configuration import (
    Configuration,
    load_configuration,
    short_path,
    target_of,
)
from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.number_formats import counted, duration
from mcpagent.cli.common.options import Options
from mcpagent.cli.screen.lines import column
from mcpagent.cli.screen.rendering import Activity
from mcpagent.cli.screen.terminal import (
    Terminal,
    open_terminal,
    put,
    write_json,
    write_out,
)
from mcpagent.cli.servers.probing import Probe, probe, probe_all, probe_of_problem
from mcpagent.cli.servers.server_editing import unknown_server
from mcpagent.config import ServerConfig, ServersConfig
from mcpagent.errors import InputError
from mcpagent.mcp.server_options import server_log_folder, stored_sign_ins
from mcpagent.mcp.transports.server_log import log_path
from mcpagent.utilities.filesystem.bounded_files import open_regular
from mcpagent.utilities.text.safe_text import safe_line

LABEL_WIDTH = 11

ReportProbe: TypeAlias = Callable[[Probe], None]


def list_servers(options: Options) -> ExitCode:
    """Run `mcpagent mcp list`; starts no server."""
    terminal = open_terminal(options.color)
    configuration = load_configuration(options)
    waiting = waiting_servers(configuration, options)
    document = {
        "files": list(configuration.servers.files),
        "demo": configuration.is_demo,
        "servers": {
            server.name: {
                "target": target_of(server),
                "disabled": server.disabled,
                "scope": server.scope or None,
                "trusted": server.name not in waiting,
                "source": server.source or None,
                "description": server.description or None,
            }
            for server in configuration.servers.servers
        },
        "problems": {
            problem.name: problem.reason for problem in configuration.servers.problems
        },
    }
    terminal.report(
        options, document, *_configured_lines(configuration, waiting, options, terminal)
    )
    return ExitCode.OK


def _configured_lines(
    configuration: Configuration,
    waiting: Collection[str],
    options: Options,
    terminal: Terminal,
) -> Iterator[Text]:
    """Yield the lines of the configuration; `waiting` are the servers without the user's consent."""
    width = max(map(len, configuration.names), default=0)
    for server in configuration.servers.servers:
        if server.disabled:
            mark = "-"
        else:
            mark = terminal.glyphs.dot
        if server.disabled:
            state = "disabled  "
        elif server.name in waiting:
            state = "not trusted yet  "
        else:
            state = ""
        if server.source:
            source = f"  {short_path(server.source, options.folder)}"
        else:
            source = ""
        name = column(safe_line(server.name, 64), width)
        yield Text.assemble(
            f"{mark} ", (name, "user"), f"  {state}{target_of(server)}", (source, "dim")
        )
    for problem in configuration.servers.problems:
        name = column(safe_line(problem.name, 64), width)
        failed = (f"{terminal.glyphs.failed} ", "error")
        yield Text.assemble(
            failed, (name, "user"), f"  {safe_line(problem.reason, 300)}"
        )
    yield Text(configuration.describe(options.folder), "dim")


# -- Server tests ------------------------------------------------------------------------------------------------------


def run_server_test(options: Options, name: str | None) -> ExitCode:
    """Test every server, or the named one. Exit code 5 if one failed."""
    terminal = open_terminal(options.color)
    configuration = untrusted_apart(options, terminal)
    if name is not None:
        configuration = _only(configuration, name)
    is_text = options.output == "text"

    def report(found: Probe) -> None:
        if is_text:
            put(terminal.out, *probe_lines(found, options, terminal))

    probes = probe_servers(options, configuration, terminal, report)
    if is_text:
        put(terminal.out, f"{probe_totals(probes, f' {terminal.glyphs.dot}')}")
    else:
        write_json({found.name: found.document() for found in probes})
    if all(found.ok for found in probes):
        return ExitCode.OK
    return ExitCode.SERVERS


def probe_servers(
    options: Options,
    configuration: Configuration,
    terminal: Terminal,
    report: ReportProbe = lambda _: None,
    *,
    seconds: float | None = None,
) -> list[Probe]:
    """Test all enabled servers, in the order of the configuration, after reporting the unusable ones.

    `seconds` is as in `probe`.
    """
    problems = [
        probe_of_problem(problem, untrusted=problem.name in configuration.untrusted)
        for problem in configuration.servers.problems
    ]
    logs, auth = server_log_folder(options.environ), stored_sign_ins(options.environ)
    activity = Activity(terminal.err, terminal.glyphs)

    def report_between(found: Probe) -> None:
        with activity.paused():
            report(found)

    def say(line: str) -> None:
        with activity.paused():
            terminal.warn(line)

    for found in problems:
        report(found)
    with activity.showing(f"testing {counted(len(configuration.enabled), 'server')}"):
        trying = probe_all(
            configuration.enabled,
            options.environ,
            logs,
            auth,
            report_between,
            seconds=seconds,
            say=say,
        )
        tried = asyncio.run(trying)
    return [*problems, *tried]


def _only(configuration: Configuration, name: str) -> Configuration:
    """Return the configuration with only this server. Raises `InputError` for an unknown name."""
    servers = tuple(
        server for server in configuration.servers.servers if server.name == name
    )
    problems = tuple(
        problem for problem in configuration.servers.problems if problem.name == name
    )
    if not (servers or problems):
        raise InputError(unknown_server(name, configuration.names))
    if servers and servers[0].disabled:
        raise InputError(
            f'server "{name}" is disabled; mcpagent mcp enable {shlex.quote(name)}'
        )
    found = ServersConfig(servers, problems, configuration.servers.files)
    return replace(configuration, servers=found)


def probe_lines(found: Probe, options: Options, terminal: Terminal) -> Iterator[Text]:
    """Yield a head line, a line for each stage, and the suggested fix."""

    def labelled(label: str, text: str, style: str = "dim") -> Text:
        return Text(f"    {label:<{LABEL_WIDTH}} {text}", style)

    glyphs = terminal.glyphs
    unready = ("..", "dim") if found.is_connecting else (glyphs.failed, "error")
    yield Text.assemble(
        (glyphs.ok, "ok") if found.ok else unready,
        " ",
        (safe_line(found.name, 64), "user"),
    )
    for stage in found.stages:
        detail = (
            short_path(stage.detail, options.folder)
            if stage.name == "config"
            else stage.detail
        )
        took = "" if stage.seconds is None else duration(stage.seconds)
        style = "dim" if stage.ok else ""
        label, text = (
            f"    {stage.name:<{LABEL_WIDTH}} ",
            "   ".join(filter(None, (took, detail))),
        )
        yield Text.assemble(
            (label, style), *(() if stage.ok else (unready, " ")), (text, style)
        )
    if found.capabilities:
        yield labelled("can", ", ".join(found.capabilities))
    if found.tools:
        yield labelled("tokens", f"{found.tokens:,}")
    shown = found.failure.detail if found.failure is not None else ""
    for line in found.last_words[-5:] if not found.ok else ():
        if line not in shown:
            yield Text(f"    {glyphs.bar} {safe_line(line, 160)}", "dim")
    if found.fix:
        yield labelled("do", found.fix, "")
    if not found.ok and any(stage.name == "spawn" for stage in found.stages):
        yield labelled(
            "full log", f"mcpagent mcp logs {shlex.quote(safe_line(found.name, 64))}"
        )
    yield from (
        Text(f"    {glyphs.warning} {warning}", "warning") for warning in found.warnings
    )


def probe_totals(probes: Sequence[Probe], end: str) -> str:
    """Return `2 of 3 usable. 14 tools, 2,310 tokens`; `end` follows "usable"."""
    usable = sum(1 for found in probes if found.ok)
    tools, tokens = (
        sum(found.tools for found in probes),
        sum(found.tokens for found in probes),
    )
    return f"{usable} of {len(probes)} usable{end} {counted(tools, 'tool')}, {tokens:,} tokens"


TRY_SECONDS = 15.0
"""Maximum wait of `mcp add` for a new server to answer, fail, or be reported as silent."""


def try_added(options: Options, server: ServerConfig) -> bool:
    """Start a server that was just added, and report whether it answers; return False for a server with an address.

    An address may need a sign-in first, which only the user starts.
    """
    if not server.command:
        return False
    terminal = open_terminal(options.color)
    activity = Activity(terminal.err, terminal.glyphs)
    shown = safe_line(server.name, 64)
    with activity.showing(f"starting {shown}"):
        found = asyncio.run(_tried(options, server, terminal, activity))
    if found is None or found.is_connecting:
        return False
    if found.failure is None:
        put(terminal.out, f"{shown} answers: {found.stages[-1].detail}", style="dim")
        return True
    terminal.warn(f"{shown} {found.failure.detail}")
    if found.fix:
        put(terminal.err, f"  do      {found.fix}")
    return False


async def _tried(
    options: Options, server: ServerConfig, terminal: Terminal, activity: Activity
) -> Probe | None:
    """Return the outcome of a start; None if the server is reported as silent."""
    silent = asyncio.Event()

    def say(line: str) -> None:
        with activity.paused():
            terminal.warn(line)
        silent.set()

    logs, auth = server_log_folder(options.environ), stored_sign_ins(options.environ)
    trying = asyncio.create_task(
        probe(server, options.environ, logs, auth, seconds=TRY_SECONDS, say=say)
    )
    waiting = asyncio.create_task(silent.wait())
    try:
        await asyncio.wait((trying, waiting), return_when=asyncio.FIRST_COMPLETED)
        if trying.done():
            return trying.result()
        return None
    finally:
        trying.cancel()
        waiting.cancel()
        await asyncio.gather(trying, waiting, return_exceptions=True)


# -- Server logs -------------------------------------------------------------------------------------------------------

LONGEST_LINE = 2_100
TAIL_BYTES = 2_000_000
LOOK_SECONDS = 0.2


def show_log(options: Options, name: str, lines: int, *, follow: bool) -> ExitCode:
    """Print the last lines of a server's log, then, with `follow`, each new one. Raises `InputError` for an unknown
    server.
    """
    terminal = open_terminal(options.color)
    path = log_path(server_log_folder(options.environ), name)
    known = load_configuration(options).names
    if not path.exists() and name not in known:
        raise InputError(unknown_server(name, known))
    start = _state(path)
    for line in last_lines(path, lines, start[0]):
        write_out(line + "\n")
    if not path.exists():
        put(
            terminal.err,
            f"{safe_line(name, 64)} has written nothing yet ({path})",
            style="dim",
        )
    if follow:
        for line in followed(path, start, lambda: time.sleep(LOOK_SECONDS)):
            write_out(line + "\n")
    return ExitCode.OK


FileState: TypeAlias = tuple[int, int]
"""Size and inode of a file; zeros if it is missing."""


def last_lines(path: Path, count: int, end: int | None = None) -> list[str]:
    """Return the last `count` lines before `end` (None: the end of the file), printable; the previous log file fills up
    missing lines.
    """
    kept = _tail(path, end)
    if len(kept) < count:
        kept = [*_tail(path.with_name(f"{path.name}.1")), *kept]
    return [safe_line(line, LONGEST_LINE) for line in kept[-count:]]


def followed(path: Path, start: FileState, wait: Callable[[], None]) -> Iterator[str]:
    """Yield each complete line written after `start`; `wait` is called while there is no new line.

    If a new file replaces the log, its lines follow.
    """
    (at, identity), rest = start, b""
    while True:
        size, now = _state(path)
        if now != identity or size < at:
            at, identity, rest = 0, now, b""
        data = b""
        if size > at:
            data = _read(path, at, TAIL_BYTES)
        if not data:
            wait()
            continue
        at += len(data)
        *whole, rest = (rest + data).split(b"\n")
        yield from (
            safe_line(line.decode("utf-8", "replace"), LONGEST_LINE) for line in whole
        )


def _state(path: Path) -> FileState:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_ino


def _tail(path: Path, end: int | None = None) -> list[str]:
    if end is None:
        stop = _state(path)[0]
    else:
        stop = end
    start = max(0, stop - TAIL_BYTES)
    return _read(path, start, stop - start).decode("utf-8", "replace").splitlines()


def _read(path: Path, start: int, count: int) -> bytes:
    try:
        with open_regular(path) as file:
            file.seek(start)
            return file.read(count)
    except OSError:
        return b""
