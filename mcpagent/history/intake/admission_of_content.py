"""`admitted`: the one function that all content passes before it enters a conversation.

Function results, results of servers, outputs of programs and prompts with files pass it. It checks each file by its own
bytes: its type, size, number and dimensions, and whether the endpoint accepts it. If a file does not pass, only that
file changes: a picture is scaled down, the text of a PDF is extracted, and any other file becomes a line that describes
it, while its bytes are stored outside of the conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from mcpagent.history.intake.budget import (
    MAX_BLOCKS,
    MAX_DOCUMENT_BYTES,
    MAX_FILES_BYTES,
    MAX_IMAGE_BYTES,
    MAX_IMAGE_SIDE,
    MAX_IMAGES,
)
from mcpagent.history.intake.file_descriptions import bracketed, file_line, input_of
from mcpagent.history.intake.file_processing import scaled, text_of
from mcpagent.history.intake.media_types import (
    base64_bytes,
    base64_text,
    file_type,
    image_size,
    image_type,
    printable_text,
)
from mcpagent.utilities.text.for_model import fenced, for_model, line_for_model
from mcpagent.values.messages import (
    FILE_PARTS,
    Audio,
    BinaryBlock,
    Content,
    Document,
    FilePart,
    Image,
    ImageUrl,
    Text,
)


@dataclass(frozen=True, slots=True)
class AdmittedContent:
    """Content within the budget.

    `blocks` are the files that it only describes; `refused` has the reason for each file that was not accepted.
    """

    content: tuple[Content, ...]
    blocks: tuple[BinaryBlock, ...] = ()
    refused: tuple[str, ...] = ()


async def admitted(
    content: tuple[Content, ...],
    *,
    accepts: Collection[str] | None = None,
    extracts: bool = True,
) -> AdmittedContent:
    """Return the content with every file within the budget; the same tuple if nothing has to change.

    Args:
        content: Texts and files of any size, from any source.
        accepts: The inputs that the endpoint accepts (`Endpoint.accepts`); None keeps documents and recordings of any
            type, for an endpoint that is not known yet.
        extracts: If False, a document that is not accepted becomes a description, without its text.
    """
    if any(isinstance(part, Image | Document | Audio) for part in content):
        return await asyncio.to_thread(
            judged, content, accepts=accepts, extracts=extracts
        )
    return judged(content, accepts=accepts, extracts=extracts)


def judged(
    content: tuple[Content, ...],
    *,
    accepts: Collection[str] | None = None,
    extracts: bool = True,
) -> AdmittedContent:
    """Return the result of `admitted`; it blocks while an image is scaled or a document is read."""
    if len(content) <= MAX_BLOCKS and not any(
        isinstance(part, FILE_PARTS) for part in content
    ):
        return AdmittedContent(content)
    return _Judge(accepts, extracts).judged(content)


@dataclass(slots=True)
class _Judge:
    """Checks the parts of one prompt or result in order."""

    accepts: Collection[str] | None
    extracts: bool
    images: int = 0
    size: int = 0
    blocks: list[BinaryBlock] = field(default_factory=list[BinaryBlock])
    refused: list[str] = field(default_factory=list[str])

    def judged(self, content: Sequence[Content]) -> AdmittedContent:
        parts: list[Content] = []
        for part in content[:MAX_BLOCKS]:
            if isinstance(part, Text):
                parts.append(part)
            else:
                parts += self._file(part)
        parts += self._further(content[MAX_BLOCKS:])
        same = len(parts) == len(content) and all(
            one is other for one, other in zip(parts, content, strict=True)
        )
        if same and isinstance(content, tuple):
            kept = content
        else:
            kept = tuple(parts)
        return AdmittedContent(kept, tuple(self.blocks), tuple(self.refused))

    def _further(self, parts: Sequence[Content]) -> Sequence[Content]:
        """Merge the parts beyond the maximum number into one text; files among them are described."""
        if not parts:
            return []
        lines: list[str] = []
        for part in parts:
            if isinstance(part, Text):
                lines.append(part.text)
            else:
                lines += [
                    one.text
                    for one in self._left_out(
                        part, f"only {MAX_BLOCKS:,} parts are kept apart"
                    )
                ]
        return [Text("\n".join(lines))]

    def _file(self, part: FilePart) -> Sequence[Content]:
        if isinstance(part, ImageUrl):
            return self._address(part)
        if not isinstance(part, Image | Document | Audio):
            return [part]
        data = base64_bytes(part.data)
        if data is None:
            self.refused.append(file_line(part, "its data is not valid Base64")[1:-1])
            return [Text(f"[{self.refused[-1]}]")]
        found = file_type(data)
        is_picture = found is not None and found.startswith("image/")
        if isinstance(part, Image) and found in (None, part.media_type):
            return self._picture(part, data)
        if is_picture or isinstance(part, Image):
            return self._picture(Image(found or part.media_type, part.data), data)
        typed: Document | Audio = part
        if found is not None and found != part.media_type:
            if found.startswith("audio/"):
                typed = Audio(found, part.data, part.name)
            else:
                typed = Document(found, part.data, part.name)
        return self._document(typed, data)

    def _address(self, part: ImageUrl) -> Sequence[Content]:
        """Return a data URL as an image, and any other URL unchanged, if a provider can load it."""
        head, comma, data = part.url.partition(",")
        if comma and head.startswith("data:") and head.endswith(";base64"):
            return self._file(Image(head.removeprefix("data:").partition(";")[0], data))
        is_address = (
            part.url.startswith(("https://", "http://")) and len(part.url) <= 8_000
        )
        if is_address:
            return [part]
        return [Text(file_line(part, "this is no web address"))]

    def _picture(self, image: Image, data: bytes) -> Sequence[Content]:
        if self.images >= MAX_IMAGES:
            return self._left_out(image, f"only {MAX_IMAGES} pictures are shown")
        if not self._is_accepted(image):
            return self._left_out(image, "this model does not accept pictures")
        size = image_size(data)
        notes: list[Content] = []
        is_usable = image_type(data) is not None
        if (
            not is_usable
            or len(data) > MAX_IMAGE_BYTES
            or max(size or (0,)) > MAX_IMAGE_SIDE
        ):
            smaller = scaled(data)
            if isinstance(smaller, str):
                what = "only png, jpeg, gif and webp can be shown"
                if is_usable:
                    what = "too large to show"
                return self._left_out(image, f"{what}: {smaller}")
            media_type, data, sizes = smaller
            notes = [
                Text(
                    f"[image: {line_for_model(image.media_type, 60)}, scaled from {sizes} pixels]"
                )
            ]
            image = Image(media_type, base64_text(data))
        if self.size + len(data) > MAX_FILES_BYTES:
            return self._left_out(
                image, f"all files together are over {MAX_FILES_BYTES // 1_000_000} MB"
            )
        self.images += 1
        self.size += len(data)
        return [*notes, image if notes else _plain(image)]

    def _document(self, part: Document | Audio, data: bytes) -> Sequence[Content]:
        is_text = isinstance(part, Document) and (
            part.media_type.startswith("text/") or _is_json(part.media_type)
        )
        if is_text and (text := printable_text(data)) is not None:
            return [
                Text(
                    fenced(for_model(text), line_for_model(part.name, 200))
                    if part.name
                    else for_model(text)
                )
            ]
        if not self._is_accepted(part):
            return self._unaccepted(part)
        if self.size + len(data) > min(MAX_DOCUMENT_BYTES, MAX_FILES_BYTES):
            return self._unaccepted(
                part, f"it is over {MAX_DOCUMENT_BYTES // 1_000_000} MB"
            )
        self.size += len(data)
        return [_plain(part)]

    def _unaccepted(self, part: Document | Audio, why: str = "") -> Sequence[Content]:
        """Return the text of a document that the endpoint does not accept, else its description."""
        if (
            isinstance(part, Document)
            and self.extracts
            and part.media_type == "application/pdf"
        ):
            worked = text_of(part)
            if not worked.why:
                text = worked.output.decode("utf-8", "replace")
                self._keep(part)
                return [
                    Text(
                        f"{file_line(part, 'its text follows')}\n{fenced(for_model(text))}"
                    )
                ]
            why = why or worked.why
        return self._left_out(part, f"not shown: {why}" if why else "not shown")

    def _is_accepted(self, part: FilePart) -> bool:
        """Return whether the endpoint accepts the file."""
        return self.accepts is None or input_of(part) in self.accepts

    def _left_out(self, part: FilePart, why: str) -> list[Text]:
        """Store the bytes of a file, and return its description."""
        self._keep(part)
        line = file_line(part, why)
        self.refused.append(line[1:-1])
        return [Text(line)]

    def _keep(self, part: FilePart) -> None:
        if isinstance(part, Image | Document | Audio):
            if isinstance(part, Image):
                name = ""
            else:
                name = bracketed(part.name, 200)
            self.blocks.append(
                BinaryBlock(bracketed(part.media_type, 60), part.data, name)
            )


def _plain(part: Image | Document | Audio) -> FilePart:
    """Return the part with plain Base64: without line breaks and the head of a data URL."""
    if part.data.startswith("data:"):
        data = part.data.partition(",")[2]
    else:
        data = part.data
    if any(space in data for space in " \n\r\t"):
        data = "".join(data.split())
    if data == part.data:
        return part
    return replace(part, data=data)


def _is_json(media_type: str) -> bool:
    return media_type == "application/json" or media_type.endswith(
        ("+json", "+xml", "/xml")
    )
