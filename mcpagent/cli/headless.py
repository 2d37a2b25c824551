"""One question, one answer: stdout holds the answer or the documents and nothing else, stderr the rest."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from rich.text import Text

from mcpagent.cli.agents import (
    connecting,
    hints,
    make_agent,
    make_approvals,
    require_a_server,
    rules_without_effect,
)
from mcpagent.cli.approvals import Denial, label_of
from mcpagent.cli.budget import Budget
from mcpagent.cli.configuration import Configuration
from mcpagent.cli.ending import run_to_end
from mcpagent.cli.exit_codes import ExitCode, code_of_error, code_of_stop
from mcpagent.cli.options import Options, OutputFormat
from mcpagent.cli.output import JsonReport
from mcpagent.cli.rendering import TurnView, notice_line, print_failed_server
from mcpagent.cli.server_requests import ServerRequests
from mcpagent.cli.stdout import readable_json, write_out
from mcpagent.cli.structured import ATTEMPTS, AnswerSchema, MisfitError
from mcpagent.cli.terminal import is_a_terminal, put
from mcpagent.cli.trust_box import trusted_configuration
from mcpagent.config import ServersConfig
from mcpagent.errors import InputError
from mcpagent.events import Event, Notice, RunFinished, ServerFailed, ToolCallFinished
from mcpagent.pending import PendingCall

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcpagent import Agent, Model
    from mcpagent.cli.asking import ApprovalBox
    from mcpagent.cli.terminal import Terminal
    from mcpagent.mcp.pins import ToolChange

STOPPED: Mapping[str, str] = {
    "max_turns": "stopped at --max-turns; the answer is what the model knew by then",
    "repeated_calls": "stopped: the model made the same call again and again",
    "truncated": "the answer is cut off: the model reached its limit of output tokens",
    "refused": "the model refused to answer",
    "calls_pending": "stopped: a call waits for an approval or a result from outside",
}


def ask_once(options: Options, prompt: str, terminal: Terminal, *, model: Model | None = None) -> ExitCode:
    """Asks and writes the answer in the format asked for. `model` is used instead of the named one."""
    run = _OneShot(options, prompt, terminal, model)
    try:
        return run_to_end(run.answer())
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        if run.report is not None and not isinstance(error, BrokenPipeError):
            run.report.fail(error, code_of_error(error), run.agent, run.denials)
        raise


class _OneShot:
    def __init__(self, options: Options, prompt: str, terminal: Terminal, model: Model | None) -> None:
        self.options = options
        self.prompt = prompt
        self.terminal = terminal
        self.model = model
        self.agent: Agent | None = None
        self.report: JsonReport | None = None
        if options.output is not OutputFormat.text:
            self.report = JsonReport(write_out, streaming=options.output is OutputFormat.stream_json)
        self.tells_steps = not options.quiet and (options.verbose or terminal.err.is_terminal)
        self.shows_words = self.report is None and terminal.out.is_terminal and options.json_schema is None
        self.budget = Budget(options.max_tokens, options.max_cost)
        self.connecting = True
        self.view: TurnView | None = None
        self.configuration = Configuration(ServersConfig())
        self.denials: list[Denial] = []
        self.changed: set[tuple[str | None, str]] = set()
        """Tools, by server and the server's name for them, that were not called because their server changed them."""

    async def answer(self) -> ExitCode:
        limit = asyncio.timeout(self.options.timeout)
        try:
            async with limit:
                return await self._run()
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"no answer within {self.options.timeout:g} s (--timeout)") from None

    async def _run(self) -> ExitCode:
        options = self.options
        schema = AnswerSchema.read(options.json_schema) if options.json_schema is not None else None
        self.configuration = trusted_configuration(options, self.terminal)
        approvals = make_approvals(self.options, self.configuration, self._box())
        self.denials = approvals.denials
        agent = make_agent(
            self.options,
            self.configuration,
            self._before_the_run,
            model=self.model,
            approvals=approvals,
            allow_change=self._refuse_change,
            # One-shot runs are left alone: whatever a server asks is declined, and said so.
            requests=ServerRequests(self.terminal.err, self.terminal.glyphs, None, self._aside),
        )
        self._say_what_is_used(agent)
        with connecting(self.terminal, self.configuration) if self.tells_steps else nullcontext():
            await agent.__aenter__()
        self.agent = agent
        self.connecting = False
        if not self.prompt:
            self.prompt = self._recorded_question(agent)
        try:
            require_a_server(agent)
            for line in rules_without_effect(agent, approvals):
                put(self.terminal.err, notice_line(line, "warning", self.terminal.glyphs))
            if options.estimate:
                self._write_estimate(agent, schema)
                return ExitCode.OK
            if schema is not None:
                return self._judge(await self._fitting(agent, schema))
            finished = await self._follow(agent, self.prompt)
            self._write_answer(agent, finished)
            return self._judge(finished)
        finally:
            await agent.aclose()

    async def _fitting(self, agent: Agent, schema: AnswerSchema) -> RunFinished:
        """Asks until the answer fits, three times at most. Raises `MisfitError` for one that still does not."""
        question = schema.asked_for(self.prompt)
        for attempts_left in reversed(range(ATTEMPTS)):
            finished = await self._follow(agent, question)
            if finished.stop != "answered":
                if self.report is not None:
                    self.report.finish(agent, replace(finished, spent=agent.spent), self.denials)
                return finished
            try:
                document = schema.read_answer(finished.answer)
            except MisfitError as error:
                if not attempts_left:
                    raise MisfitError(f"no answer that fits --json-schema in {ATTEMPTS} attempts: {error}") from None
                question = schema.asked_again(str(error))
                continue
            if self.report is not None:
                self.report.finish(agent, replace(finished, spent=agent.spent), self.denials, document)
            else:
                write_out(readable_json(document) + "\n")
            return finished
        raise AssertionError("unreachable")

    async def _follow(self, agent: Agent, question: str) -> RunFinished:
        steps = self.terminal.err if self.tells_steps else None
        self.view = view = TurnView(steps, self.terminal.out if self.shows_words else None, self.terminal.glyphs)
        finished: RunFinished | None = None
        if self.report is not None:
            self.report.ask(agent, question)
        # `stream` is an async generator: closing it cancels the run.
        stream = cast("AsyncGenerator[Event, None]", agent.stream(question))
        try:
            async for event in stream:
                if self.report is not None:
                    self.report(event)
                view(event)
                self.budget.follow(event)
                self._note_denial(agent, event)
                if steps is None:
                    self._warn(event)
                if isinstance(event, RunFinished):
                    finished = event
        finally:
            view.close()
            await stream.aclose()
        assert finished is not None
        return finished

    def _recorded_question(self, agent: Agent) -> str:
        questions = getattr(agent.tape, "questions", ())
        if not questions:
            raise InputError("the recording holds no question; write one")
        return str(questions[0])

    def _note_denial(self, agent: Agent, event: Event) -> None:
        """What was denied when it was recorded still is, and so is a tool that its server changed: no rule decides."""
        if not (isinstance(event, ToolCallFinished) and event.result.error == "denied"):
            return
        tool = agent.known_tools.get(event.call.name)
        if tool is None:
            return
        denied = partial(Denial, PendingCall.of("approval", event.call, tool), label_of(tool))
        if self.options.replay is not None:
            self.denials.append(denied("as it was recorded"))
        elif (tool.server, tool.original_name) in self.changed:
            self.denials.append(denied("its server changed it since it was first used", "--trust-changes"))

    def _write_estimate(self, agent: Agent, schema: AnswerSchema | None) -> None:
        from mcpagent.cli.estimate import estimate

        found = estimate(agent, schema.asked_for(self.prompt) if schema is not None else self.prompt)
        if self.report is not None:
            self.report.estimated(found)
        else:
            write_out("\n".join(found.lines()) + "\n")

    def _write_answer(self, agent: Agent, finished: RunFinished) -> None:
        if self.report is not None:
            self.report.finish(agent, finished, self.denials)
        elif not self.shows_words:
            write_out(finished.answer if finished.answer.endswith("\n") else finished.answer + "\n")

    def _before_the_run(self, event: Event) -> None:
        """What happens while servers connect; the stream tells the rest."""
        if not self.connecting:
            return
        if self.report is not None:
            self.report(event)
        if isinstance(event, ServerFailed):
            servers = {server.name: server for server in self.configuration.enabled}
            print_failed_server(self.terminal.err, event, servers, self.terminal.glyphs)
        else:
            self._warn(event)

    async def _refuse_change(self, change: ToolChange) -> bool:
        """Nobody is asked about a tool that its server changed; how it differs has been told."""
        self.changed.add((change.server, change.tool))
        return False

    def _warn(self, event: Event) -> None:
        if isinstance(event, Notice) and event.level == "warning":
            put(self.terminal.err, notice_line(event.text, event.level, self.terminal.glyphs))

    def _say_what_is_used(self, agent: Agent) -> None:
        if self.options.quiet:
            return
        err = self.terminal.err
        put(err, *hints(agent, self.options, self.configuration), style="dim")
        if self.tells_steps:
            used = self.configuration.describe(self.options.folder)
            put(err, f"{agent.model.name} {self.terminal.glyphs.dot} {used}", style="dim")

    def _judge(self, finished: RunFinished) -> ExitCode:
        if finished.stop in STOPPED:
            put(self.terminal.err, notice_line(STOPPED[finished.stop], "warning", self.terminal.glyphs))
        for line in dict.fromkeys(denial.line() for denial in self.denials):
            put(self.terminal.err, Text(line, "error"))
        if finished.stop == "answered" and self.denials and not self.options.denied_ok:
            return ExitCode.DENIED
        if not finished.answer.strip():
            return ExitCode.ERROR
        return code_of_stop(finished.stop)

    def _box(self) -> ApprovalBox | None:
        """Asks the person at the terminal; None where there is none."""
        if not (is_a_terminal(sys.stdin) and self.terminal.err.is_terminal):
            return None
        from mcpagent.cli.asking import ApprovalBox

        return ApprovalBox(self.terminal.err, self.terminal.glyphs, aside=self._aside)

    def _aside(self) -> AbstractContextManager[None]:
        return self.view.paused() if self.view is not None else nullcontext()
