"""`/new`, `/retry`, `/undo`, `/edit`, `/copy`, `/exit`."""

from __future__ import annotations

from mcpagent.cli.clipboard import copy_to_clipboard
from mcpagent.cli.commands.desk import Desk, Leave, Turn
from mcpagent.cli.figures import counted
from mcpagent.cli.requests import RequestTrace
from mcpagent.safe_text import safe_line, safe_text


async def new(desk: Desk, _argument: str) -> None:
    """a new conversation; servers stay connected"""
    await desk.ready()
    desk.agent.new_conversation()
    desk.figures.read(desk.agent)
    desk.trace.clear()
    desk.requests.restore(RequestTrace())
    desk.turns.clear()
    desk.kept.clear()
    desk.note("new conversation")


async def retry(desk: Desk, _argument: str) -> None:
    """ask the last question once more, without the first answer"""
    if (turn := _take_back(desk)) is not None:
        await desk.ask(turn.typed, turn.prompt)


async def undo(desk: Desk, _argument: str) -> None:
    """take the last question and its answer back"""
    if not desk.turns:
        desk.say("nothing to take back")
        return
    called = sum(len(message.tool_calls) for message in desk.agent.messages[desk.turns[-1].length :])
    turn = _take_back(desk)
    assert turn is not None
    desk.note(f"taken back: {safe_line(turn.typed, 80)}")
    if called:
        desk.note(f"what its {counted(called, 'call')} did outside stays done")


async def edit(desk: Desk, _argument: str) -> None:
    """change the last question in $EDITOR and ask it instead"""
    if not desk.turns:
        desk.say("there is no question yet; Ctrl+E opens the editor for a new one")
        return
    before = desk.turns[-1].typed
    changed = (await desk.edit(before)).strip()
    if not changed or changed == before.strip():
        desk.note("not changed; nothing is asked")
        return
    _take_back(desk)
    await desk.ask(changed, changed)


async def copy(desk: Desk, _argument: str) -> None:
    """the last answer into the clipboard"""
    answers = [message.text for message in desk.agent.messages if message.role == "assistant" and message.text.strip()]
    if not answers:
        desk.say("there is no answer yet")
        return
    desk.note(await copy_to_clipboard(safe_text(answers[-1]), desk.terminal.out, desk.environ))


async def leave(_desk: Desk, _argument: str) -> None:
    """end the chat (also Ctrl-D)"""
    raise Leave


def _take_back(desk: Desk) -> Turn | None:
    """Makes everything as it was before the last question; None where there is none."""
    if not desk.turns:
        desk.say("there is no question yet")
        return None
    turn = desk.turns.pop()
    desk.agent.rewind(turn.length)
    desk.trace.restore(turn.trace)
    desk.requests.restore(turn.requests)
    desk.figures.read(desk.agent)
    desk.figures.last = turn.requests.last.usage if turn.requests.last is not None else None
    return turn
