"""The conversation loop in the terminal: input line, turn, input line, and so on, while servers connect in the
background.
"""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.text import Text

from mcpagent.cli.approvals.approval_box import (
    Asking,
    ask_about_call,
    forget_typed_ahead,
    read_above_output,
)
from mcpagent.cli.approvals.project_trust import trusted_configuration
from mcpagent.cli.approvals.server_requests import ServerRequests
from mcpagent.cli.chat.completions import ChatCompleter, words_of
from mcpagent.cli.chat.kept_daemons import DaemonQuestions
from mcpagent.cli.chat.resuming import MAY_GO_ON, StoredChat
from mcpagent.cli.chat.slash.chat_state import (
    ChatQuestion,
    ChatState,
    Leave,
    is_command,
)
from mcpagent.cli.chat.startup import Startup, search_line
from mcpagent.cli.chat.status_line import (
    Status,
    StatusCommand,
    short_model,
    status_document,
    status_line,
)
from mcpagent.cli.common.configuration import link_lines, short_path
from mcpagent.cli.common.error_lines import MAX_LINE, report_exception
from mcpagent.cli.common.exit_codes import ExitCode, run_to_end, within
from mcpagent.cli.common.options import Options
from mcpagent.cli.common.stored_sessions import store_of
from mcpagent.cli.oneshot.agent_options import (
    hints,
    make_agent,
    make_approver,
    rules_without_effect,
)
from mcpagent.cli.oneshot.traces import tracing_wrappers
from mcpagent.cli.screen.input import InputLine
from mcpagent.cli.screen.keys_during_answer import (
    EscapeKey,
    on_interrupt,
    typing_ahead,
    usual_terminal,
)
from mcpagent.cli.screen.lines import notice_line, unfolded_lines
from mcpagent.cli.screen.rendering import Activity, TurnView, print_failed_server
from mcpagent.cli.screen.saved_files import save_generated
from mcpagent.cli.screen.terminal import Terminal, put, warning_line
from mcpagent.errors import LimitError, McpAgentError, SessionStoreError
from mcpagent.history.intake.files import read_file
from mcpagent.mcp.lists.pins import ToolChange
from mcpagent.mcp.server_options import stored_lists
from mcpagent.models.base import Model
from mcpagent.utilities.text.for_model import fenced, for_model
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import (
    AnswerRestarted,
    Event,
    Notice,
    RequestSent,
    ResponseReceived,
    RunFinished,
    ServerFailed,
    TextDelta,
    ToolCallFinished,
)
from mcpagent.values.messages import Prompt
from mcpagent.values.messages import Text as Words

CALLS_KEPT = 50
GOODBYES = frozenset({"exit", "quit", "bye"})
"""Words that, typed alone, end the chat and are not sent to the model."""


def run_chat(
    options: Options,
    terminal: Terminal,
    *,
    model: Model | None = None,
    attached: Sequence[Path] = (),
) -> ExitCode:
    """Chat until the user leaves. `model` replaces the configured one; `attached` files go with the first question."""
    chat = Chat(options, terminal, model)
    put(terminal.out, *link_lines(attached, options), style="dim")
    for path in attached:
        found = read_file(path)
        chat.desk.kept.append(
            Words(fenced(for_model(found), str(path)))
            if isinstance(found, str)
            else found
        )
    gc.freeze()  # the objects loaded so far stay; collecting garbage among them would take a tenth of the start
    return run_to_end(chat.run())


