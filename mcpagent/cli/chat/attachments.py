"""Attach content to a prompt: `@path` files, `@server:uri` resources, and a server's `/server:prompt`.

Only the user's input is parsed, never text from a file, a server or a model.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from mcpagent.agents.agent import Agent
from mcpagent.cli.common.configuration import link_target
from mcpagent.cli.common.number_formats import counted
from mcpagent.errors import InputError
from mcpagent.history.intake.admission_of_content import admitted
from mcpagent.history.intake.file_descriptions import file_kind
from mcpagent.history.intake.files import read_file
from mcpagent.utilities.text.for_model import fenced, for_model
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import Content, File, FilePart, Prompt, Text
from mcpagent.values.tools import ToolOutput

MAX_NAMED = 3
MAX_RESOURCE = 1_000_000
"""Maximum number of characters of one resource in a prompt."""

_MARK = re.compile(r"""(?:^|(?<=\s))@(?:"([^"\n]+)"|'([^'\n]+)'|((?:\\.|[^\s\\])+))""")
_CLOSING = ".,;:!?)]}"
_USER_LABEL = "[user]\n"
"""The label that `output_of_prompt` puts before the user's words; omitted if all words are the user's."""


def marks(line: str) -> list[str]:
    r"""Return the text after each `@`, unquoted and unescaped: `@a.txt`, `@"two words.txt"`, `@two\ words.txt`."""
    found = [
        re.sub(r"\\(.)", r"\1", bare) if bare else double or single
        for double, single, bare in _MARK.findall(line)
    ]
    return list(dict.fromkeys(found))


async def with_attachments(
    line: str, agent: Agent, folder: Path
) -> tuple[str | list[Content], list[str]]:
    """Return the prompt with everything that it names, and one line about each attachment.

    An `@` that names neither a file nor a server stays a word, as in `@someone`. Raises `InputError` for an unusable
    file, and for a resource that its server does not return.
    """
    blocks: list[str] = []
    files: list[Content] = []
    added: list[str] = []
    for mark in marks(line):
        server, colon, uri = mark.partition(":")
        text, attached, leads_to = "", list[Content](), ""
        if colon and uri and server in agent.servers:
            text, attached = await _content(
                await agent.mcp.read_resource(server, uri), mark
            )
            name: str | None = mark
        elif (name := _file_name(mark, folder)) is not None:
            found = await asyncio.to_thread(
                read_file, _path(folder, name), shown=f"@{name}"
            )
            if isinstance(found, str):
                text, attached = found, []
            else:
                text, attached = "", [found]
            leads_to = link_target(folder, name)
        if name is not None:
            added.append(
                f"{safe_line(name, 100)}{leads_to}  {_sizes(len(text), attached)}"
            )
            if text:
                blocks += [fenced(for_model(text), safe_line(name, 200))]
            files += attached
    words = "\n\n".join([line, *blocks])
    return ([Text(words), *files] if files else words), added


def left_as_words(line: str, agent: Agent, folder: Path) -> str:
    """Return a line about each `@` that matches neither a file nor a server, so that nothing was attached; "" if all
    match.
    """
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


def _file_name(mark: str, folder: Path) -> str | None:
    """Return the name of the file, or None; a full stop or comma at its end belongs to the sentence."""
    for name in dict.fromkeys((mark, mark.rstrip(_CLOSING))):
        try:
            path = _path(folder, name)
            if name and path.is_file():
                return name
            if name and path.is_dir():
                raise InputError(
                    f"@{safe_line(name, 100)} is a folder; name a file in it"
                )
        except (
            OSError,
            RuntimeError,
            ValueError,
        ):  # no home folder, or an invalid path
            continue
    if "/" in mark or mark.startswith((".", "~")):
        raise InputError(
            f'no file "{safe_line(mark, 100)}"; write @"a name" if it has spaces'
        )
    return None


async def _content(output: ToolOutput, label: str) -> tuple[str, list[Content]]:
    content = (await admitted(output.content)).content
    text = "\n".join(part.text for part in content if isinstance(part, Text))
    if output.error is not None:
        raise InputError(
            f"@{safe_line(label, 100)}: {safe_line(text or output.error, 300)}"
        )
    if len(text) > MAX_RESOURCE:
        raise InputError(
            f"@{safe_line(label, 100)} has {len(text):,} characters; the limit is {MAX_RESOURCE:,}"
        )
    return text, [part for part in content if not isinstance(part, Text)]


def _sizes(characters: int, files: Sequence[Content]) -> str:
    words = []
    if characters or not files:
        words = [f"{characters:,} characters"]
    counts = Counter(file_kind(part) for part in files if isinstance(part, FilePart))
    return ", ".join(
        [*words, *(counted(number, kind) for kind, number in counts.items())]
    )


def joined_parts(prompt: Prompt, more: Sequence[Content]) -> Prompt:
    """Return the prompt with more parts: all texts joined into one, followed by the files."""
    texts: list[str] = []
    files: list[Content | File] = []
    for part in (*([prompt] if isinstance(prompt, str) else prompt), *more):
        match part:
            case str():
                texts.append(part)
            case Text(text=text):
                texts.append(text)
            case _:
                files.append(part)
    words = "\n\n".join(texts)
    if files:
        return [Text(words), *files]
    return words


# -- Prompts of servers ------------------------------------------------------------------------------------------------


def named_prompt(line: str, servers: Collection[str]) -> tuple[str, str, str] | None:
    """Return server, prompt and arguments of a line `/server:prompt ...`; None for other lines."""
    word, _, rest = line.strip().partition(" ")
    server, colon, name = word.removeprefix("/").partition(":")
    if word.startswith("/") and colon and server in servers:
        return server, name, rest.strip()
    return None


async def server_prompt(
    agent: Agent, server: str, name: str, words: str, *, alone: bool = True
) -> list[Content]:
    """Return a server's prompt, filled with `key=value` words; a single argument needs no key.

    With other text in the same prompt (`alone` False), the result is a block that names its server. Raises `InputError`
    if there is no such prompt, or an argument is missing or unknown.
    """
    prompts = agent.mcp.prompts.get(server, ())
    known = next((prompt for prompt in prompts if prompt.name == name), None)
    # For an unknown prompt, the server's list raises the error, with similar names.
    if known is not None:
        arguments = _arguments(words, [item.name for item in known.arguments])
    else:
        arguments = {}
    output = await agent.mcp.get_prompt(server, name, arguments)
    text, files = await _content(output, f"{server}:{name}")
    text = _only_words(text)
    if not text.strip() and not files:
        raise InputError(
            f'prompt "{safe_line(name, 60)}" of {safe_line(server, 60)} is empty'
        )
    label = f"Prompt {safe_line(name, 100)} of the server {safe_line(server, 100)}"
    return [Text(text if alone else fenced(text, label)), *files]


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
