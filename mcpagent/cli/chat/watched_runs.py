"""Watch a durable run in the chat: show the messages of its worker, and let the user end the run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rich.text import Text

from mcpagent.cli.chat.session_rows import message_lines, results_by_call
from mcpagent.cli.chat.slash.chat_state import ChatState
from mcpagent.cli.common.stored_sessions import short_id
from mcpagent.journal.sessions import Sessions
from mcpagent.journal.sessions.run_ended import RunEnded
from mcpagent.journal.sessions.store import written
from mcpagent.utilities.text.safe_text import safe_line

POLL_SECONDS = 0.5
"""Interval at which the store is asked whether the session changed; the session is read only after a change."""


async def watched_to_end(
    desk: ChatState,
    store: Sessions,
    session: str,
    run: str,
    choose: Callable[[str], Awaitable[str]],
) -> bool:
    """Show an unfinished run until it ends. Ctrl-C offers to end the run; returns False if the user only stops
    watching.
    """
    desk.note(
        f"a worker answers here (run {short_id(run)}); Ctrl-C to end that run, or to stop watching"
    )
    while True:
        try:
            ended = await _shown(desk, store, session, run)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.uncancel():
                raise
            answer = await choose("end this run? [y] yes  [N] no, only stop watching: ")
            if answer.lower() not in ("y", "yes"):
                desk.note("the worker goes on with it; this is a new conversation")
                return False
            await written(store.cancel_run(session, run))
            desk.note("the run ends before its next step")
            continue
        desk.say(Text(_end_line(ended), "dim"))
        return True


async def _shown(
    desk: ChatState, store: Sessions, session: str, run: str
) -> RunEnded | None:
    """Show the messages of the run when they are stored; return its end, or None if the session does not have the
    run.
    """
    length, seen = -1, -1.0
    while True:
        record = await written(store.run_record(session, run))
        if record.updated != seen:
            seen = record.updated
            length = await _show_news(desk, store, session, length)
        if not record.is_under_way:
            return record.ended
        await asyncio.sleep(POLL_SECONDS)


async def _show_news(
    desk: ChatState, store: Sessions, session: str, length: int
) -> int:
    """Show the messages after the first `length`; for -1, those after the last prompt.

    Returns the number of messages.
    """
    kept = await written(store.reading(session))
    if kept is None:
        return length
    if length < 0:
        places = [
            place
            for place, message in enumerate(kept.messages)
            if message.role == "user"
        ]
        length = 0
        if places:
            length = places[-1]
    results = results_by_call(kept.messages)
    for message in kept.messages[length:]:
        desk.say(*message_lines(message, desk.terminal, results))
    return len(kept.messages)


def _end_line(ended: RunEnded | None) -> str:
    if ended is None:
        return "the run is over"
    if ended.result is None:
        return f"the run {ended.state}: {safe_line(str(ended.error), 300)}"
    return f"the run ended: {ended.result.stop}"
