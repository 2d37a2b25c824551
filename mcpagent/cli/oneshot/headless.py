"""Answer one prompt: stdout receives only the answer or the documents, stderr everything else."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

from rich.text import Text

from mcpagent.agents.agent import Agent
from mcpagent.cli.approvals.approval_box import Asking, ask_about_call, read_answer
from mcpagent.cli.approvals.approver import Denial, label_of
from mcpagent.cli.approvals.project_trust import trusted_configuration
from mcpagent.cli.approvals.server_requests import ServerRequests
from mcpagent.cli.common.configuration import Configuration
from mcpagent.cli.common.exit_codes import ExitCode, code_of_stop, run_to_end, within
from mcpagent.cli.common.number_formats import counted, money
from mcpagent.cli.common.options import Options
from mcpagent.cli.common.stored_sessions import (
    begun_elsewhere,
    session_to_ask,
    store_of,
)
from mcpagent.cli.oneshot.agent_options import (
    connecting,
    hints,
    make_agent,
    make_approver,
    require_a_server,
    rules_without_effect,
)
from mcpagent.cli.oneshot.json_report import JsonReport
from mcpagent.cli.oneshot.prompts import answer_schema
from mcpagent.cli.oneshot.traces import tracing_wrappers
from mcpagent.cli.screen.lines import notice_line, restart_line
from mcpagent.cli.screen.rendering import TurnView, print_failed_server
from mcpagent.cli.screen.saved_files import save_generated
from mcpagent.cli.screen.streamed_text import StreamedText
from mcpagent.cli.screen.terminal import (
    Terminal,
    is_a_terminal,
    put,
    readable_json,
    write_out,
)
from mcpagent.config import ServersConfig
from mcpagent.errors import InputError, OutputError
from mcpagent.journal.sessions import Sessions
from mcpagent.journal.sessions.store import usable_id
from mcpagent.mcp.all_servers import joins_later
from mcpagent.mcp.lists.pins import ToolChange
from mcpagent.models.base import Model
from mcpagent.tool_search.search_options import CHARACTERS_PER_TOKEN
from mcpagent.utilities.text.for_model import for_model
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.approval import PendingCall
from mcpagent.values.events import (
    AnswerRestarted,
    Event,
    Notice,
    ResponseReceived,
    RunFinished,
    ServerFailed,
    TextDelta,
    ToolCallFinished,
)
from mcpagent.values.limits.run_limits import LimitKind
from mcpagent.values.messages import FilePart, Usage

_FLAGS: Mapping[LimitKind, str] = {
    "turns": "--max-turns ",
    "tool_calls": "--set max_calls=",
    "tokens": "--set max_tokens=",
    "dollars": "--max-cost ",
    "seconds": "--set max_seconds=",
}
_STOPPED: Mapping[str, str] = {
    "repeated_calls": "stopped: the model made the same call again and again",
    "truncated": "the answer is cut off: the model reached its limit of output tokens",
    "refused": "the model refused to answer",
    "calls_pending": "stopped: a call waits for an approval or a result from outside",
}


def stopped_line(finished: RunFinished) -> str:
    """Return why the answer is missing or incomplete; "" if it is complete."""
    limit = finished.limit
    if limit is None or finished.pending:
        return _STOPPED.get(finished.stop, "")
    # the library's value that stands for `--max-cost 0`
    if limit.most == sys.float_info.min:
        most = 0.0
    else:
        most = limit.most
    if limit.limit == "tokens":
        flag = f"{_FLAGS[limit.limit]}{most:.0f}"
    else:
        flag = f"{_FLAGS[limit.limit]}{most:g}"
    words = limit.said(
        "" if finished.answer else "without an answer",
        limit=flag if limit.scope == "run" else "",
    )
    if finished.answer:
        return f"{words}; the answer is what the model knew by then"
    return words


def ask_once(
    options: Options,
    prompt: str,
    terminal: Terminal,
    *,
    files: Sequence[FilePart] = (),
    model: Model | None = None,
) -> ExitCode:
    """Answer the prompt in the requested format. `model` replaces the configured one."""
    run = _OneShot(options, prompt, terminal, files, model)
    try:
        return run_to_end(run.answer())
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        if run.report is not None and not isinstance(error, BrokenPipeError):
            run.report.fail(error, run.agent, run.denials)
        raise


class _OneShot:
    def __init__(
        self,
        options: Options,
        prompt: str,
        terminal: Terminal,
        files: Sequence[FilePart],
        model: Model | None,
    ) -> None:
        self.options = options
        self.prompt = prompt
        self.files = files
        self.terminal = terminal
        self.model = model
        self.agent: Agent | None = None
        self.report: JsonReport | None = None
        if options.output != "text":
            self.report = JsonReport(
                write_out, streaming=options.output == "stream-json"
            )
        self.shows_steps = not options.quiet and (
            options.verbose or terminal.err.is_terminal
        )
        writes_words = self.report is None and options.json_schema is None
        streams = writes_words and not options.no_stream
        self.shows_words = streams and terminal.out.is_terminal
        self.text: StreamedText | None = None
        if streams and not terminal.out.is_terminal:
            self.text = StreamedText(self._write_streamed)
        self.reader_left = False
        self.connecting = True
        self.view: TurnView | None = None
        self.configuration = Configuration(ServersConfig())
        self.denials: list[Denial] = []
        # Tools that were not called because their server changed them: (server, the server's name of the tool).
        self.changed: set[tuple[str | None, str]] = set()

    async def answer(self) -> ExitCode:
        """Answer the prompt within `--timeout`."""
        async with within(self.options.timeout):
            return await self._run()

    async def _run(self) -> ExitCode:
        options = self.options
        schema = None
        if options.json_schema is not None:
            schema = answer_schema(options.json_schema)
        self.configuration = trusted_configuration(options, self.terminal)
        asking = Asking(
            self.terminal.err, self.terminal.glyphs, read_answer, self._aside
        )
        can_ask = is_a_terminal(sys.stdin) and self.terminal.err.is_terminal
        approver = make_approver(
            options,
            self.configuration,
            partial(ask_about_call, asking) if can_ask else None,
        )
        self.denials = approver.denials
        session, store = await self._session_to_ask()
        agent = make_agent(
            options,
            self.configuration,
            self._before_the_run,
            model=self.model,
            startup_seconds=options.server_wait,
            approver=approver,
            allow_change=self._refuse_change,
            # A one-shot run cannot ask a user: every question of a server is declined and reported.
            requests=ServerRequests(replace(asking, read=None)),
            sessions=store,
            wrappers=tracing_wrappers(options, self.terminal, self.configuration),
        )
        self._say_what_is_used(agent)
        with (
            connecting(self.terminal, self.configuration)
            if self.shows_steps
            else nullcontext()
        ):
            await agent.__aenter__()
        self.agent = agent
        self.connecting = False
        if options.replay is None:
            agent.mcp.has_waited(options.server_wait)
        try:
            if session is not None:
                await agent._runtime.go_on_with(session)
            self.prompt = self.prompt or next(
                iter(getattr(agent._runtime.definition.sources, "questions", ())), ""
            )
            if not self.prompt:
                raise InputError("the recording holds no question; write one")
            require_a_server(agent, self.configuration.untrusted)
            self.terminal.warn(
                *rules_without_effect(agent, self.configuration, approver.rules)
            )
            if options.dry_run:
                return self._estimate(agent, schema)
            earlier = len(agent.messages)
            finished = await self._follow(agent, self.prompt, schema)
            new, model = agent.messages[earlier:], agent._runtime.model
            saved = await save_generated(new, options.folder, model)
            put(self.terminal.err, *saved, style="dim")
            if finished.stop == "misfit":
                told = "; ".join(map(str, finished.problems))
                raise OutputError(
                    f"no answer that fits --json-schema: {told}",
                    problems=finished.problems,
                )
            self._write_answer(agent, finished)
            return self._judge(finished)
        finally:
            await agent.aclose()

    async def _session_to_ask(self) -> tuple[str | None, Sessions | None]:
        """Return the session for the prompt and its store; None for both if nothing is to be stored."""
        options = self.options
        if options.session is None and not options.continue_last:
            return None, None
        store = store_of(options)

        def tell(line: str) -> None:
            if not options.quiet:
                put(self.terminal.err, line, style="dim")

        session = await asyncio.to_thread(session_to_ask, options, store, tell)
        session = usable_id(session if session is not None else uuid4().hex)
        # First report a session that cannot be stored or is in use.
        kept = await asyncio.to_thread(store.open, session)
        if kept is not None and (line := begun_elsewhere(kept.info, options.folder)):
            tell(line)
        store.release(session)  # the agent leases the session itself
        return session, store

    async def _follow(
        self, agent: Agent, question: str, schema: dict[str, Any] | None
    ) -> RunFinished:
        steps = None
        if self.shows_steps:
            steps = self.terminal.err
        self.view = view = TurnView(
            steps, self.terminal.out if self.shows_words else None, self.terminal.glyphs
        )
        if self.report is not None:
            self.report.ask(agent, question)
        finished: RunFinished | None = None
        with closing(view):
            prompt = [question, *self.files] if self.files else question
            async with agent.stream(prompt, output_type=schema) as events:
                async for event in events:
                    if self.report is not None:
                        self.report(event)
                    view(event)
                    self._stream(event)
                    self._note_denial(agent, event)
                    if steps is None:
                        self._warn(event)
                    if isinstance(event, RunFinished):
                        finished = event
        assert finished is not None
        return finished

    def _write_streamed(self, text: str) -> None:
        """Write to stdout. If the reader of the pipe has closed it, the run continues, and the session stores the
        answer.
        """
        if self.reader_left:
            return
        if self.view is not None:  # what reads the pipe may write to this terminal
            self.view.end_movement()
        try:
            write_out(text)
        except BrokenPipeError:
            self.reader_left = True

    def _stream(self, event: Event) -> None:
        """Write the model's text to a pipe as it arrives, including text before a call."""
        if self.text is None:
            return
        match event:
            case TextDelta(text=text):
                self.text.feed(text)
            case ResponseReceived():
                self.text.finish()
            case AnswerRestarted():
                self.text.finish()
                put(self.terminal.err, restart_line(event, self.terminal.glyphs))
            case _:
                pass

    def _note_denial(self, agent: Agent, event: Event) -> None:
        """Record denials that no rule decided: those in a recording, and tools that their server changed."""
        if not (isinstance(event, ToolCallFinished) and event.result.error == "denied"):
            return
        tool = agent.known_tools.get(event.call.name)
        if tool is None:
            return
        denied = partial(
            Denial, PendingCall.of("approval", event.call, tool), label_of(tool)
        )
        if self.options.replay is not None:
            self.denials.append(denied("as it was recorded"))
        elif (tool.server, tool.original_name) in self.changed:
            self.denials.append(
                denied(
                    "its server changed it since it was first used", "--trust-changes"
                )
            )

    def _estimate(self, agent: Agent, schema: dict[str, Any] | None) -> ExitCode:
        form = ""
        if schema is not None:
            form = json.dumps(schema)
        document, lines = _estimated(agent, self.prompt + form)
        if self.report is not None:
            self.report.write(document)
        else:
            write_out("\n".join(lines) + "\n")
        return ExitCode.OK

    def _write_answer(self, agent: Agent, finished: RunFinished) -> None:
        if self.report is not None:
            self.report.finish(
                agent, finished, self.denials, denied_ok=self.options.denied_ok
            )
        elif finished.has_output:
            write_out(readable_json(finished.output) + "\n")
        elif self.text is not None and self.text.has_written:
            self.text.finish()
            if self.reader_left:
                raise BrokenPipeError
        elif not self.shows_words and (
            finished.limit is None or self._is_told(finished)
        ):
            answer = for_model(finished.answer)
            write_out(answer if answer.endswith("\n") else answer + "\n")

    def _is_told(self, finished: RunFinished) -> bool:
        """Return whether to print an answer that a limit cut off: not if the user requested a JSON document."""
        return bool(finished.answer) and self.options.json_schema is None

    def _before_the_run(self, event: Event) -> None:
        """Report events while servers connect; later events reach the stream."""
        if not self.connecting:
            return
        if not self.options.dry_run and event in [
            joins_later(server.name) for server in self.configuration.enabled
        ]:
            return  # the prompt itself reports that it continues without that server
        if self.report is not None:
            self.report(event)
        if isinstance(event, ServerFailed):
            print_failed_server(
                self.terminal.err,
                event,
                self.configuration.enabled,
                self.terminal.glyphs,
            )
        else:
            self._warn(event)

    async def _refuse_change(self, change: ToolChange) -> bool:
        """Refuse a tool that its server changed, without asking; the difference has already been reported."""
        self.changed.add((change.server, change.tool))
        return False

    def _warn(self, event: Event) -> None:
        if isinstance(event, Notice) and event.level == "warning":
            put(self.terminal.err, notice_line(event, self.terminal.glyphs))

    def _say_what_is_used(self, agent: Agent) -> None:
        if self.options.quiet:
            lines = []
        else:
            lines = hints(agent, self.options, self.configuration)
        if self.shows_steps:
            used = self.configuration.describe(self.options.folder)
            lines.append(
                f"{agent._runtime.model.name} {self.terminal.glyphs.dot} {used}"
            )
        put(self.terminal.err, *lines, style="dim")

    def _judge(self, finished: RunFinished) -> ExitCode:
        is_told = (
            self.report is not None
            or finished.has_output
            or finished.limit is None
            or self._is_told(finished)
        )
        if words := stopped_line(finished if is_told else replace(finished, answer="")):
            self.terminal.warn(words)
        for line in dict.fromkeys(denial.line() for denial in self.denials):
            put(self.terminal.err, Text(line, "error"))
        if finished.stop == "answered" and self.denials and not self.options.denied_ok:
            return ExitCode.DENIED
        if not finished.answer.strip() and not finished.limit:
            return ExitCode.ERROR
        code = code_of_stop(finished.stop)
        if code == ExitCode.OK and self._note_missing_servers():
            return ExitCode.WITHOUT_SERVER
        return code

    def _note_missing_servers(self) -> bool:
        """Report the servers that were missing for the answer; return whether there were any."""
        if self.options.replay is not None or self.agent is None:
            return False
        states = {name: item.state for name, item in self.agent.servers.items()}
        failed = [name for name, state in states.items() if state == "failed"]
        if failed:
            names = ", ".join(safe_line(name, 60) for name in failed)
            self.terminal.warn(f"answered without {names}")
        # A notice has already reported servers that are still connecting, so only failures are named here.
        return bool(failed) or "connecting" in states.values()

    def _aside(self) -> AbstractContextManager[None]:
        if self.view is not None:
            return self.view.paused()
        return nullcontext()


