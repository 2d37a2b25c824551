"""Write a conversation as one HTML page: no script, no external resource, and no third-party markup.

Every text passes `_el`, which makes invisible characters visible and escapes the rest. Only its own output, and the
HTML that `_rendered` creates from an answer's Markdown, stays unchanged.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import html
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from mcpagent.history.intake.file_descriptions import details_of, file_kind
from mcpagent.history.intake.media_types import image_type
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
from mcpagent.utilities.text.safe_text import hides_something, safe_line, safe_text
from mcpagent.utilities.text.secrets import hide_in_markdown
from mcpagent.values.messages import (
    Audio,
    Compacted,
    Document,
    FileId,
    FilePart,
    Image,
    ImageUrl,
    Part,
    ProviderBlock,
    Text,
    Thinking,
    ToolsChanged,
    ToolsShown,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_WORDS, MAX_FOLDED_WORDS = 50_000, 400_000
MAX_RESULT, MAX_FOLDED_RESULT = 2_000, 100_000
"""Maximum number of visible characters, and of folded ones below; the JSON export has all."""

MAX_NAMES_SHOWN = 8


class _Html(str):
    """HTML written by mcpagent, with all texts in it escaped."""

    __slots__ = ()


_Child: TypeAlias = str | _Html | None


def as_html(transcript: Transcript) -> str:
    """Return the HTML page. Calls, results, reasoning and tool lists are folded; colours follow the reader's light or
    dark setting.
    """
    style = Path(__file__).with_name("web_page.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = "".join(
        (
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="referrer" content="no-referrer">',
            '<meta name="robots" content="noindex">',
            _el("title", transcript.title),
            f"<style>{style}</style>",
        )
    )
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n{_body(transcript)}\n</html>\n'


def _body(transcript: Transcript) -> _Html:
    room = ExportBudget()
    facts = [
        _el("div", _el("dt", name), _el("dd", words))
        for name, words in transcript.facts().items()
    ]
    questions = [
        _el("li", _el("a", turn.title, href=f"#question-{turn.number}"))
        for turn in transcript.questions
    ]
    system = transcript.standing.beginning.system
    return _el(
        "body",
        _el("header", _el("h1", transcript.title), _el("dl", *facts)),
        _el("nav", _el("h2", "Questions"), _el("ol", *questions))
        if len(questions) > 1
        else None,
        _el(
            "main",
            _folded("system prompt", [_words(system, room)], note=_characters(system))
            if system
            else None,
            *(_turn(turn, room) for turn in transcript.turns),
            _el("p", transcript.ending, cls="note") if transcript.ending else None,
        ),
        _el("footer", f"Exported by mcpagent, {transcript.at:%Y-%m-%d %H:%M} UTC"),
    )


def _turn(turn: Turn, room: ExportBudget) -> _Html:
    question = None
    if turn.number:
        heading = _el(
            "h2", _el("a", f"Question {turn.number}", href=f"#question-{turn.number}")
        )
        question = _el(
            "article",
            heading,
            *_parts(turn.question, room, is_answer=False),
            cls="question",
        )
    entries = (
        _news(entry, room) if isinstance(entry, NoticeToModel) else _answer(entry, room)
        for entry in turn.entries
    )
    named = {}
    if turn.number:
        named = {"id": f"question-{turn.number}"}
    return _el("section", question, *entries, **named)


def _news(news: NoticeToModel, room: ExportBudget) -> _Html:
    return _el(
        "aside",
        _el("p", "The model was told", cls="note"),
        *_parts(news.parts, room, is_answer=False),
    )


def _answer(answer: Answered, room: ExportBudget) -> _Html:
    said = []
    if answer.model:
        said = [safe_line(answer.model, 120)]
    if answer.step is not None:
        said += step_figures(answer.step)
    heading = _el(
        "h3",
        _el(
            "span", f"{'Step' if answer.has_calls else 'Answer · step'} {answer.number}"
        ),
        *(_el("span", words) for words in said),
    )
    if answer.offered is not None:
        offered = _offered(answer.offered)
    else:
        offered = None
    body = _parts(answer.parts, room, is_answer=True)
    return _el(
        "article",
        heading,
        offered,
        *body,
        cls="step" if answer.has_calls else "step answer",
    )


def _offered(offered: OfferedTools) -> _Html:
    signs = [
        f"{sign} {_some(names)}"
        for sign, names in (("+", offered.added), ("−", offered.removed))
        if names
    ]
    count = f"{len(offered.names):,} {'tool' if len(offered.names) == 1 else 'tools'} offered"
    return _folded(
        count,
        [_name_list(offered.names)],
        note="  ".join(signs) or "in another order",
        cls="offered",
    )


def _parts(
    parts: Sequence[Part | CalledTool], room: ExportBudget, *, is_answer: bool
) -> Iterator[_Html]:
    for part in parts:
        match part:
            case CalledTool():
                yield _call(part, room)
            case Text(text=text) if text.strip():
                yield (
                    _rendered(text)
                    if is_answer and _takes(room, text)
                    else _words(text, room)
                )
            case Thinking(text=text) if text.strip():
                yield _folded(
                    "thinking",
                    [_words(text, room)],
                    note=_characters(text),
                    cls="thinking",
                )
            case Thinking():
                yield _el("p", "thinking that only its provider can read", cls="note")
            case Image() | Document() | Audio() | ImageUrl() | FileId():
                yield _file(part, room)
            case ToolsChanged(added=added, removed=removed, joined=joined):
                told = (
                    ("added", [tool.name for tool in added]),
                    ("removed", removed),
                    ("can be found", joined),
                )
                yield from (
                    _changed(f"tools {what}", names) for what, names in told if names
                )
            case ToolsShown(names=names) if names:
                yield _changed("tools shown", names)
            case ProviderBlock() | Compacted():
                yield _not_said(part, room)
            case _:
                pass


def _not_said(part: ProviderBlock | Compacted, room: ExportBudget) -> _Html:
    if isinstance(part, Compacted):
        if part.summary:
            shown = _words(part.summary, room)
        else:
            shown = _el("p", "There is no summary.", cls="note")
        return _folded(
            "sent in part", [shown], note=compacted_words(part), cls="thinking"
        )
    block = json.dumps(part.data, indent=1, ensure_ascii=False, default=str)
    return _folded(
        "for its provider",
        _cut(block, room),
        note=safe_line(str(part.data.get("type", "")), 80),
        cls="block",
    )


def _call(called: CalledTool, room: ExportBudget) -> _Html:
    call, result, state = called.call, called.result, called.state
    whole = call.malformed or json.dumps(
        call.arguments, indent=1, ensure_ascii=False, default=str
    )
    short = (
        call.malformed[:500]
        or json.dumps(call.arguments, ensure_ascii=False, default=str)[:500]
    )
    texts = []
    if result is not None:
        texts = [part.text for part in result.content if isinstance(part, Text)]
    hidden = any(
        hides_something(text[: MAX_RESULT + MAX_FOLDED_RESULT])
        for text in (whole, *texts)
    )
    head = [
        _el("b", safe_line(call.name, 120)),
        " ",
        _el("code", safe_line(short, 100)),
    ]
    head += [
        _el("mark", words)
        for words in (state.words, "had invisible characters" if hidden else "")
        if words
    ]
    if result is not None:
        head.append(
            _el("small", f"{result.seconds:,.2f} s, {_characters(result.text)}")
        )
    body: list[_Html] = [_el("h4", "arguments"), *_cut(whole, room)]
    if result is not None:
        body.append(_el("h4", "result"))
        for part in result.content:
            if isinstance(part, Text):
                body += _cut(part.text, room)
            else:
                body += [_file(part, room)]
    changes = [*_parts(called.changes, room, is_answer=False)]
    details = _el("details", _el("summary", *head), *body, cls=f"call {state.outcome}")
    return _Html("".join((details, *changes)))


def _file(part: FilePart, room: ExportBudget) -> _Html:
    if isinstance(part, Image):
        return _image(part, room)
    return _el(
        "p", f"{file_kind(part)}: {safe_line(details_of(part), 200)}", cls="note"
    )


def _image(image: Image, room: ExportBudget) -> _Html:
    """Return an image as HTML, if its bytes are of a type that contains only an image."""
    try:
        data = base64.b64decode(image.data, validate=False)
    except (binascii.Error, ValueError):
        data = b""
    found, size = image_type(data), f"{len(data):,} bytes"
    if found is None:
        return _el(
            "p",
            f"an image that is not shown: {safe_line(image.media_type, 60)}, {size}",
            cls="note",
        )
    if len(image.data) > room.images_left:
        return _el("p", f"an image, left out for its size: {found}, {size}", cls="note")
    room.images_left -= len(image.data)
    return _Html(
        f'<img alt="{found}, {size}" src="data:{found};base64,{base64.b64encode(data).decode()}">'
    )


def _changed(what: str, names: Sequence[str]) -> _Html:
    if len(names) <= MAX_NAMES_SHOWN:
        return _el("p", f"{what}: ", _name_list(names), cls="note")
    return _folded(
        f"{len(names):,} {what}", [_name_list(names)], note=_some(names), cls="offered"
    )


def _name_list(names: Sequence[str]) -> _Html:
    listed = [_el("code", safe_line(name, 80)) for name in names]
    return _el(
        "span", *(child for name in listed for child in (name, " ")), cls="names"
    )


def _some(names: Sequence[str]) -> str:
    more = ""
    if len(names) > MAX_NAMES_SHOWN:
        more = f" and {len(names) - MAX_NAMES_SHOWN:,} more"
    return ", ".join(safe_line(name, 80) for name in names[:MAX_NAMES_SHOWN]) + more


def _characters(text: str) -> str:
    return f"{len(text):,} characters"


def _words(text: str, room: ExportBudget) -> _Html:
    """Return the text verbatim as HTML."""
    return _Html(
        "".join(_cut(text.strip("\n"), room, MAX_WORDS, MAX_FOLDED_WORDS, cls="words"))
    )


def _cut(
    text: str,
    room: ExportBudget,
    shown: int = MAX_RESULT,
    folded: int = MAX_FOLDED_RESULT,
    *,
    cls: str = "",
) -> list[_Html]:
    """Return the beginning of a text, a folded continuation, and the number of omitted characters, as HTML."""
    first, rest, left = room.cut(text, shown, folded)
    found = [_el("pre", first, cls=cls, dir="auto")]
    if rest:
        found.append(
            _folded(
                f"{len(rest):,} more characters",
                [_el("pre", rest, cls=cls, dir="auto")],
                cls="rest",
            )
        )
    if left:
        found.append(
            _el("p", f"{left:,} more characters, which the JSON has", cls="note")
        )
    return found


def _folded(
    title: str, body: Iterable[_Html], *, note: str = "", cls: str = ""
) -> _Html:
    return _el(
        "details",
        _el("summary", title, _el("small", note) if note else None),
        *body,
        cls=cls,
    )


def _el(tag: str, *children: _Child, cls: str = "", **attributes: str) -> _Html:
    """Return an HTML element. Text that is not `_Html` is escaped, with invisible characters made visible."""
    named = {**({"class": cls} if cls else {}), **attributes}
    inside = "".join(f' {name}="{html.escape(value)}"' for name, value in named.items())
    text = "".join(
        child if isinstance(child, _Html) else html.escape(safe_text(child))
        for child in children
        if child is not None
    )
    # A line break directly after <pre> is ignored, so one is added.
    return _Html(
        f"<{tag}{inside}>{chr(10) if tag == 'pre' and text[:1] == chr(10) else ''}{text}</{tag}>"
    )


# -- The Markdown of an answer -----------------------------------------------------------------------------------------


def _takes(room: ExportBudget, text: str) -> bool:
    """Reserve space for the text; return False if there is too little, or parsing the text as Markdown would take too
    long.
    """
    if len(text) > min(MAX_WORDS, room.left, room.markdown_left):
        return False
    room.left -= len(text)
    room.markdown_left -= len(text)
    return True


def _rendered(text: str) -> _Html:
    """Return an answer's Markdown as HTML: headings, lists, tables, code and links to pages; HTML and images in it
    become text.
    """
    reader = _reader()
    tokens = reader.parse(safe_text(text))
    hide_in_markdown(tokens)
    for token in tokens:
        _harmless(token)
        for inner in token.children or ():
            _harmless(inner)
    return _el(
        "div",
        _Html(reader.renderer.render(tokens, reader.options, {})),
        cls="words",
        dir="auto",
    )


def _reader() -> MarkdownIt:
    from markdown_it import MarkdownIt

    class Reader(MarkdownIt):
        def validateLink(self, url: str) -> bool:  # noqa: N802 - its name there
            return url.lower().startswith(("https://", "http://"))

    reader = Reader("commonmark", {"html": False, "maxNesting": 20})
    return reader.enable(["table", "strikethrough"]).disable("image")


def _harmless(token: Token) -> None:
    """Remove all attributes except the address of a link, and lower the level of headings below those of the page."""
    href = str(token.attrs.get("href", ""))
    start = token.attrs.get("start")
    token.attrs, token.info, token.meta = {}, "", {}
    if token.type == "link_open":
        token.attrs = {
            "href": href,
            "rel": "noopener noreferrer nofollow",
            "title": _host(href),
        }
    elif token.type == "ordered_list_open" and isinstance(start, int):
        token.attrs = {"start": start}
    elif token.type in ("heading_open", "heading_close"):
        token.tag = f"h{min(int(token.tag[1]) + 3, 6)}"


def _host(address: str) -> str:
    try:
        return urlsplit(address).netloc
    except ValueError:
        return ""
