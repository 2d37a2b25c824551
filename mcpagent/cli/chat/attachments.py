"""Attach content to a question: `@path` files, `@server:uri` resources, and a server's `/server:prompt`.

Only the user's input is parsed, never text from a file, a server or a model.
"""

from __future__ import annotations

import base64
import os
import re
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from mcpagent import Agent
from mcpagent.cli.frame.figures import counted
from mcpagent.errors import InputError
from mcpagent.utilities.files.bounded_files import open_given
from mcpagent.utilities.text.for_model import fenced, for_model
from mcpagent.utilities.text.media_types import MAX_IMAGE_BYTES, image_type
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import Image, Prompt, Text
from mcpagent.values.tools import ToolOutput

Part = Text | Image

MAX_FILE_BYTES = 1_000_000
MAX_NAMED = 3
MAX_RESOURCE = 1_000_000
"""Characters of one resource that a question takes along."""

_MARK = re.compile(r"""(?:^|(?<=\s))@(?:"([^"\n]+)"|'([^'\n]+)'|((?:\\.|[^\s\\])+))""")
_CLOSING = ".,;:!?)]}"
_USER_LABEL = "[user]\n"
"""What `output_of_prompt` sets before the user's words; needless if all are the user's."""


def marks(line: str) -> list[str]:
    """Return the texts after each `@`, unquoted and unescaped: `@a.txt`, `@"two words.txt"`, `@two\\ words.txt`."""
    found = [
        re.sub(r"\\(.)", r"\1", bare) if bare else double or single
        for double, single, bare in _MARK.findall(line)
    ]
    return list(dict.fromkeys(found))


async def with_attachments(
    line: str, agent: Agent, folder: Path
) -> tuple[str | list[Part], list[str]]:
    """Return the question with all that it names, and one line about each thing taken along.

    An `@` that names neither a file nor a server stays a word, such as in `@someone`. Raises `InputError` for a file
    that cannot be taken, and for a resource that its server does not give.
    """
    blocks: list[str] = []
    images: list[Part] = []
    added: list[str] = []
    for mark in marks(line):
        server, colon, uri = mark.partition(":")
        if colon and uri and server in agent.servers:
            text, pictures = _content(await agent.mcp.read_resource(server, uri), mark)
            name: str | None = mark
            leads_to = ""
        elif (name := _file_name(mark, folder)) is not None:
            text, pictures = read_file(_path(folder, name))
            leads_to = _target(folder, name)
        if name is not None:
            added.append(f"{safe_line(name, 100)}{leads_to}  {_sizes(text, pictures)}")
            if text:
                blocks += [fenced(for_model(text), safe_line(name, 200))]
            images += pictures
    words = "\n\n".join([line, *blocks])
    return ([Text(words), *images] if images else words), added


def left_as_words(line: str, agent: Agent, folder: Path) -> str:
    """Return a line about each `@` that matches neither a file nor a server, so nothing was attached; "" if none."""
    words = [
        mark
        for mark in marks(line)
        if not (mark.partition(":")[2] and mark.partition(":")[0] in agent.servers)
        and _file_name(mark, folder) is None
    ]
    if not words:
        return ""
    shown = ", ".join(f"@{safe_line(word, 60)}" for word in words[:MAX_NAMED])
    more = ""
    if len(words) > MAX_NAMED:
        more = f" and {len(words) - MAX_NAMED:,} more"
    return f"no such file: {shown}{more}; sent as typed"


def _path(folder: Path, name: str) -> Path:
    return folder / Path(name).expanduser()


def _target(folder: Path, name: str) -> str:
    """Return where a link leads: ` -> /etc/passwd`; "" for a name without a link in it."""
    real = os.path.realpath(_path(folder, name))
    named = os.path.normpath(_path(Path(os.path.realpath(folder)), name))
    if real != named:
        return f" -> {safe_line(real, 300)}"
    return ""


def read_file(path: Path) -> tuple[str, list[Part]]:
    """Return a file as text, or as an image. Raises `InputError` if it is neither, or too large."""
    shown = safe_line(str(path), 100)
    try:
        with open_given(path) as file:
            data = file.read(MAX_IMAGE_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"@{shown} cannot be read: {safe_line(error.strerror or str(error), 120)}"
        ) from None
    if (media_type := image_type(data)) is not None:
        if len(data) > MAX_IMAGE_BYTES:
            limit = MAX_IMAGE_BYTES // 1_000_000
            raise InputError(
                f"@{shown} is larger than {limit} MB, which no model takes; shrink it"
            )
        return "", [Image(media_type, base64.b64encode(data).decode())]
    if len(data) > MAX_FILE_BYTES:
        raise InputError(
            f"@{shown} is larger than {MAX_FILE_BYTES // 1_000_000} MB; give a part of it"
        )
    if b"\0" in data[:8192]:
        raise InputError(
            f"@{shown} is a binary file; only text and images (png, jpeg, gif, webp) can be added"
        )
    return data.decode("utf-8", "replace").removesuffix("\n"), []