class Chat:
    """A chat. `_view` is set while a turn runs, and then receives the events."""

    def __init__(
        self, options: Options, terminal: Terminal, model: Model | None
    ) -> None:
        self.options = options
        self.terminal = terminal
        configuration = trusted_configuration(options, terminal)
        self._asking = Asking(
            terminal.out, terminal.glyphs, read_above_output, self._aside
        )
        self.approver = make_approver(
            options, configuration, partial(ask_about_call, self._asking)
        )
        self.cache = stored_lists(options.environ)
        self._is_resumed = options.continue_last or options.resume is not None
        is_kept = (options.sessions or self._is_resumed) and options.replay is None
        self.store = store_of(options) if is_kept else None
        self.agent = make_agent(
            options,
            configuration,
            self._on_event,
            model=model,
            startup_seconds=0,
            approver=self.approver,
            cache=self.cache,
            allow_change=self._allow_change,
            requests=ServerRequests(self._asking, self._notify_waiting),
            sessions=self.store,
            wrappers=tracing_wrappers(options, terminal, configuration),
        )
        self._activity = Activity(terminal.out, terminal.glyphs)
        self.startup = Startup(
            self.agent,
            self._activity,
            terminal.glyphs,
            self._refresh,
            self._connected,
            options.server_wait,
        )
        self.desk = ChatState(
            agent=self.agent,
            configuration=configuration,
            terminal=terminal,
            approver=self.approver,
            environ=options.environ,
            folder=options.folder,
            ready=self.startup.ready,
            ask=self._answer,
            edit=self._edit,
            options=options,
            store=self.store,
            pick=lambda found: self.going_on.pick(found),
            go_on_with=lambda session: self.going_on.go_on_with(session),
            finish=lambda: self.going_on.go_on_with_what_waits(),
            before_close=DaemonQuestions(options, self._choose, self._say).before_close,
        )
        self.going_on = StoredChat(
            options=options,
            store=self.store,
            desk=self.desk,
            approver=self.approver,
            startup=self.startup,
            follow=self._follow,
            choose=self._choose,
        )
        completer = ChatCompleter(
            lambda: words_of(
                self.agent, options.folder, is_started=self.startup.is_entered
            )
        )
        self.input = InputLine(
            terminal,
            options.environ,
            status=self._status,
            completer=completer,
            unfold=self._unfold,
            stores_history=options.sessions,
        )
        self._own_status: StatusCommand | None = None
        if options.status_line.strip():
            self._own_status = StatusCommand(
                options.status_line, options.environ, options.folder, self._refresh
            )
        self._reported_problem = False
        self._heard: list[str] = []
        self._calls: deque[ToolCallFinished] = deque(maxlen=CALLS_KEPT)
        self._unfolded = 0
        self._view: TurnView | None = None
        self._turn: asyncio.Task[None] | None = None
        self._leaving = False
        self._interrupted = False
        self._escape = EscapeKey(self._stop_turn, self._show_typed)

    async def run(self) -> ExitCode:
        """Run from the greeting until the user leaves. Raises the error that kept the agent from starting."""
        with typing_ahead(), on_interrupt(self._interrupt):
            try:
                earlier = await self.going_on.at_start()
            except Leave:
                return ExitCode.OK
            self._greet()
            if (
                earlier is not None
            ):  # no input line is displayed before the conversation is loaded
                self.input.shown.set()
            await self.startup.begin(
                self.desk.configuration.enabled, self.cache, self.input.shown
            )
            how_to_go_on = ""
            try:
                if earlier is not None:
                    await self._guarded(self.going_on.begin_with(earlier))
                    self._say("")
                code = await self._converse()
                if code == ExitCode.OK:
                    await self._ask_about_daemons()
            finally:
                how_to_go_on = self.going_on.how()
                await self.startup.close()
                if self._own_status is not None:
                    await self._own_status.close()
                await self.agent.aclose()
        if self.startup.failure is not None:
            raise self.startup.failure
        if how_to_go_on:
            self._say(Text(how_to_go_on, "dim"))
        return code

    async def _ask_about_daemons(self) -> None:
        """Ask which programs of the servers may keep running, before all servers are closed."""
        if self.startup.is_entered and self.desk.before_close is not None:
            servers = self.agent.mcp
            await self.desk.before_close(servers, list(servers.configs))

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
            goes_on, self.going_on.enter_goes_on = self.going_on.enter_goes_on, False
            if not line.strip():
                if not goes_on:
                    continue
                line = "/continue"
            try:
                await self._guarded(self._do(line))
            except Leave:
                return ExitCode.OK
            self._say("")
        return ExitCode.INTERRUPTED

    async def _guarded(self, work: Coroutine[None, None, None]) -> None:
        """Run one command or turn: Ctrl-C stops it, an error becomes one line, and the chat continues."""
        self._turn = task = asyncio.create_task(work)
        try:
            await asyncio.wait({task})
        except (
            asyncio.CancelledError
        ):  # the chat is cancelled from outside; its work restores the terminal first
            task.cancel()
            await asyncio.wait({task})
            raise
        try:
            task.result()
        except asyncio.CancelledError:
            self._keep_heard()
            more = ""
            if self.going_on.is_unfinished:
                more = f"; {MAY_GO_ON}"
            self._say(Text(f"stopped; the conversation can go on{more}", "dim"))
        except Leave:
            raise
        except (McpAgentError, TimeoutError) as error:
            self._keep_heard()
            self._say(
                Text(
                    f"{self.terminal.glyphs.failed} {safe_line(str(error), MAX_LINE)}",
                    "error",
                )
            )
            if self.going_on.is_unfinished:
                self._say(Text(MAY_GO_ON, "dim"))
        except Exception as error:  # noqa: BLE001 - a mistake in one turn must not cost the conversation
            report_exception(error, debug=self.options.debug)

    def _keep_heard(self) -> None:
        """Store the text of an answer that the user stopped, for `/history`."""
        text = "".join(self._heard)
        self._heard.clear()
        if text.strip():
            self.agent._runtime.own_session.add_stopped(text)

    async def _read(self) -> str:
        if not self._interrupted:
            async with (
                self._asking.turn
            ):  # servers ask once the line is sent: no key of it is an answer
                line = await self.input.read()
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt
        return line

    def _interrupt(self) -> None:
        """Handle Ctrl-C outside of the input line: stop the turn; a second one also ends the chat."""
        if self._turn is None or self._turn.done():
            # Ctrl-C came just before the input line, which may be open by now.
            self._interrupted = not self.input.end(KeyboardInterrupt)
        else:
            self._leaving = bool(self._turn.cancelling())
            self._escape.unsend()
            self._turn.cancel()

    def _stop_turn(self) -> None:
        """Handle Esc: stop the turn, once."""
        if self._turn is not None and not self._turn.cancelling():
            self._escape.unsend()
            self._turn.cancel()

    def _show_typed(self, text: str) -> None:
        """Show below an answer the text that the user types meanwhile."""
        if self._view is not None:
            self._view.show_typed(text)

    # -- Input ---------------------------------------------------------------------------------------------------------

    async def _do(self, line: str) -> None:
        from mcpagent.cli.chat.attachments import (
            left_as_words,
            named_prompt,
            server_prompt,
            with_attachments,
        )

        loaded = self.terminal.glyphs.loaded
        if line.startswith("!"):
            from mcpagent.cli.chat.shell_line import offer_shell

            command, options = line[1:].strip(), self.options
            kept = await offer_shell(
                command, options.folder, options.environ, self._choose, self._say
            )
            if kept:
                self.desk.kept += [Words(kept)]
        elif (asked := named_prompt(line, self.agent.servers)) is not None:
            await self.startup.ready()
            server, name, words = asked
            parts = await server_prompt(
                self.agent, server, name, words, alone=not self.desk.kept
            )
            size = sum(len(part.text) for part in parts if isinstance(part, Words))
            self._say(
                Text(f"  {loaded} prompt of {server}, {size:,} characters", "dim")
            )
            await self._answer(line.strip(), parts)
        elif line.strip().lower() in GOODBYES:
            raise Leave
        elif is_command(line):
            from mcpagent.cli.chat.slash.slash_table import run_command

            await run_command(self.desk, line)
        else:
            if "@" in line:
                await self.startup.ready()
            prompt, added = await with_attachments(
                line, self.agent, self.options.folder
            )
            self._say(*(Text(f"  {loaded} {said}", "dim") for said in added))
            if said := left_as_words(line, self.agent, self.options.folder):
                self._say(Text(f"  {said}", "dim"))
            await self._answer(line, prompt)

    async def _answer(self, typed: str, prompt: Prompt) -> None:
        """Answer one prompt."""
        from mcpagent.cli.chat.attachments import joined_parts

        await self.startup.entered()
        desk = self.desk
        if desk.kept:
            prompt = joined_parts(prompt, desk.kept)
        asked = ChatQuestion(typed, prompt, len(self.agent.messages), desk.trace)
        try:
            await self._follow(lambda: self.agent.ask(prompt))
        finally:
            new = self.agent.messages[asked.length :]
            if new:
                desk.asked.append(asked)
                desk.kept.clear()
            saved = await save_generated(
                new, self.options.folder, self.agent._runtime.model
            )
            self._say(*(Text(f"  {line}", "dim") for line in saved))

    async def _follow(self, work: Callable[[], Awaitable[object]]) -> None:
        """Display the events of a run. If the store fails, the run continues in memory, so that no answer is lost."""
        self._view = view = TurnView(
            self.terminal.out, self.terminal.out, self.terminal.glyphs
        )
        self._unfolded = 0
        self._say("")
        try:
            async with within(self.options.timeout):
                try:
                    with self._escape.watched():
                        await work()
                except SessionStoreError as error:
                    with view.paused():
                        self.going_on.stop_keeping(error)
                    if self.agent._runtime.own_session.is_unfinished:
                        await self.agent.resume()
        except LimitError:
            pass  # the line at the end of the run has reported the error
        finally:
            self._view = None
            view.close()

    async def _edit(self, text: str) -> str:
        from mcpagent.cli.common.user_programs import edited

        with usual_terminal():
            return await edited(text, self.options.environ)

    async def _choose(self, question: str) -> str:
        """Ask the user for one line, ignoring keys typed before the question; "" if the user enters nothing."""
        forget_typed_ahead(self.terminal.out)
        try:
            return (await read_above_output(question, "")).strip()
        except (EOFError, KeyboardInterrupt):
            return ""

    async def _allow_change(self, change: ToolChange) -> bool:
        """Ask whether a tool that its server changed may be called. A refusal applies for the rest of the chat."""
        if change in self.desk.declined_changes:
            return False
        with self._aside():
            for (
                line
            ) in change.lines:  # all lines, because the one-line report may be cut
                self._say(Text(f"  {self.terminal.glyphs.bar} {line}", "dim"))
            question = "call it as it is now? [y] yes, always  [N] no: "
            answer = (await self._choose(question)).lower()
            while answer not in ("y", "yes", "n", "no", ""):
                self._say(f"{safe_line(answer, 40)!r} is no answer here")
                answer = (await self._choose(question)).lower()
            if answer in ("y", "yes"):
                return True
            self._say("not called as it is now, until the next start of the chat")
        self.desk.declined_changes.append(change)
        return False

    # -- Events --------------------------------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        self.desk.trace = self.desk.trace.after(event, self.agent)
        self.startup.follow(event)
        glyphs = self.terminal.glyphs
        if isinstance(event, ToolCallFinished):
            self._calls.append(event)
        if isinstance(event, TextDelta):
            self._heard.append(event.text)
        elif isinstance(event, RequestSent | ResponseReceived | AnswerRestarted):
            self._heard.clear()
        if isinstance(event, ServerFailed):
            with self._activity.paused(), self._aside():
                servers = self.desk.configuration.enabled
                print_failed_server(
                    self.terminal.out, event, servers, glyphs, in_chat=True
                )
        elif self._view is not None:
            from mcpagent.cli.oneshot.headless import stopped_line

            self._view(event)
            if isinstance(event, RunFinished) and (words := stopped_line(event)):
                self._say(warning_line(words, glyphs))
        elif isinstance(event, Notice):
            self._notify(notice_line(event, glyphs))
        self._refresh()

    def _connected(self) -> None:
        """Report on all servers after the last one has finished connecting."""
        rules = self.approver.rules
        without_effect = rules_without_effect(
            self.agent, self.desk.configuration, rules
        )
        lines = [warning_line(line, self.terminal.glyphs) for line in without_effect]
        if not self.options.quiet:
            lines = [*self.startup.summary(), *lines]
            chosen_by_itself = (
                self.options.tool_search == "auto"
                and self.options.card is None
                and not self._is_resumed  # a resumed conversation showed the warning when it started
            )
            if chosen_by_itself and (line := search_line(self.agent)):
                lines.append(Text(line, "dim"))
        if lines:
            self._notify(*lines)

    def _notify_waiting(self, server: str) -> None:
        if self._turn is None or self._turn.done():
            text = f"server {safe_line(server, 64)} asks you something; it is shown after Enter"
            self._notify(warning_line(text, self.terminal.glyphs))

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Leave screen and keyboard to a question during the block."""
        if self._view is None:
            with self.input.aside():
                yield
            return
        with self._view.paused(), self._escape.paused():
            yield

    # -- Display -------------------------------------------------------------------------------------------------------

    def _status(self) -> str:
        """Return the status below the input line: the built-in line or the user's own, and the progress of connecting
        servers.
        """
        width, trace = self.terminal.out.width, self.desk.trace
        is_started = self.startup.is_entered
        status = Status.of(
            self.agent, self.approver.rules.mode, trace.used, is_started=is_started
        )
        status = replace(status, declined=self.desk.configuration.untrusted)
        line = status_line(status, self.terminal.glyphs, width)
        if (own := self._own_status) is not None:
            own.update(status_document(status, str(self.options.folder)))
            if own.said is not None:
                line = f" {safe_line(own.said, width - 2)}"
        progress = self.startup.progress(width)
        if progress:
            return f"{line}\n{progress}"
        return line

    def _refresh(self) -> None:
        if self.startup.failure is not None:
            self.input.end()
        if (
            self._own_status is not None
            and self._own_status.problem
            and not self._reported_problem
        ):
            self._reported_problem = True
            self._notify(warning_line(self._own_status.problem, self.terminal.glyphs))
        self.input.refresh()

    def _unfold(self) -> None:
        """Print the last call in full; called again, the call before it."""
        if not self._calls:
            self._say(Text("no tool was called yet", "dim"))
            return
        self._unfolded = self._unfolded % len(self._calls) + 1
        self._say(
            *unfolded_lines(
                self._calls[-self._unfolded], self._unfolded, len(self._calls)
            )
        )

    def _say(self, *lines: Text | str) -> None:
        put(self.terminal.out, *lines)

    def _notify(self, *lines: Text | str) -> None:
        """Print lines between the steps of a turn, or above the input line."""
        with self._activity.paused(), self._aside():
            self._say(*lines)

    def _greet(self) -> None:
        from mcpagent.utilities.version import __version__

        configuration, dot = self.desk.configuration, self.terminal.glyphs.dot
        folder = short_path(str(self.options.folder), Path("/nowhere"))
        head = Text.assemble(
            ("mcpagent", "user"),
            f" {__version__}   {short_model(self.agent._runtime.model.name)}   ",
        )
        whole, brief = (
            Text.assemble(head, (f"{servers} {dot} {folder} {dot} /help", "dim"))
            for servers in (
                configuration.describe(self.options.folder),
                configuration.describe_briefly(),
            )
        )
        self._say(whole if whole.cell_len <= self.terminal.out.width else brief)
        if not self.options.quiet:
            put(
                self.terminal.err,
                *hints(self.agent, self.options, configuration),
                style="dim",
            )
        self._say("")
