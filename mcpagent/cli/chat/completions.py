"""Tab completions: commands with their descriptions, tools, servers, their prompts and resources, files after `@`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from mcpagent.agents.agent import Agent
from mcpagent.utilities.text.safe_text import safe_line

MAX_OFFERED = 200
MAX_FILES = 2_000

_AT = re.compile(r"""(?:^|\s)@(?:"([^"\n]*)|((?:\\.|[^\s\\"])*))$""")

Pairs = Sequence[tuple[str, str]]
"""Texts, each with its description."""


@dataclass(frozen=True, slots=True)
class Words:
    """The candidates for completion. `prompts` are `server:prompt` and `resources` `server:uri`.

    `values` are the possible arguments of a slash command, `arguments` those of a prompt.
    """

    folder: Path
    commands: Pairs
    values: Mapping[str, Sequence[str]]
    tools: Sequence[str] = ()
    servers: Sequence[str] = ()
    prompts: Pairs = ()
    arguments: Mapping[str, Sequence[str]] = field(
        default_factory=dict[str, Sequence[str]]
    )
    resources: Pairs = ()


class ChatCompleter(Completer):
    """Completes the word before the cursor; `words` returns the current candidates."""

    def __init__(self, words: Callable[[], Words]) -> None:
        self._words = words

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002 - the interface's own
    ) -> Iterable[Completion]:
        """Yield completions; prompt_toolkit calls this during typing."""
        line = document.current_line_before_cursor
        if (mark := _AT.search(line[-4_096:])) is not None:
            yield from islice(self._attachments(mark), MAX_OFFERED)
        elif line.startswith("/") and document.cursor_position_row == 0:
            yield from islice(self._of_command(line), MAX_OFFERED)

    def _of_command(self, line: str) -> Iterator[Completion]:
        word, space, rest = line.partition(" ")
        words = self._words()
        if not space:
            yield from _starting(word, words.commands)
            if len(word) > 1:
                prompts = ((f"/{name}", about) for name, about in words.prompts)
                yield from _containing(word[1:], prompts, len(word))
            return
        last = rest.rpartition(" ")[2]
        if word in ("/tool", "/why", "/allow", "/deny"):
            yield from _containing(
                last, ((name, "") for name in words.tools), len(last)
            )
        elif word == "/mcp":
            verbs = []
            if last == rest:
                verbs = [(verb, "") for verb in words.values[word]]
            yield from _starting(
                last, [*verbs, *((name, "") for name in words.servers)]
            )
        elif values := words.values.get(word):
            yield from _starting(last, ((value, "") for value in values))
        elif ":" in word:
            given = {piece.partition("=")[0] for piece in rest.split(" ")[:-1]}
            names = [
                name for name in words.arguments.get(word[1:], ()) if name not in given
            ]
            yield from _starting(last, ((f"{name}=", "") for name in names))

    def _attachments(self, mark: re.Match[str]) -> Iterator[Completion]:
        is_quoted = mark[1] is not None
        if is_quoted:
            typed = mark[1]
        else:
            typed = re.sub(r"\\(.)", r"\1", mark[2])
        if is_quoted:
            back = len(mark[1]) + 1
        else:
            back = len(mark[2])
        words = self._words()
        yield from _files(typed, back, words.folder, is_quoted=is_quoted)
        if not is_quoted:
            servers = dict.fromkeys(
                name.partition(":")[0] for name, _ in words.resources
            )
            yield from _starting(
                typed, ((f"{name}:", "resources of a server") for name in servers)
            )
            if ":" in typed:
                yield from _containing(typed, words.resources, back)


def _starting(typed: str, items: Iterable[tuple[str, str]]) -> Iterator[Completion]:
    for text, about in items:
        if text.startswith(typed) and _is_printable(text):
            yield Completion(
                text, start_position=-len(typed), display_meta=safe_line(about, 60)
            )


def _containing(
    typed: str, items: Iterable[tuple[str, str]], back: int
) -> Iterator[Completion]:
    for text, about in items:
        if typed.lower() in text.lower() and _is_printable(text):
            yield Completion(
                text, start_position=-back, display_meta=safe_line(about, 60)
            )


def _files(
    typed: str, back: int, folder: Path, *, is_quoted: bool
) -> Iterator[Completion]:
    """Yield files and folders with the typed prefix, folders first; hidden ones only if the prefix begins with a
    dot.
    """
    head, slash, start = typed.rpartition("/")
    try:
        place = folder / Path(f"{head}{slash}" or ".").expanduser()
        with os.scandir(place) as entries:
            found = [
                (not entry.is_dir(), entry.name) for entry in islice(entries, MAX_FILES)
            ]
    except (
        OSError,
        RuntimeError,
        ValueError,
    ):  # no such folder, no home folder, or no path at all
        return
    for is_file, name in sorted(found):
        if (
            not name.startswith(start)
            or (name.startswith(".") and not start)
            or not _is_printable(name)
        ):
            continue
        path = f"{head}{slash}{name}" + ("" if is_file else "/")
        needs_quotes = is_quoted or re.search(r"[\s\\'\"]", path)
        text = path
        if needs_quotes:
            # A folder's quotation mark stays open, because a name in that folder follows.
            if is_file:
                text = f'"{path}"'
            else:
                text = f'"{path}'
        yield Completion(
            text, start_position=-back, display=name + ("" if is_file else "/")
        )


def _is_printable(text: str) -> bool:
    """Return whether a name can be offered: without characters that a terminal would interpret."""
    return safe_line(text, 300) == text


def words_of(agent: Agent, folder: Path, *, is_started: bool) -> Words:
    """Return all candidates; before the agent has started, only those that do not need an agent."""
    from mcpagent.cli.chat.slash.slash_table import COMMANDS, VALUES
    from mcpagent.models.resolve import PROVIDERS

    models = (
        "offline",
        *(f"{name}:{provider.default_model}" for name, provider in PROVIDERS.items()),
    )
    words = Words(
        folder,
        commands=[(name, command.about) for name, command in COMMANDS.items()],
        values={**VALUES, "/model": models},
        servers=list(agent.servers),
    )
    if not is_started:
        return words
    servers = agent.mcp
    prompts = {
        f"{server}:{item.name}": item
        for server, listed in servers.prompts.items()
        for item in listed
    }
    return replace(
        words,
        tools=list(agent.known_tools),
        prompts=[(name, prompt.description) for name, prompt in prompts.items()],
        arguments={
            name: [item.name for item in prompt.arguments]
            for name, prompt in prompts.items()
        },
        resources=[
            (f"{server}:{it.uri}", it.name)
            for server, listed in servers.resources.items()
            for it in listed
        ],
    )
