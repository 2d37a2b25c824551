"""What stands under the input line: the status, ours or that of the user's command, and how servers come up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mcpagent.cli.status import Figures, status_document, status_line
from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent import Agent
    from mcpagent.cli.approvals import Rules
    from mcpagent.cli.options import Options
    from mcpagent.cli.startup import Startup
    from mcpagent.cli.status_command import StatusCommand
    from mcpagent.cli.terminal import Terminal


class BottomLine:
    """Makes the text anew each time it is asked for; `changed` is called when the user's command has a new line."""

    def __init__(
        self,
        agent: Agent,
        figures: Figures,
        startup: Startup,
        rules: Rules,
        terminal: Terminal,
        options: Options,
        changed: Callable[[], None],
    ) -> None:
        self._agent = agent
        self._figures = figures
        self._startup = startup
        self._rules = rules
        self._terminal = terminal
        self._folder = options.folder
        self._command: StatusCommand | None = None
        if options.status_line.strip():
            from mcpagent.cli.status_command import StatusCommand

            self._command = StatusCommand(options.status_line, options.environ, options.folder, changed)
        self._has_told = False

    def text(self) -> str:
        """One line, and a second one while servers are connecting."""
        agent, figures, width = self._agent, self._figures, self._terminal.out.width
        mode = self._rules.mode.value
        line = status_line(agent.model.name, figures, agent.servers, mode, self._terminal.glyphs, width)
        if (own := self._command) is not None:
            own.tell(status_document(agent.model.name, figures, agent.servers, mode, str(self._folder)))
            line = f" {safe_line(own.said, width - 2)}" if own.said is not None else line
        progress = self._startup.progress(width)
        return f"{line}\n{progress}" if progress else line

    def problem(self) -> str:
        """Why the user's command gave no line, once; else empty."""
        if self._command is None or not self._command.problem or self._has_told:
            return ""
        self._has_told = True
        return self._command.problem

    async def close(self) -> None:
        if self._command is not None:
            await self._command.close()
