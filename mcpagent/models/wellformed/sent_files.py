"""`SentFiles`: the files of a history in the form that one endpoint accepts.

Content is checked when it enters a conversation. But a history may come from elsewhere, or go to another model, so each
file is checked again for the endpoint before it is sent. A file that the endpoint does not accept is replaced by the
best form that it does accept, such as the text of a PDF. A file that the provider refused is sent as a description from
then on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mcpagent.history.intake.admission_of_content import admitted, judged
from mcpagent.history.intake.file_descriptions import (
    details_of,
    file_kind,
    file_line,
    input_of,
)
from mcpagent.models.failures_and_retries import Failure
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import Emit, Notice
from mcpagent.values.messages import (
    FILE_PARTS,
    Audio,
    Compacted,
    Content,
    Document,
    FileId,
    FilePart,
    Image,
    Message,
    Pinned,
    Text,
    ToolResult,
    ToolsChanged,
    ToolsShown,
)

MOST_KNOWN = 64 * 1024 * 1024
"""Maximum size of the cache of converted files, in characters."""

_KINDS: Mapping[str, str] = {
    "image": r"\b(?:image|picture|vision|multi-?modal|mmproj|input_image)",
    "pdf": r"\b(?:pdf|document|files?\b|input_file)",
    "audio": r"\b(?:audio|sound|input_audio)",
}
_UNSUPPORTED = re.compile(
    r"support|multi-?modal|unknown variant|mmproj|missing data required|must be a string|not allowed"
    r"|cannot (?:read|accept)",
    re.IGNORECASE,
)
"""Matches errors of vLLM, DeepSeek, llama.cpp, Ollama, Groq and OpenRouter about a model that accepts no images."""

_REFUSING = re.compile(
    r"invalid|exceed|too (?:large|big|many|long|small)|could not|unable|cannot|can't|failed|fetch|download|corrupt"
    r"|password"
    r"|unsupported|not (?:valid|support)|malformed|empty|maximum|at most|larger than|timed? ?out|process",
    re.IGNORECASE,
)
_PATH = re.compile(r"(?:body\.)?(?:messages|input)(?:[.\[][A-Za-z0-9_]{1,40}\]?){2,12}")


class SentFiles:
    """The files of all histories that are sent to one model."""

    def __init__(self) -> None:
        self._known: dict[FilePart, tuple[Content, ...]] = {}
        self._accepts: frozenset[str] = frozenset()
        self._refused: set[FilePart] = set()

    async def prepare(
        self,
        messages: Sequence[Message],
        accepts: frozenset[str],
        provider: str,
        emit: Emit,
        model: str,
    ) -> None:
        """Check the new files of a history, large ones in a worker thread.

        A notice reports each file that the model does not receive unchanged.
        """
        self._begin(accepts)
        for part in _files(messages):
            if part in self._known:
                continue
            form = self._own(part, provider)
            if form is None:
                form = (await admitted((part,), accepts=accepts)).content
            if part not in self._refused and _kinds(form) != _kinds((part,)):
                emit(
                    Notice(
                        f"{model}: does not get {file_kind(part)} {_shown(part)} as it is",
                        "warning",
                    )
                )
            self._known[part] = form
        if sum(_size(part) for part in self._known) > MOST_KNOWN:
            kept = set(_files(messages))
            self._known = {
                part: form for part, form in self._known.items() if part in kept
            }

    def written(
        self, messages: Sequence[Message], accepts: frozenset[str], provider: str
    ) -> tuple[Message, ...]:
        """Return the history with each file in its checked form; files that `prepare` did not see are checked here."""
        self._begin(accepts)
        written = list(messages)
        for place, message in enumerate(messages):
            if message.role == "assistant":
                continue
            for part in message.parts:
                inside = part.content if part.__class__ is ToolResult else (part,)
                if not _TEXTS.issuperset(map(type, inside)):
                    written[place] = self._message(message, provider)
                    break
        return tuple(written)

    def refuse(
        self, parts: Iterable[FilePart], emit: Emit, model: str, why: str
    ) -> bool:
        """Send these files as descriptions from now on, and report it; return False if there are no such files."""
        left_out = [part for part in dict.fromkeys(parts) if part not in self._refused]
        self._refused.update(left_out)
        for part in left_out:
            self._known.pop(part, None)
            told = f"{model}: refused {file_kind(part)} {_shown(part)} ({safe_line(why, 160)})"
            emit(Notice(f"{told}; the question is sent again without it", "warning"))
        return bool(left_out)

    def _begin(self, accepts: frozenset[str]) -> None:
        if accepts != self._accepts:
            self._known, self._accepts = {}, accepts

    def _message(self, message: Message, provider: str) -> Message:
        parts: list[Any] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                parts.append(self._result(part, provider))
            elif isinstance(part, FILE_PARTS):
                parts += self._form(part, provider)
            else:
                parts.append(part)
        return replace(message, parts=tuple(parts))

    def _result(self, result: ToolResult, provider: str) -> ToolResult:
        content: list[Content] = []
        for part in result.content:
            if isinstance(part, Text):
                content += [part]
            else:
                content += self._form(part, provider)
        return replace(result, content=tuple(content))

    def _form(self, part: FilePart, provider: str) -> tuple[Content, ...]:
        if part not in self._known:
            self._known[part] = (
                self._own(part, provider)
                or judged((part,), accepts=self._accepts).content
            )
        return self._known[part]

    def _own(self, part: FilePart, provider: str) -> tuple[Content, ...] | None:
        """Return the form of a file if it does not depend on its bytes, else None."""
        if part in self._refused:
            return (Text(file_line(part, "left out: the provider refused it")),)
        if isinstance(part, FileId) and part.provider not in (
            "",
            provider,
            provider.partition("-")[0],
        ):
            return (Text(file_line(part, f"stored at {part.provider}, so not shown")),)
        if input_of(part) not in self._accepts and not isinstance(
            part, Image | Document | Audio
        ):
            return (Text(file_line(part, "not shown: this model does not accept it")),)
        return None


def refused_files(
    failure: Failure, body: Callable[[], Mapping[str, Any]], messages: Sequence[Message]
) -> tuple[list[FilePart], str]:
    """Return the files that the failure refuses, and the input that the model does not support at all, or "".

    A path in the failure names one file. Without a path, all files of the kind that it mentions are refused. If the
    whole request is too large, the older half of its files is.
    """
    files = list(dict.fromkeys(_files(messages)))
    if not files:
        return [], ""
    if failure.status == 413:
        return _older_half(files), ""
    said = f"{failure.param} {failure.message}"
    if re.match(r"tools\b", failure.param or failure.message):
        return [], ""
    if failure.status not in (400, 404, 415, 422, 500) or (
        failure.may_pass and failure.status != 500
    ):
        return [], ""
    path = _PATH.search(failure.param) or _PATH.search(failure.message)
    at = []
    if path:
        at = _strings_at(body(), path[0])
    named = [part for part in files if any(_is_in(part, text) for text in at)]
    for kind, words in _KINDS.items():
        if not re.search(words, said, re.IGNORECASE):
            continue
        of_kind = [part for part in files if input_of(part) == kind]
        if of_kind and _UNSUPPORTED.search(said) and not named:
            return of_kind, kind
        if of_kind and not named and _REFUSING.search(said):
            return of_kind, ""
    return named, ""


_TEXTS = {Text, ToolsShown, ToolsChanged, Pinned, Compacted}
"""Types of parts that contain no file; a message with only such parts stays unchanged."""


def _older_half(files: Sequence[FilePart]) -> list[FilePart]:
    """Return the first files, with at most half of the bytes of all files."""
    left = sum(map(_size, files)) / 2
    older: list[FilePart] = []
    for part in files:
        if older and left < _size(part) / 2:
            break
        older.append(part)
        left -= _size(part)
    return older


def _strings_at(body: Mapping[str, Any], path: str) -> list[str]:
    """Return the texts at this path in the body, or at its longest existing beginning."""
    place: Any = body
    depth = 0
    for step in re.findall(r"[A-Za-z0-9_]+", path.removeprefix("body.")):
        if isinstance(place, list) and step.isdigit() and int(step) < len(place):
            place = place[int(step)]
        elif isinstance(place, Mapping) and step in place:
            place = place[step]
        elif isinstance(place, list | Mapping):
            continue  # Anthropic's paths contain the type of a block
        else:
            break
        depth += 1
    if depth < 2:
        return []
    found: list[str] = []
    waiting = [place]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, Mapping):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return found


def _is_in(part: FilePart, text: str) -> bool:
    if isinstance(part, Image | Document | Audio):
        data = part.data
    else:
        data = getattr(part, "url", "") or getattr(part, "id", "")
    return bool(data) and text.endswith(data)


def _files(messages: Iterable[Message]) -> Iterator[FilePart]:
    for message in messages:
        if message.role == "assistant":
            continue
        for part in message.parts:
            if isinstance(part, FILE_PARTS):
                yield part
            elif isinstance(part, ToolResult):
                for inner in part.content:
                    if isinstance(inner, FILE_PARTS):
                        yield inner


def _size(part: FilePart) -> int:
    if isinstance(part, Image | Document | Audio):
        return len(part.data)
    return 0


def _kinds(content: Iterable[Content]) -> list[str]:
    return [part.type for part in content]


def _shown(part: FilePart) -> str:
    return safe_line(details_of(part), 160)