def _estimated(agent: Agent, question: str) -> tuple[dict[str, Any], list[str]]:
    """Estimate the first request of this prompt, as a document and as lines; tokens are characters / 4."""
    from mcpagent.models.prices import dollars_for

    names, known = (
        [tool.name for tool in agent.offered_tools()],
        agent._runtime.tools.known,
    )
    system, asked = (
        len(text) // CHARACTERS_PER_TOKEN
        for text in (agent._runtime.own_session.system, question)
    )
    offered, everything = (
        agent._runtime.tools.tokens(names),
        agent._runtime.tools.tokens(known),
    )
    total = system + asked + offered
    provider, _, model = agent._runtime.model.name.partition(":")
    dollars = (
        0.0
        if provider == "offline"
        else dollars_for(Usage(input_tokens=total), provider, model, "")
    )
    price = "price not known"
    if dollars is not None:
        price = money(dollars)
    document = {
        "type": "estimate",
        "model": agent._runtime.model.name,
        "input_tokens": total,
        "input_tokens_with_every_tool": system + asked + everything,
        "tools_offered": names,
        "tools_known": len(known),
        "cost_usd": dollars,
    }
    lines = [
        f"first request to {agent._runtime.model.name}: about {total:,} tokens, {price}",
        f"  system {system:,}, question {asked:,}, {counted(len(names), 'tool')} offered {offered:,}",
        f"  offering all {counted(len(known), 'tool')}: {system + asked + everything:,} tokens",
        "characters / 4; each call makes one more request, with what was said before and what the tools gave",
    ]
    return document, lines
