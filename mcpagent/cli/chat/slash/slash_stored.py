"""The commands about stored conversations: `/sessions`, `/resume`, `/continue`, `/fork`, `/rename`."""

from __future__ import annotations

import asyncio

from mcpagent.cli.chat.session_rows import session_rows
from mcpagent.cli.chat.slash.chat_state import ChatState
from mcpagent.cli.common.stored_sessions import meant_sessions, short_id
from mcpagent.journal.sessions import Sessions
from mcpagent.utilities.text.safe_text import safe_line

MOST_LISTED = 15
NOT_KEPT = "nothing of this chat is kept (--no-session, or its file cannot be written)"


async def sessions(desk: ChatState, argument: str) -> None:
    """the kept conversations, the last one first; WORDS: those that have them"""
    if desk.store is None:
        desk.say(NOT_KEPT)
        return
    found = await asyncio.to_thread(meant_sessions, desk.options, desk.store, argument)
    own, shown = desk.agent._runtime.own_session.id, found[:MOST_LISTED]
    names = [f"{'*' if info.id == own else ' '} {short_id(info.id)}" for info in shown]
    desk.say(*session_rows(shown, names, desk.folder, desk.width))
    if len(found) > MOST_LISTED:
        desk.note(
            f"{len(found) - MOST_LISTED:,} more; /sessions WORDS, or mcpagent sessions list"
        )
    desk.note(
        "/resume ID goes on with one; * is this one"
        if any(info.id == own for info in found)
        else "/resume ID"
    )


async def resume(desk: ChatState, argument: str) -> None:
    """continue another stored conversation: its ID or words of it; alone: choose from a list"""
    if desk.store is None:
        desk.say(NOT_KEPT)
        return
    own = desk.agent._runtime.own_session.id
    found = await asyncio.to_thread(meant_sessions, desk.options, desk.store, argument)
    others = [info for info in found if info.id != own]
    if not others:
        desk.say("this is it" if argument else "no other conversation is kept")
        return
    chosen = others[0] if argument and len(others) == 1 else await desk.pick(others)
    if chosen is None:
        desk.note("nothing was chosen; this conversation goes on")
    else:
        await desk.go_on_with(chosen.id)


async def go_on(desk: ChatState, _argument: str) -> None:
    """continue an unfinished question"""
    await desk.finish()


async def fork(desk: ChatState, argument: str) -> None:
    """continue in a copy, and leave this conversation unchanged; TITLE: the copy's name"""
    store = _kept(desk)
    if store is None:
        return
    before = desk.agent._runtime.own_session.id
    copy = await asyncio.to_thread(store.fork, before)
    if argument:
        await asyncio.to_thread(store.rename, copy, argument)
    await desk.agent._runtime.go_on_with(copy)
    desk.note(
        f"this is the copy {short_id(copy)}; /resume {short_id(before)} goes back"
    )


async def rename(desk: ChatState, argument: str) -> None:
    """give this conversation another title"""
    store = _kept(desk)
    if store is None:
        return
    await asyncio.to_thread(store.rename, desk.agent._runtime.own_session.id, argument)
    desk.note(f'its title is "{safe_line(argument, 80)}"')


def _kept(desk: ChatState) -> Sessions | None:
    """Return the store if it has this conversation; otherwise print the reason and return None."""
    if desk.store is None or not desk.agent._runtime.own_session.is_kept:
        desk.say(NOT_KEPT)
    elif not desk.agent.messages:
        desk.say("nothing was said yet, so there is nothing to keep")
    else:
        return desk.store
    return None
