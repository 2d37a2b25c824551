"""What the chat's commands work with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from mcpagent.cli.terminal import put

if TYPE_CHECKING:
    from mcpagent import Agent
    from mcpagent.cli.approvals import Rules
    from mcpagent.cli.configuration import Configuration
    from mcpagent.cli.requests import RequestTrace
    from mcpagent.cli.status import Figures
    from mcpagent.cli.terminal import Terminal
    from mcpagent.cli.why import SearchTrace
    from mcpagent.inputs import Prompt
    from mcpagent.messages import Image
    from mcpagent.messages import Text as Words


class Leave(Exception):  # noqa: N818 - not an error: `/exit`
    """The user wants to go."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One question: what was typed, what was asked with it, and how things were before it."""

    typed: str
    prompt: Prompt
    length: int
    """Messages in the conversation before it."""
    trace: SearchTrace
    requests: RequestTrace


@dataclass(slots=True)
class Desk:
    """What commands work with.

    `ready` waits until there are tools to look at; `ask` has a question answered, `edit` gives a text to the user's
    editor and returns it as it was saved, `choose` asks for one line. `turns` are the questions of this conversation.
    `kept` is what the next question takes along.
    """

    agent: Agent
    configuration: Configuration
    terminal: Terminal
    figures: Figures
    ready: Callable[[], Awaitable[None]]
    rules: Rules
    trace: SearchTrace
    requests: RequestTrace
    ask: Callable[[str, Prompt], Awaitable[None]]
    edit: Callable[[str], Awaitable[str]]
    choose: Callable[[str], Awaitable[str]]
    environ: Mapping[str, str]
    folder: Path
    turns: list[Turn] = field(default_factory=list[Turn])
    kept: list[Words | Image] = field(default_factory=list["Words | Image"])

    def say(self, *lines: Text | str) -> None:
        put(self.terminal.out, *lines)

    def warn(self, line: str) -> None:
        self.say(Text(line, "warning"))

    def note(self, line: str) -> None:
        self.say(Text(line, "dim"))

    @property
    def width(self) -> int:
        return self.terminal.out.width
