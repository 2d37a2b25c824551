"""`mcpagent worker`: a process that executes durable runs, until it is stopped."""

from __future__ import annotations

import asyncio

from rich.text import Text

from mcpagent.agents.durable import DurableRuns
from mcpagent.cli.approvals.project_trust import trusted_configuration
from mcpagent.cli.common.exit_codes import ExitCode, run_to_end
from mcpagent.cli.common.options import Options
from mcpagent.cli.common.stored_sessions import store_of, with_sessions_in
from mcpagent.cli.oneshot.agent_options import (
    make_agent,
    make_approver,
    require_a_server,
)
from mcpagent.cli.oneshot.traces import tracing_wrappers
from mcpagent.cli.screen.lines import notice_line
from mcpagent.cli.screen.terminal import Terminal, put
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import Event, Notice, RunFinished, ServerFailed


def work(options: Options, terminal: Terminal, database: str | None) -> ExitCode:
    """Execute runs until Ctrl-C or SIGTERM; active runs then have ten seconds to end. Raises the errors of the
    start.
    """
    durable = DurableRuns(
        database,
        at_once=options.at_once,
        per_user=options.per_user,
        per_minute=options.per_minute,
    )
    return run_to_end(_work(options, terminal, durable, database))


async def _work(
    options: Options, terminal: Terminal, durable: DurableRuns, database: str | None
) -> ExitCode:
    def report(event: Event) -> None:
        if isinstance(event, Notice):
            terminal.warn(notice_line(event, terminal.glyphs).plain)
        elif isinstance(event, ServerFailed):
            terminal.warn(safe_line(event.reason, 300))
        elif isinstance(event, RunFinished) and not options.quiet:
            put(
                terminal.err,
                Text(
                    f"a run ended: {event.stop}, {event.turns} turns, {event.seconds:.1f} s",
                    "dim",
                ),
            )

    configuration = trusted_configuration(options, terminal)
    options = with_sessions_in(options, database)
    agent = make_agent(
        options,
        configuration,
        report,
        startup_seconds=options.server_wait,
        approver=make_approver(options, configuration, None),
        sessions=store_of(options),
        wrappers=tracing_wrappers(options, terminal, configuration),
        waits=True,
    )
    async with agent, durable.serving(agent):
        require_a_server(agent)
        if not options.quiet:
            where = safe_line(durable.where, 200)
            put(
                terminal.err,
                Text(
                    f"working on the runs in {where}, with {safe_line(agent._runtime.model.name, 80)}",
                    "dim",
                ),
            )
        await asyncio.Event().wait()
    return ExitCode.OK
