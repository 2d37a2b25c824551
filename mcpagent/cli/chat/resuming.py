"""Continue a stored conversation in the chat: select and open it, show its end, decide on pending calls, store it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from mcpagent.cli.approvals.approver import Approver
from mcpagent.cli.chat.resumed_state import (
    finished_length,
    last_request,
    questions_of,
    resumed_lines,
)
from mcpagent.cli.chat.session_picker import pick_session
from mcpagent.cli.chat.slash.chat_state import ChatState, Leave
from mcpagent.cli.chat.startup import Startup
from mcpagent.cli.chat.watched_runs import watched_to_end
from mcpagent.cli.common.options import Options
from mcpagent.cli.common.stored_sessions import (
    last_here,
    meant_sessions,
    resume_words,
    short_id,
)
from mcpagent.cli.screen.terminal import warning_line
from mcpagent.errors import (
    AgentStateError,
    McpAgentError,
    SessionBusyError,
    SessionStoreError,
)
from mcpagent.journal.sessions import SessionInfo, Sessions
from mcpagent.run.middleware.permission_gate import facts_of
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.approval import CallAnswer, PendingCall

UNFINISHED = "this question was not finished; [Enter] goes on, or ask something else"
MAY_GO_ON = "/continue goes on with this question"
MAX_ERROR = 400


@dataclass(kw_only=True)
class StoredChat:
    """The store of a chat, and its conversation there.

    `follow` shows the events of a run, `choose` asks for one line. `enter_goes_on`: the chat has just announced that
    Enter continues.
    """

    options: Options
    store: Sessions | None
    desk: ChatState
    approver: Approver
    startup: Startup
    follow: Callable[[Callable[[], Awaitable[object]]], Awaitable[None]]
    choose: Callable[[str], Awaitable[str]]
    enter_goes_on: bool = False

    async def at_start(self) -> str | None:
        """Return the ID of the requested conversation; None for a new one.

        Raises `Leave`, and `InputError` for an invalid request. If the store cannot be read, a new conversation begins.
        """
        options, store = self.options, self.store
        if store is None:
            return None
        try:
            if options.resume is not None:
                found = await asyncio.to_thread(
                    meant_sessions, options, store, options.resume
                )
                if len(found) == 1 and options.resume.strip():
                    return found[0].id
                chosen = await self.pick(found)
                if chosen is None:
                    raise Leave
                return chosen.id
            if options.continue_last:
                return await asyncio.to_thread(
                    last_here, options, store, self.desk.note
                )
        except SessionStoreError as error:
            self._warn(f"{error}; a new conversation begins")
        return None

    async def pick(self, found: list[SessionInfo]) -> SessionInfo | None:
        """Return the conversation that the user chooses, or None."""
        return await pick_session(found, self.desk.terminal, self.options.folder)

    async def begin_with(self, session: str) -> None:
        """Run `go_on_with` for a starting chat; if that fails, a new conversation begins."""
        with contextlib.suppress(
            McpAgentError
        ):  # the error that kept the agent from starting is displayed at the end
            await self.startup.entered()
        if not self.startup.is_entered:
            return
        try:
            await self.go_on_with(session)
        except SessionStoreError as error:
            self._warn(f"{error}; a new conversation begins")
        if not self.options.sessions:
            self.desk.agent._runtime.own_session.stop_keeping()
            self.desk.note("what is said here is not kept (--no-session)")

    async def go_on_with(self, session: str) -> None:
        """Continue this conversation in the chat, show its end, and ask about pending calls.

        If the conversation has a durable run, the chat watches it until it ends. A conversation that another process
        has open can be continued in a copy. Raises `SessionStoreError`.
        """
        desk, store = self.desk, self.store
        assert store is not None
        await self.startup.entered()
        try:
            await desk.agent._runtime.go_on_with(session)
        except SessionBusyError as error:
            kept = await asyncio.to_thread(store.read, session)
            run = str(kept.values.get("durable") or "")
            if run:
                if await watched_to_end(desk, store, session, run, self.choose):
                    await self.go_on_with(session)
                return
            copy = await self._copy_of(store, error)
            if copy is None:
                return
            await desk.agent._runtime.go_on_with(copy)
            session = copy
        kept, messages = (
            await asyncio.to_thread(store.read, session),
            desk.agent.messages,
        )
        desk.asked, trace = questions_of(messages, kept.steps)
        desk.trace = replace(
            trace, last=last_request(desk.agent, messages, kept.steps, trace.requests)
        )
        desk.kept.clear()
        desk.say(
            *resumed_lines(
                kept.info, desk.asked, messages, desk.terminal, self.options.folder
            )
        )
        if kept.info.model and kept.info.model != desk.agent._runtime.model.name:
            model = safe_line(kept.info.model, 80)
            desk.note(f"  so far with {model}; /model {model} goes on with it")
        await self.go_on_with_what_waits(is_new=True)

    async def _copy_of(self, store: Sessions, error: SessionBusyError) -> str | None:
        """Ask whether to continue in a copy of a session that another process has open; return the copy's ID.

        The copy omits a prompt that the other process is still answering, so that it does not run twice. Returns None
        if the user declines.
        """
        desk = self.desk
        kept = await asyncio.to_thread(store.read, error.session)
        title = safe_line(kept.info.title, 60) or short_id(error.session)
        self._warn(f'"{title}" is open in {error.holder}')
        if (
            await self.choose("go on in a copy of it? [y] yes  [N] no: ")
        ).lower() not in ("y", "yes"):
            desk.note(
                "it was left there"
                if desk.agent.messages
                else "it was left there; this is a new conversation"
            )
            return None
        length = finished_length(kept.messages)
        copy = await asyncio.to_thread(store.fork, error.session, None, length=length)
        desk.note(
            "this is a copy"
            if length is None
            else "this is a copy, without the question that is being answered there"
        )
        return copy

    async def go_on_with_what_waits(self, *, is_new: bool = False) -> None:
        """Decide on pending calls, or answer an unfinished prompt. With `is_new`, an unfinished prompt is only
        offered.
        """
        session = self.desk.agent._runtime.own_session
        if waiting := session.pending:
            await self._decide(waiting)
        elif not session.is_unfinished:
            if not is_new:
                self.desk.say("nothing is unfinished here; ask something")
        elif is_new:
            self.desk.warn(UNFINISHED)
            self.enter_goes_on = True
        else:
            await self.follow(self.desk.agent.resume)

    async def _decide(self, waiting: tuple[PendingCall, ...]) -> None:
        desk, agent = self.desk, self.desk.agent
        if outside := [call for call in waiting if call.kind == "external"]:
            names = ", ".join(safe_line(call.tool, 60) for call in outside)
            desk.warn(
                f"{names}: waits for a result from outside, which a chat cannot give; the next question goes on"
            )
            return
        with contextlib.suppress(AgentStateError):  # a replay starts no servers
            await agent.mcp.settle(
                self.options.server_wait,
                lambda _servers: None,
                enough=lambda: all(
                    agent._runtime.tools.find(call.tool) is not None for call in waiting
                ),
            )
        answers: list[CallAnswer] = []
        for call in waiting:
            tool = agent._runtime.tools.find(call.tool)
            facts = None
            if tool is not None:
                facts = facts_of(tool, call.arguments)
            answers.append(await self.approver.again(call, facts))
        await self.follow(lambda: agent.resume(answers))

    @property
    def is_unfinished(self) -> bool:
        """True if the last prompt has no answer."""
        return (
            self.startup.is_entered
            and self.desk.agent._runtime.own_session.is_unfinished
        )

    def how(self) -> str:
        """Return the command that continues this chat; "" if the chat is empty or not stored, or the agent has not
        started.
        """
        if not self.startup.is_entered or self.options.quiet:
            return ""
        session = self.desk.agent._runtime.own_session
        is_there = session.is_kept and session.messages
        if is_there:
            return f"to go on: {resume_words(self.options, session.id)}"
        return ""

    def stop_keeping(self, error: SessionStoreError) -> None:
        """Continue in memory, and report the error."""
        self._warn(
            f"{error}; the chat goes on in memory: what is said from here on is not kept"
        )
        self.desk.agent._runtime.own_session.stop_keeping()

    def _warn(self, text: str) -> None:
        self.desk.say(warning_line(text, self.desk.terminal.glyphs, MAX_ERROR))