def _file_name(mark: str, folder: Path) -> str | None:
    """Return the name of the file; a full stop or comma after it belongs to the sentence."""
    for name in dict.fromkeys((mark, mark.rstrip(_CLOSING))):
        try:
            path = _path(folder, name)
            if name and path.is_file():
                return name
            if name and path.is_dir():
                raise InputError(
                    f"@{safe_line(name, 100)} is a folder; name a file in it"
                )
        except (OSError, RuntimeError, ValueError):  # no home folder, or no path at all
            continue
    if "/" in mark or mark.startswith((".", "~")):
        raise InputError(
            f'no file "{safe_line(mark, 100)}"; write @"a name" if it has spaces'
        )
    return None


def _content(output: ToolOutput, label: str) -> tuple[str, list[Part]]:
    text = "\n".join(part.text for part in output.content if isinstance(part, Text))
    if output.error is not None:
        raise InputError(
            f"@{safe_line(label, 100)}: {safe_line(text or output.error, 300)}"
        )
    if len(text) > MAX_RESOURCE:
        raise InputError(
            f"@{safe_line(label, 100)} has {len(text):,} characters; the limit is {MAX_RESOURCE:,}"
        )
    return text, [part for part in output.content if isinstance(part, Image)]


def _sizes(text: str, images: list[Part]) -> str:
    words = []
    if text or not images:
        words = [f"{len(text):,} characters"]
    return ", ".join([*words, *([counted(len(images), "image")] if images else [])])


def joined_parts(prompt: Prompt, more: Sequence[Part]) -> Prompt:
    """Return a question with more to it: all words as one text, the images after it."""
    parts: list[Part] = [
        *([Text(prompt)] if isinstance(prompt, str) else prompt),
        *more,
    ]
    words = "\n\n".join(part.text for part in parts if isinstance(part, Text))
    images = [part for part in parts if isinstance(part, Image)]
    if images:
        return [Text(words), *images]
    return words


# --- prompts of servers -----------------------------------------------------------------------------------------------


def named_prompt(line: str, servers: Collection[str]) -> tuple[str, str, str] | None:
    """Return server, prompt and arguments of a line `/server:prompt ...`; None for other lines."""
    word, _, rest = line.strip().partition(" ")
    server, colon, name = word.removeprefix("/").partition(":")
    if word.startswith("/") and colon and server in servers:
        return server, name, rest.strip()
    return None


async def server_prompt(
    agent: Agent, server: str, name: str, words: str, *, alone: bool = True
) -> list[Part]:
    """Return a server's prompt, filled with `key=value` words; a single argument needs no key.

    If it is not `alone` in the question, it is in a block that names its server. Raises `InputError` if there is no
    such prompt, or an argument is missing or unknown.
    """
    prompts = agent.mcp.prompts.get(server, ())
    known = next((prompt for prompt in prompts if prompt.name == name), None)
    # Of an unknown one it is the server's list that says so, with near names.
    if known is not None:
        arguments = _arguments(words, [item.name for item in known.arguments])
    else:
        arguments = {}
    output = await agent.mcp.get_prompt(server, name, arguments)
    text, images = _content(output, f"{server}:{name}")
    text = _only_words(text)
    if not text.strip() and not images:
        raise InputError(
            f'prompt "{safe_line(name, 60)}" of {safe_line(server, 60)} is empty'
        )
    label = f"Prompt {safe_line(name, 100)} of the server {safe_line(server, 100)}"
    return [Text(text if alone else fenced(text, label)), *images]


def _only_words(text: str) -> str:
    """Return the text of a prompt with a single user message; otherwise all messages with their roles."""
    words = text.removeprefix(_USER_LABEL)
    block = re.fullmatch(r"(`{3,})\n(.*)\n\1", words, re.DOTALL)
    if block is not None and block[1] not in block[2]:
        return block[2]
    if "\n" not in words:
        return words
    return text


def _arguments(words: str, names: list[str]) -> dict[str, str]:
    try:
        pieces = shlex.split(words)
    except ValueError as error:
        raise InputError(f"{error}; check the quotes") from None
    found: dict[str, str] = {}
    plain: list[str] = []
    for piece in pieces:
        key, equals, value = piece.partition("=")
        if equals and (key.isidentifier() or key in names):
            found[key] = value
        else:
            plain.append(piece)
    if plain:
        free = [name for name in names if name not in found]
        if len(free) != 1:
            takes = " ".join(f"{safe_line(name, 60)}=..." for name in names)
            raise InputError(
                f"write {takes}" if takes else "this prompt takes no arguments"
            )
        found[free[0]] = " ".join(plain)
    return found
