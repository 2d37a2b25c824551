"""The conversation in the terminal: input line, turn, input line ... while servers connect in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from mcpagent.cli.activity import Activity
from mcpagent.cli.agents import hints, make_agent, make_approvals, rules_without_effect
from mcpagent.cli.asking import ApprovalBox, read_above_output
from mcpagent.cli.commands import COMMANDS, Desk, Leave, is_command, run_command
from mcpagent.cli.configuration import short_path
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.failures import MAX_LINE, report_exception
from mcpagent.cli.headless import STOPPED
from mcpagent.cli.input import InputLine
from mcpagent.cli.keyboard import on_interrupt, typing_ahead
from mcpagent.cli.options import Options
from mcpagent.cli.rendering import TurnView, notice_line, print_failed_server
from mcpagent.cli.status import Figures, short_model, status_line
from mcpagent.cli.terminal import put
from mcpagent.cli.trust_box import trusted_configuration
from mcpagent.cli.why import SearchTrace
from mcpagent.errors import McpAgentError
from mcpagent.events import Event, Notice, RunFinished, ServerFailed
from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent import Model
    from mcpagent.cli.terminal import Terminal

STARTUP_SECONDS = 10.0
"""How long the first question waits for slow servers; they join later."""


def run_chat(options: Options, terminal: Terminal, *, model: Model | None = None) -> ExitCode:
    """Chats until the user leaves. `model` is used instead of the named one."""
    return asyncio.run(Chat(options, terminal, model).run())


class Chat:
    """One chat. `_view` is set while a turn runs: then it gets the events."""

    def __init__(self, options: Options, terminal: Terminal, model: Model | None) -> None:
        self.options = options
        self.terminal = terminal
        self.configuration = trusted_configuration(options, terminal)
        self.approvals = make_approvals(
            options,
            self.configuration,
            ApprovalBox(terminal.out, terminal.glyphs, read_above_output, self._aside),
        )
        self.agent = make_agent(
            options,
            self.configuration,
            self._on_event,
            model=model,
            startup_seconds=STARTUP_SECONDS,
            approvals=self.approvals,
        )
        self.figures = Figures()
        self.trace = SearchTrace()
        self.desk = Desk(
            self.agent, self.configuration, terminal, self.figures, self._ready, self.approvals.rules, self.trace
        )
        self.input = InputLine(
            terminal,
            options.environ,
            status=self._status,
            commands={name: command.about for name, command in COMMANDS.items()},
            tool_names=self._tool_names,
        )
        self._activity = Activity(terminal.out, terminal.glyphs)
        self._view: TurnView | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._turn: asyncio.Task[None] | None = None
        self._leaving = False
        self._interrupted = False

    async def run(self) -> ExitCode:
        with typing_ahead(), on_interrupt(self._interrupt):
            self._greet()
            self._connecting = asyncio.create_task(self._connect())
            try:
                return await self._converse()
            finally:
                await self._close()

    async def _converse(self) -> ExitCode:
        interrupts = 0
        while not self._leaving:
            try:
                line = await self._read()
            except EOFError:
                return ExitCode.OK
            except KeyboardInterrupt:
                interrupts += 1
                if interrupts == 2:
                    return ExitCode.INTERRUPTED
                self._say(Text("Ctrl-C again quits, Ctrl-D too", "dim"))
                continue
            interrupts = 0
            if not line.strip():
                continue
            try:
                await self._guarded(self._command(line) if is_command(line) else self._ask(line))
            except Leave:
                return ExitCode.OK
            self._say("")
        return ExitCode.INTERRUPTED

    async def _guarded(self, work: Coroutine[None, None, None]) -> None:
        """Runs one command or turn: Ctrl-C stops it, what goes wrong is one line, and the chat goes on."""
        self._turn = task = asyncio.create_task(work)
        try:
            await asyncio.wait({task})
            await task
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
            self._say(Text("stopped; the conversation can go on", "dim"))
        except Leave:
            raise
        except (McpAgentError, TimeoutError) as error:
            self._say(Text(f"{self.terminal.glyphs.failed} {safe_line(str(error), MAX_LINE)}", "error"))
        except Exception as error:  # noqa: BLE001 - a mistake in one turn must not cost the conversation
            report_exception(error, debug=self.options.debug)

    async def _read(self) -> str:
        if not self._interrupted:
            line = await self.input.read()
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt
        return line

    def _interrupt(self) -> None:
        """Ctrl-C while no input line is there to take it: stops the turn, a second time also the chat."""
        if self._turn is None or self._turn.done():
            # It came just before the input line; that may be open by now.
            self._interrupted = not self.input.interrupt()
        else:
            self._leaving = bool(self._turn.cancelling())
            self._turn.cancel()

    async def _command(self, line: str) -> None:
        await run_command(self.desk, line)

    async def _ask(self, line: str) -> None:
        await self._ready()
        self._view = view = TurnView(self.terminal.out, self.terminal.out, self.terminal.glyphs)
        limit = asyncio.timeout(self.options.timeout)
        self._say("")
        try:
            async with limit:
                await self.agent.ask(line)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"no answer within {self.options.timeout:g} s (--timeout)") from None
        finally:
            self._view = None
            view.close()
            self.figures.read(self.agent)

    # -- the servers ----------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        await self.agent.__aenter__()
        for line in rules_without_effect(self.agent, self.approvals):
            self._say(notice_line(line, "warning", self.terminal.glyphs))
        self.figures.read(self.agent)
        self.input.refresh()

    async def _ready(self) -> None:
        """Waits until all servers are connected or have failed; each has its own limit. Raises what kept the agent."""
        assert self._connecting is not None
        try:
            while not self._connecting.done():
                waiting = [name for name, status in self.agent.servers.items() if status.state == "connecting"]
                self._activity.show("connecting " + (", ".join(waiting) or "servers"))
                await asyncio.wait({self._connecting}, timeout=0.25)
        finally:
            self._activity.hide()
        self._connecting.result()

    async def _close(self) -> None:
        assert self._connecting is not None
        self._connecting.cancel()
        # Whatever connecting came to has been told, or nobody asked for it.
        await asyncio.wait({self._connecting})
        if not self._connecting.cancelled():
            self._connecting.exception()
        await self.agent.aclose()

    # -- events ---------------------------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        self.figures.follow(event)
        self.trace.follow(event)
        if isinstance(event, ServerFailed):
            self._activity.hide()
            servers = {server.name: server for server in self.configuration.enabled}
            print_failed_server(self.terminal.out, event, servers, self.terminal.glyphs)
        elif self._view is not None:
            self._view(event)
            if isinstance(event, RunFinished) and event.stop in STOPPED:
                self._say(notice_line(STOPPED[event.stop], "warning", self.terminal.glyphs))
        elif isinstance(event, Notice):
            self._activity.hide()
            self._say(notice_line(event.text, event.level, self.terminal.glyphs))
            if self._connecting is not None and self._connecting.done() and self._connecting.exception() is None:
                self.figures.read(self.agent)  # a late server may have joined
        self.input.refresh()

    def _aside(self) -> AbstractContextManager[None]:
        return self._view.paused() if self._view is not None else nullcontext()

    # -- the screen -----------------------------------------------------------------------------------------------

    def _status(self) -> str:
        return status_line(
            self.agent.model.name,
            self.figures,
            self.agent.servers,
            self.approvals.rules.mode.value,
            self.terminal.glyphs,
            self.terminal.out.width,
        )

    def _tool_names(self) -> list[str]:
        return list(self.agent.known_tools) if self.figures.known else []

    def _say(self, line: Text | str) -> None:
        put(self.terminal.out, line)

    def _greet(self) -> None:
        from mcpagent import __version__

        folder = short_path(str(self.options.folder), Path("/nowhere"))
        dot = self.terminal.glyphs.dot
        self._say(
            Text.assemble(
                ("mcpagent", "user"),
                f" {__version__}   {short_model(self.agent.model.name)}   ",
                (f"{self.configuration.describe(self.options.folder)} {dot} {folder} {dot} /help", "dim"),
            )
        )
        if not self.options.quiet:
            put(self.terminal.err, *hints(self.agent, self.options, self.configuration), style="dim")
        self._say("")
