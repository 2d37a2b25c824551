"""The conversation in the terminal: input line, turn, input line ... while servers connect in the background."""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Coroutine
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from mcpagent.cli.activity import Activity
from mcpagent.cli.agents import hints, make_agent, make_approvals, rules_without_effect
from mcpagent.cli.asking import ApprovalBox, forget_typed_ahead, read_above_output
from mcpagent.cli.bottom_line import BottomLine
from mcpagent.cli.commands import is_command
from mcpagent.cli.commands.desk import Desk, Leave, Turn
from mcpagent.cli.completions import words_of
from mcpagent.cli.configuration import short_path
from mcpagent.cli.ending import run_to_end
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.failures import MAX_LINE, report_exception
from mcpagent.cli.folders import cache_folder
from mcpagent.cli.input import InputLine
from mcpagent.cli.keyboard import on_interrupt, typing_ahead, usual_terminal
from mcpagent.cli.options import Options, ToolSearchMode
from mcpagent.cli.rendering import TurnView, notice_line, print_failed_server
from mcpagent.cli.requests import RequestTrace
from mcpagent.cli.server_requests import ServerRequests, in_turn
from mcpagent.cli.startup import Startup, search_line
from mcpagent.cli.status import Figures, short_model
from mcpagent.cli.terminal import put
from mcpagent.cli.trust_box import trusted_configuration
from mcpagent.cli.unfolding import unfolded_lines
from mcpagent.cli.why import SearchTrace
from mcpagent.errors import McpAgentError
from mcpagent.events import Event, Notice, RunFinished, ServerFailed, ToolCallFinished
from mcpagent.mcp.cache import ListCache
from mcpagent.messages import Text as Words
from mcpagent.safe_text import safe_line

if TYPE_CHECKING:
    from mcpagent import Model
    from mcpagent.cli.terminal import Terminal
    from mcpagent.inputs import Prompt
    from mcpagent.mcp.pins import ToolChange

STALE_SECONDS = 30 * 24 * 3600.0
"""Lists older than they should be are still used for so long, and read again in the background."""

CALLS_KEPT = 50


def run_chat(options: Options, terminal: Terminal, *, model: Model | None = None) -> ExitCode:
    """Chats until the user leaves. `model` is used instead of the named one."""
    chat = Chat(options, terminal, model)
    gc.freeze()  # what is loaded by now stays; looking through it for garbage would take a tenth of the start
    return run_to_end(chat.run())


