"""`mcpagent gateway status` and `logs`: the log of the user's gateways."""

from __future__ import annotations

import time
from dataclasses import asdict

from mcpagent.cli.common.exit_codes import ExitCode
from mcpagent.cli.common.options import Options
from mcpagent.cli.screen.terminal import open_terminal
from mcpagent.gateway.gateway_log import (
    Counts,
    GatewayEvent,
    log_folder,
    read_events,
)
from mcpagent.utilities.text.safe_text import safe_line


def show_status(options: Options) -> ExitCode:
    """Write the totals of the log."""
    document = Counts(read_events(log_folder(options.environ))).document()
    running = ", ".join(map(str, document["running"])) or "none"
    lines = [f"running: {running}"]
    for client, saved in document["tokens_saved"].items():
        lines.append(
            f"saved for {safe_line(client or 'a client', 60)}: {saved:,} tokens"
        )
    for row in document["slowest"]:
        tool, seconds = safe_line(row["tool"], 60), row["median_seconds"]
        lines.append(f"slow: {tool}  {seconds:.3f} s  {row['calls']} calls")
    for row in document["failed_searches"]:
        query = safe_line(row["query"], 100)
        lines.append(f'found nothing: "{query}"  {row["searches"]} times')
    if document["failed_searches"]:
        lines.append(
            "mcpagent tools lint proposes the tools that should be found by such words"
        )
    open_terminal(options.color).report(options, document, *lines)
    return ExitCode.OK


def show_calls(options: Options, most: int) -> ExitCode:
    """Write the last events of the log."""
    events = list(read_events(log_folder(options.environ)))[-most:]
    lines = [*map(_line, events)] or ["no gateway has run yet"]
    document = [asdict(event) for event in events]
    open_terminal(options.color).report(options, document, *lines)
    return ExitCode.OK


def _line(event: GatewayEvent) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.time))
    about = {
        "call": f"{event.tool}  {event.outcome}  {event.seconds:.3f} s",
        "search": f'"{event.query}"  {event.outcome}',
        "list": f"{event.listed_tokens} of {event.known_tokens} tokens listed",
    }.get(event.kind, f"process {event.pid}")
    return safe_line(f"{when}  {event.kind}  {event.client}  {about}", 300)
