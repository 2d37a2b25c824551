"""The commands about the part of the conversation that the model receives: `/compact`, `/pin`, `/history`."""

from __future__ import annotations

from rich.text import Text

from mcpagent.cli.chat.slash.chat_state import ChatState
from mcpagent.cli.common.number_formats import counted
from mcpagent.cli.screen.lines import compacted_line, short_arguments
from mcpagent.errors import InputError, McpAgentError
from mcpagent.history.intake.file_descriptions import details_of, file_kind
from mcpagent.history.sent_messages import OmittedParts
from mcpagent.prompt.builder import is_own_note
from mcpagent.utilities.text.safe_text import safe_line, safe_text
from mcpagent.values.messages import (
    FILE_PARTS,
    Compacted,
    Message,
    Pinned,
    ToolCall,
    ToolResult,
    ToolsChanged,
    ToolsShown,
)
from mcpagent.values.messages import Text as Words

_OURS = (ToolsChanged, ToolsShown)
MOST_LISTED = 200
MOST_SHOWN = 20_000
"""Maximum number of displayed characters of one part of a message."""


async def compact(desk: ChatState, argument: str) -> None:
    """summarise the conversation so far, to save tokens; WORDS: the topic to keep"""
    if not desk.agent.messages:
        desk.say("nothing was said yet, so there is nothing to summarise")
        return
    try:
        made = await desk.agent._runtime.own_session.compact(argument)
    except InputError as error:
        desk.warn(safe_line(str(error), 200))
        return
    except McpAgentError as error:
        desk.warn(f"not compacted: {safe_line(str(error), 300)}")
        return
    if made is None:
        desk.say(
            "there is nothing to summarise: the last question and its answer stay as they are"
        )
        return
    desk.say(compacted_line(made, desk.terminal.glyphs))
    desk.note("it counts from the next question on; /history shows all of it")


async def pin(desk: ChatState, argument: str) -> None:
    """keep the last question word by word when others are summarised; N: message N of /history"""
    if argument and not argument.isdecimal():
        desk.warn(
            f"/pin {safe_line(argument, 20)} - which message? /history has their numbers"
        )
        return
    try:
        desk.agent._runtime.own_session.pin(int(argument) - 1 if argument else -1)
    except InputError as error:
        desk.warn(
            "nothing was asked yet" if not argument else safe_line(str(error), 200)
        )
        return
    desk.note("it stays word by word when what is as old is summarised")


async def history(desk: ChatState, argument: str) -> None:
    """all messages, those too that the model is not sent any more; N: all of message N"""
    session = desk.agent._runtime.own_session
    messages, left_out = desk.agent.messages, session.left_out
    if argument:
        if not argument.isdecimal() or not 1 <= int(argument) <= len(messages):
            desk.warn(
                f"/history {safe_line(argument, 20)} - there are {counted(len(messages), 'message')}"
            )
            return
        desk.say(*_whole(messages[int(argument) - 1]))
        for text in session.stopped_after(int(argument)):
            desk.say(Text("stopped answer", "tool"), safe_text(text))
        return
    if not messages:
        desk.say("nothing was said yet")
        return
    first = max(len(messages) - MOST_LISTED, 0)
    if first:
        desk.note(
            f"the first {first:,} are not listed; /history 1 shows the first, /export all of them"
        )
    for place in range(first, len(messages)):
        desk.say(history_line(place, messages[place], left_out, desk.width))
        for text in session.stopped_after(place + 1):
            line = Text.assemble("       ", (f"{'stopped':<9}", "tool"))
            room = max(min(desk.width, 100) - 18, 10)
            desk.say(line.append(safe_line(text, room), "dim"))
    if left_out.messages:
        desk.note(
            f"{counted(left_out.messages, 'message')} the model is not sent any more; it has this in their place:"
        )
        told = left_out.summary or "no summary of them could be made"
        desk.say(*(Text(f"  {line}", "dim") for line in safe_text(told).splitlines()))


def history_line(
    place: int, message: Message, left_out: OmittedParts, width: int
) -> Text:
    """Return ` 12  call    read_file path=a.txt          summarised`."""
    kind, said = _told(message)
    marks = []
    if left_out.has(place):
        marks = ["summarised"]
    if any(one.call_id in left_out.shortened for one in message.tool_results):
        marks += ["shortened"]
    if any(one.set_aside is not None for one in message.tool_results):
        marks += ["set aside"]
    if Pinned() in message.parts:
        marks += ["pinned"]
    mark = ""
    if marks:
        mark = "  " + ", ".join(marks)
    line = Text.assemble((f"{place + 1:>5}  ", "dim"), (f"{kind:<9}", "tool"))
    line.append(
        safe_line(said, max(min(width, 100) - 18 - len(mark), 10)),
        "" if not marks else "dim",
    )
    return line.append(mark, "dim")


def _told(message: Message) -> tuple[str, str]:
    if any(isinstance(part, Compacted) for part in message.parts):
        return "mcpagent", "from here on the model is sent less of what stands above"
    if message.role == "user" and (
        any(isinstance(one, _OURS) for one in message.parts)
        or is_own_note(message.text)
    ):
        return "mcpagent", message.text
    if calls := message.tool_calls:
        return "call", ", ".join(
            f"{call.name} {short_arguments(call.arguments)}".strip() for call in calls
        )
    if results := message.tool_results:
        return "result", ", ".join(
            f"{one.name}: {len(one.text):,} characters" for one in results
        )
    kind = "answer"
    if message.role == "user":
        kind = "user"
    return kind, message.text or _files(message)


def _files(message: Message) -> str:
    """Describe the files of a message without text."""
    told = [
        f"({file_kind(part)}: {details_of(part)})"
        for part in message.parts
        if isinstance(part, FILE_PARTS)
    ]
    return ", ".join(told)


def _whole(message: Message) -> list[Text]:
    lines: list[Text] = []
    for part in message.parts:
        match part:
            case Words(text=text):
                lines += _cut(text)
            case ToolCall(name=name, arguments=arguments):
                lines.append(
                    Text.assemble(
                        (safe_line(name, 120), "tool"), "  ", short_arguments(arguments)
                    )
                )
            case ToolResult(name=name, text=text):
                lines.append(
                    Text.assemble(("result of ", "dim"), (safe_line(name, 120), "tool"))
                )
                lines += _cut(text)
            case Compacted(summary=summary):
                lines += _cut(summary or "no summary")
            case _:
                pass
    return lines or [Text("nothing that could be shown", "dim")]


def _cut(text: str) -> list[Text]:
    lines = [Text(f"  {line}") for line in safe_text(text[:MOST_SHOWN]).splitlines()]
    more = len(text) - MOST_SHOWN
    if more > 0:
        return [
            *lines,
            Text(f"  {more:,} more characters; /save keeps all of it", "dim"),
        ]
    return lines
