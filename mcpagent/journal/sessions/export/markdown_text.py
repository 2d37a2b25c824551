"""Write a conversation as Markdown for pagers and code hosts; third-party text stays in quotes and code blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from mcpagent.history.intake.file_descriptions import details_of, file_kind
from mcpagent.journal.sessions.export.transcript import (
    Answered,
    CalledTool,
    ExportBudget,
    NoticeToModel,
    OfferedTools,
    Transcript,
    Turn,
    compacted_words,
    step_figures,
)
from mcpagent.utilities.text.for_model import fenced
from mcpagent.utilities.text.safe_text import safe_line, safe_text
from mcpagent.values.messages import (
    Audio,
    Compacted,
    Document,
    FileId,
    Image,
    ImageUrl,
    Part,
    ProviderBlock,
    Text,
    Thinking,
    ToolsChanged,
    ToolsShown,
)

MAX_WORDS = 400_000
MAX_RESULT = 10_000
"""Maximum length of a text, of arguments and of a result; the JSON export has them in full."""

MAX_NAMES = 200

_SPECIAL = re.compile(r"([\\`*_\[\]<>&#|~!])")
_LEAVES_A_QUOTE = re.compile(r"[<&]|!\[|\]:|\]\(\s*(?!https?://)")
"""Matches markup, images, link definitions (which apply to the whole file), and links to anything but a web page."""


def as_markdown(transcript: Transcript) -> str:
    """Return the conversation as Markdown: prompts and answers as quotes, calls and results as code.

    Markdown in an answer stays if it is harmless.
    """
    room = ExportBudget()
    lines = [f"# {_plain(transcript.title)}", ""]
    lines += [
        f"- {name}: {_plain(words)}" for name, words in transcript.facts().items()
    ]
    lines += [f"- exported: {transcript.at:%Y-%m-%d %H:%M} UTC", ""]
    if len(questions := transcript.questions) > 1:
        lines += [
            f"{turn.number}. [{_plain(turn.title)}](#question-{turn.number})"
            for turn in questions
        ]
        lines.append("")
    for turn in transcript.turns:
        lines += _turn(turn, room)
    if transcript.ending:
        lines += [f"*{transcript.ending}*", ""]
    return "\n".join(lines).rstrip() + "\n"


def _turn(turn: Turn, room: ExportBudget) -> Iterator[str]:
    if turn.number:
        yield from (f"## Question {turn.number}", "")
        for part in turn.question:
            yield from _part(part, room)
    for entry in turn.entries:
        if isinstance(entry, NoticeToModel):
            yield from ("*The model was told:*", "")
            for part in entry.parts:
                yield from _part(part, room)
            continue
        yield from _answer(entry, room)


def _answer(answer: Answered, room: ExportBudget) -> Iterator[str]:
    yield from (
        f"### {'Step' if answer.has_calls else 'Answer, step'} {answer.number}",
        "",
    )
    said = []
    if answer.model:
        said = [_code(safe_line(answer.model, 120))]
    if answer.step is not None:
        said += step_figures(answer.step)
    if said:
        yield from (" · ".join(said), "")
    if answer.offered is not None:
        yield from (_offered(answer.offered), "")
    for part in answer.parts:
        yield from (
            _call(part, room) if isinstance(part, CalledTool) else _part(part, room)
        )


def _offered(offered: OfferedTools) -> str:
    signs = [
        f"{sign} {_names(names)}"
        for sign, names in (("+", offered.added), ("-", offered.removed))
        if names
    ]
    count = f"{len(offered.names):,} {'tool' if len(offered.names) == 1 else 'tools'}"
    return f"Offered: {count}; {' '.join(signs) or 'in another order'}"


def _call(called: CalledTool, room: ExportBudget) -> Iterator[str]:
    call, result, state = called.call, called.result, called.state
    if state.words:
        words = [f"**{state.words}**"]
    else:
        words = []
    if result is not None:
        words += [f"{result.seconds:,.2f} s", f"{len(result.text):,} characters"]
    yield from (f"**Call** {_code(safe_line(call.name, 120))}: {', '.join(words)}", "")
    arguments = call.malformed or json.dumps(
        call.arguments, indent=1, ensure_ascii=False, default=str
    )
    yield from _block(arguments, room, "" if call.malformed else "json")
    for part in result.content if result is not None else ():
        yield from (
            _block(part.text, room) if isinstance(part, Text) else _part(part, room)
        )
    for change in called.changes:
        yield from _part(change, room)


def _part(part: Part | CalledTool, room: ExportBudget) -> Iterator[str]:
    match part:
        case Text(text=text) if text.strip():
            first, _, left = room.cut(text.strip("\n"), MAX_WORDS)
            yield from (_quoted(safe_text(first)), "", *_more(left))
        case Thinking(text=text):
            yield from (
                "*Thinking*"
                if text.strip()
                else "*Thinking that only its provider can read*",
                "",
            )
            if text.strip():
                yield from _block(text, room, limit=MAX_WORDS)
        case Image() | Document() | Audio() | ImageUrl() | FileId():
            yield from (
                f"*{file_kind(part)}: {_code(safe_line(details_of(part), 200))}*",
                "",
            )
        case ToolsChanged(added=added, removed=removed, joined=joined):
            told = (
                ("added", [tool.name for tool in added]),
                ("removed", removed),
                ("can be found", joined),
            )
            if lines := [
                f"tools {what}: {_names(names)}" for what, names in told if names
            ]:
                yield from ("; ".join(lines), "")
        case ToolsShown(names=names) if names:
            yield from (f"tools shown: {_names(names)}", "")
        case ProviderBlock() | Compacted():
            yield from _not_said(part, room)
        case _:
            pass


def _not_said(part: ProviderBlock | Compacted, room: ExportBudget) -> Iterator[str]:
    if isinstance(part, ProviderBlock):
        yield from (
            f"*what only its provider reads: {_code(safe_line(str(part.data.get('type', '')), 80))}*",
            "",
        )
        return
    yield from (f"*{compacted_words(part)}*", "")
    if part.summary:
        yield from _block(part.summary, room, limit=MAX_WORDS)


def _block(
    text: str, room: ExportBudget, language: str = "", limit: int = MAX_RESULT
) -> Iterator[str]:
    first, _, left = room.cut(text, limit)
    yield from (fenced(safe_text(first), language=language), "", *_more(left))


def _more(left: int) -> list[str]:
    if left:
        return [f"*{left:,} more characters, which the JSON has*", ""]
    return []


def _quoted(text: str) -> str:
    """Return the text as a block quote; as a code block if Markdown in it could end the quote."""
    if _LEAVES_A_QUOTE.search(text):
        return fenced(text, language="markdown")
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _plain(line: str) -> str:
    return _SPECIAL.sub(r"\\\1", line)


def _code(name: str) -> str:
    """Return a name as inline code, so that it has no effect as markup, link or image."""
    return f"`{name.replace('`', ' ') or '(no name)'}`"


def _names(names: tuple[str, ...] | list[str]) -> str:
    more = ""
    if len(names) > MAX_NAMES:
        more = f" and {len(names) - MAX_NAMES:,} more"
    return ", ".join(_code(safe_line(name, 80)) for name in names[:MAX_NAMES]) + more
