"""Enable tracing by the environment variables of OpenTelemetry."""

from __future__ import annotations

from mcpagent.cli.common.configuration import Configuration
from mcpagent.cli.common.options import Options
from mcpagent.cli.screen.terminal import Terminal
from mcpagent.journal.tracing.traced_agents import Tracing, tracing_wanted
from mcpagent.toolsets.definition import Wrapper


def tracing_wrappers(
    options: Options, terminal: Terminal, configuration: Configuration
) -> list[Wrapper]:
    """Return the wrapper that traces the agent, or [] unless the variables of OpenTelemetry request tracing."""
    if not tracing_wanted(options.environ):
        return []
    tracing = Tracing.from_environment(
        name=configuration.team.first.name if configuration.team is not None else ""
    )
    terminal.warn(*tracing.problems)
    if tracing.goes_somewhere:
        return [tracing]
    return []
