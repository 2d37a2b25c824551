"""Find the files in answers that a provider generated: images, and files from code that it ran.

Such a file is in a block that only its provider understands, and which is sent back unchanged. Here it becomes a part
with bytes and a name, or with the ID under which the provider stores it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mcpagent.history.intake.media_types import ending_of
from mcpagent.values.messages import Document, FileId, Message, ProviderBlock, Text

_MOST_FILES = 100
_RESULTS = (
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
)


def generated_files(messages: Iterable[Message]) -> tuple[Document | FileId, ...]:
    """Return the files in the answers, in order, each once.

    Files with bytes get numbered names, unless the provider names them.
    """
    found: dict[Document | FileId, None] = {}
    for message in messages:
        if message.role != "assistant":
            continue
        for part in message.parts:
            for file in _files_of(
                part, message.origin.provider if message.origin is not None else ""
            ):
                if len(found) < _MOST_FILES:
                    found[file] = None
    made: list[Document | FileId] = []
    for number, file in enumerate(found, 1):
        if isinstance(file, Document) and not file.name:
            kind = file.media_type.partition("/")[0]
            file = Document(
                file.media_type,
                file.data,
                f"{kind}-{number}.{ending_of(file.media_type)}",
            )
        made.append(file)
    return tuple(made)


def _files_of(part: object, provider: str) -> Iterator[Document | FileId]:
    match part:
        case ProviderBlock(
            data={"type": "image_generation_call", "result": str(data)} as item
        ) if data:
            yield Document(f"image/{item.get('output_format') or 'png'}", data)
        case ProviderBlock(
            data={"type": "code_interpreter_call", "outputs": list(outputs)}
        ):
            for output in outputs:
                yield from _of_address(
                    output.get("url") if isinstance(output, Mapping) else None
                )
        case ProviderBlock(data={"type": str(kind), "content": dict(content)}) if (
            kind in _RESULTS
        ):
            yield from _of_results(content, provider)
        case ProviderBlock(data={"images": list(images)}):
            for image in images:
                if isinstance(image, Mapping) and isinstance(
                    image.get("image_url"), Mapping
                ):
                    yield from _of_address(image["image_url"].get("url"))
        case Text(provider_data={"content": dict(content)}):
            yield from _of_annotations(content.get("annotations"), provider)
        case _:
            pass


def _of_address(url: Any) -> Iterator[Document]:
    """Yield the file in a data URL. Other URLs are not loaded."""
    if isinstance(url, str) and url.startswith("data:"):
        head, _, data = url.partition(",")
        media_type, _, form = head.removeprefix("data:").partition(";")
        if form.split(";")[-1] == "base64" and data:
            yield Document(media_type, data)


def _of_results(content: Mapping[str, Any], provider: str) -> Iterator[FileId]:
    listed = content.get("content")
    for output in listed if isinstance(listed, list) else ():
        if isinstance(output, Mapping) and isinstance(output.get("file_id"), str):
            yield FileId(output["file_id"], provider)


def _of_annotations(annotations: Any, provider: str) -> Iterator[FileId]:
    for one in annotations if isinstance(annotations, list) else ():
        match one:
            case {"type": "container_file_citation", "file_id": str(file_id)}:
                name, container = (
                    str(one.get("filename") or ""),
                    str(one.get("container_id") or ""),
                )
                yield FileId(file_id, provider, name=name, container=container)
            case _:
                pass