class Chat:
    """One chat. `_view` is set while a turn runs: then it gets the events."""

    def __init__(self, options: Options, terminal: Terminal, model: Model | None) -> None:
        self.options = options
        self.terminal = terminal
        self.configuration = trusted_configuration(options, terminal)
        self._asking = asking = asyncio.Lock()
        self.approvals = make_approvals(
            options,
            self.configuration,
            in_turn(asking, ApprovalBox(terminal.out, terminal.glyphs, read_above_output, self._aside)),
        )
        self.cache = ListCache(cache_folder(options.environ) / "catalog", stale_seconds=STALE_SECONDS)
        self.agent = make_agent(
            options,
            self.configuration,
            self._on_event,
            model=model,
            startup_seconds=0,
            approvals=self.approvals,
            cache=self.cache,
            allow_change=self._allow_change,
            requests=ServerRequests(
                terminal.out, terminal.glyphs, read_above_output, self._aside, asking, self._tell_waiting
            ),
        )
        self.figures = Figures()
        self.trace = SearchTrace()
        self.requests = RequestTrace()
        self._activity = Activity(terminal.out, terminal.glyphs)
        self.startup = Startup(self.agent, self._activity, terminal.glyphs, self._refresh, self._connected)
        self.desk = Desk(
            self.agent,
            self.configuration,
            terminal,
            self.figures,
            self.startup.ready,
            self.approvals.rules,
            self.trace,
            self.requests,
            self._answer,
            self._edit,
            self._choose,
            options.environ,
            options.folder,
        )
        words = words_of(self.agent, options.folder, lambda: self.startup.is_entered)
        self.input = InputLine(terminal, options.environ, status=self._status, words=words, unfold=self._unfold)
        self._bottom = BottomLine(
            self.agent, self.figures, self.startup, self.approvals.rules, terminal, options, self._refresh
        )
        self._refused_changes: set[str] = set()
        self._calls: deque[ToolCallFinished] = deque(maxlen=CALLS_KEPT)
        self._unfolded = 0
        self._view: TurnView | None = None
        self._turn: asyncio.Task[None] | None = None
        self._leaving = False
        self._interrupted = False

    async def run(self) -> ExitCode:
        with typing_ahead(), on_interrupt(self._interrupt):
            self._greet()
            await self.startup.begin(self.configuration.enabled, self.cache, self.input.shown)
            try:
                code = await self._converse()
            finally:
                await self._close()
        if self.startup.failure is not None:
            raise self.startup.failure
        return code

    async def _converse(self) -> ExitCode:
        interrupts = 0
        while not self._leaving and self.startup.failure is None:
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
                await self._guarded(self._do(line))
            except Leave:
                return ExitCode.OK
            self._say("")
        return ExitCode.INTERRUPTED

    async def _guarded(self, work: Coroutine[None, None, None]) -> None:
        """Runs one command or turn: Ctrl-C stops it, what goes wrong is one line, and the chat goes on."""
        self._turn = task = asyncio.create_task(work)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:  # the chat is ended from outside; its work gives the terminal back first
            task.cancel()
            await asyncio.wait({task})
            raise
        try:
            task.result()
        except asyncio.CancelledError:
            self._say(Text("stopped; the conversation can go on", "dim"))
        except Leave:
            raise
        except (McpAgentError, TimeoutError) as error:
            self._say(Text(f"{self.terminal.glyphs.failed} {safe_line(str(error), MAX_LINE)}", "error"))
        except Exception as error:  # noqa: BLE001 - a mistake in one turn must not cost the conversation
            report_exception(error, debug=self.options.debug)

    async def _read(self) -> str:
        if not self._interrupted:
            async with self._asking:  # what servers ask comes when the line is sent: no key of it is an answer
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

    # -- what was typed -------------------------------------------------------------------------------------------

    async def _do(self, line: str) -> None:
        from mcpagent.cli.attachments import named_prompt, server_prompt, with_attachments

        if line.startswith("!"):
            await self._run_shell(line[1:].strip())
        elif (asked := named_prompt(line, self.agent.servers)) is not None:
            await self.startup.ready()
            server, name, words = asked
            parts = await server_prompt(self.agent, server, name, words)
            size = sum(len(part.text) for part in parts if isinstance(part, Words))
            self._say(Text(f"  {self.terminal.glyphs.loaded} prompt of {server}, {size:,} characters", "dim"))
            await self._answer(line.strip(), parts)
        elif is_command(line):
            from mcpagent.cli.commands.table import run_command

            await run_command(self.desk, line)
        else:
            if "@" in line:
                await self.startup.ready()
            prompt, told = await with_attachments(line, self.agent, self.options.folder)
            self._say(*(Text(f"  {self.terminal.glyphs.loaded} {said}", "dim") for said in told))
            await self._answer(line, prompt)

    async def _run_shell(self, command: str) -> None:
        """Runs what was typed behind the `!`, once it was said to be meant."""
        from mcpagent.cli.shell_line import offer_shell

        kept = await offer_shell(command, self.options.folder, self.options.environ, self._choose, self._say)
        if kept:
            self.desk.kept.append(Words(kept))

    async def _answer(self, typed: str, prompt: Prompt) -> None:
        """One question and its answer."""
        from mcpagent.cli.attachments import joined_parts

        await self.startup.settled()
        if self.desk.kept:
            prompt = joined_parts(prompt, self.desk.kept)
        turn = Turn(typed, prompt, len(self.agent.messages), self.trace.copy(), self.requests.copy())
        self._view = view = TurnView(self.terminal.out, self.terminal.out, self.terminal.glyphs)
        self._unfolded = 0
        limit = asyncio.timeout(self.options.timeout)
        self._say("")
        try:
            async with limit:
                await self.agent.ask(prompt)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"no answer within {self.options.timeout:g} s (--timeout)") from None
        finally:
            self._view = None
            view.close()
            if len(self.agent.messages) > turn.length:
                self.desk.turns.append(turn)
                self.desk.kept.clear()
            self.figures.read(self.agent)

    async def _edit(self, text: str) -> str:
        from mcpagent.cli.editor import edited

        with usual_terminal():
            return await edited(text, self.options.environ)

    async def _choose(self, question: str) -> str:
        """One line from the user, typed after the question is there; empty where they give none."""
        forget_typed_ahead()
        try:
            return (await read_above_output(question, "")).strip()
        except (EOFError, KeyboardInterrupt):
            return ""

    async def _allow_change(self, change: ToolChange) -> bool:
        """Whether a tool may be called that its server changed, which has been told. A no holds for the chat."""
        if str(change) in self._refused_changes:
            return False
        with self._aside():
            answer = await self._choose("call it as it is now? [y] yes, always  [N] no: ")
        if answer.lower() in ("y", "yes"):
            return True
        self._refused_changes.add(str(change))
        return False

    # -- the servers ----------------------------------------------------------------------------------------------

    def _connected(self) -> None:
        """No server is connecting any more: what can be said about all of them."""
        lines: list[Text] = []
        if (summary := self.startup.summary()) is not None and not self.options.quiet:
            lines.append(summary)
        idle = rules_without_effect(self.agent, self.approvals)
        lines += [notice_line(line, "warning", self.terminal.glyphs) for line in idle]
        chosen_by_itself = self.options.tool_search is ToolSearchMode.auto and self.options.card is None
        if self.agent.catalog.searching and chosen_by_itself and not self.options.quiet:
            lines.append(Text(search_line(self.agent), "dim"))
        if lines:
            self._tell(*lines)
        self.figures.read(self.agent)

    async def _close(self) -> None:
        await self.startup.close()
        await self._bottom.close()
        await self.agent.aclose()

    # -- events ---------------------------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        self.figures.follow(event)
        self.trace.follow(event)
        self.requests.follow(event, self.agent)
        self.startup.follow(event)
        if isinstance(event, ToolCallFinished):
            self._calls.append(event)
        if isinstance(event, ServerFailed):
            self._activity.hide()
            servers = {server.name: server for server in self.configuration.enabled}
            with self._aside():
                print_failed_server(self.terminal.out, event, servers, self.terminal.glyphs, in_chat=True)
        elif self._view is not None:
            self._view(event)
            if isinstance(event, RunFinished):
                self._tell_stop(event)
        elif isinstance(event, Notice):
            self._tell(notice_line(event.text, event.level, self.terminal.glyphs))
        self._refresh()

    def _tell_stop(self, event: RunFinished) -> None:
        from mcpagent.cli.headless import STOPPED

        if event.stop in STOPPED:
            self._say(notice_line(STOPPED[event.stop], "warning", self.terminal.glyphs))

    def _tell_waiting(self, server: str) -> None:
        if self._turn is None or self._turn.done():
            text = f"server {safe_line(server, 64)} asks you something; it is shown after Enter"
            self._tell(notice_line(text, "warning", self.terminal.glyphs))

    def _aside(self) -> AbstractContextManager[None]:
        return self._view.paused() if self._view is not None else self.input.aside()

    # -- the screen -----------------------------------------------------------------------------------------------

    def _status(self) -> str:
        if self._view is None and self.startup.is_entered and self.figures.known != len(self.agent.known_tools):
            self.figures.read(self.agent)
        return self._bottom.text()

    def _refresh(self) -> None:
        if self.startup.failure is not None:
            self.input.end()
        if problem := self._bottom.problem():
            self._tell(notice_line(problem, "warning", self.terminal.glyphs))
        self.input.refresh()

    def _unfold(self) -> None:
        """Prints the last call in full; pressed again, the one before it."""
        if not self._calls:
            self._say(Text("no tool was called yet", "dim"))
            return
        self._unfolded = self._unfolded % len(self._calls) + 1
        self._say(*unfolded_lines(self._calls[-self._unfolded], self._unfolded, len(self._calls)))

    def _say(self, *lines: Text | str) -> None:
        put(self.terminal.out, *lines)

    def _tell(self, *lines: Text | str) -> None:
        """Says something among the steps of a turn, or above the input line."""
        self._activity.hide()
        with self._aside():
            self._say(*lines)

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
