"""The state of a chat, for its slash commands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.text import Text

from mcpagent.agents.agent import Agent
from mcpagent.cli.approvals.approver import Approver
from mcpagent.cli.chat.trace import Trace
from mcpagent.cli.common.configuration import Configuration
from mcpagent.cli.common.options import Options
from mcpagent.cli.screen.terminal import Terminal, put
from mcpagent.journal.sessions import SessionInfo, Sessions
from mcpagent.mcp.all_servers import McpServers
from mcpagent.mcp.lists.pins import ToolChange
from mcpagent.values.messages import Content, Prompt


class Leave(Exception):  # noqa: N818 - not an error: `/exit`
    """Raised when the user leaves the chat."""


@dataclass(frozen=True, slots=True)
class ChatQuestion:
    """A prompt of the user: the typed text, its attachments, and the state of the chat before it."""

    typed: str
    prompt: Prompt
    length: int
    """Number of messages in the conversation before the prompt."""
    trace: Trace


@dataclass(kw_only=True, slots=True)
class ChatState:
    """The state of a chat for its commands.

    - `ready` waits until tools are known.
    - `ask` answers a prompt; `edit` opens a text in the user's editor and returns the saved version.
    - `store` has the conversations (None: they are not stored); `pick` lets the user choose one.
    - `go_on_with` continues the conversation of this ID, `finish` the unfinished part of the current one.
    - `asked` are the prompts of this conversation. `kept` is attached to the next prompt.
    - `declined_changes` are the changes of tools that the user declined in this chat.
    - `before_close` is called with the servers that are about to be closed.
    """

    agent: Agent
    configuration: Configuration
    terminal: Terminal
    approver: Approver
    environ: Mapping[str, str]
    folder: Path
    ready: Callable[[], Awaitable[None]]
    ask: Callable[[str, Prompt], Awaitable[None]]
    edit: Callable[[str], Awaitable[str]]
    options: Options
    store: Sessions | None
    pick: Callable[[list[SessionInfo]], Awaitable[SessionInfo | None]]
    go_on_with: Callable[[str], Awaitable[None]]
    finish: Callable[[], Awaitable[None]]
    trace: Trace = field(default_factory=Trace)
    asked: list[ChatQuestion] = field(default_factory=list[ChatQuestion])
    declined_changes: list[ToolChange] = field(default_factory=list["ToolChange"])
    kept: list[Content] = field(default_factory=list["Content"])
    before_close: Callable[[McpServers, Sequence[str]], Awaitable[None]] | None = None

    def say(self, *lines: Text | str) -> None:
        """Print lines on the terminal."""
        put(self.terminal.out, *lines)

    def warn(self, line: str) -> None:
        """Print a warning about a mistake in a command."""
        self.say(Text(line, "warning"))

    def note(self, line: str) -> None:
        """Print the effect of a command, or a suggestion."""
        self.say(Text(line, "dim"))

    @property
    def width(self) -> int:
        """Number of columns of the terminal."""
        return self.terminal.out.width


def is_command(line: str) -> bool:
    """Return whether the line is a `/word`; a path such as /etc/hosts belongs to a prompt."""
    word = line.strip().partition(" ")[0]
    return (
        word.startswith("/")
        and "/" not in word[1:]
        and "\n" not in word
        and len(word) > 1
    )
