"""What servers ask of us in the middle of a call, at the terminal: a form, an address to open, an answer of the model.

Only servers whose entry says `"elicitation": true` or `"sampling": true` may ask. Who asks always stands above what it
asks, in words of ours; the default answer is no.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from rich.text import Text

from mcpagent.cli.asking import ReadLine, forget_typed_ahead, read_answer
from mcpagent.cli.figures import counted, money
from mcpagent.cli.form import Field, UnfitError, fields_of
from mcpagent.cli.lines import MAX_WIDTH
from mcpagent.cli.terminal import put
from mcpagent.mcp.handlers import DismissedError, Handlers, Sampled
from mcpagent.safe_text import safe_line, safe_text, visible

if TYPE_CHECKING:
    from rich.console import Console

    from mcpagent import Agent
    from mcpagent.cli.terminal import Glyphs
    from mcpagent.config import ServerConfig
    from mcpagent.models.base import ModelRequest

MAX_MESSAGE_LINES = 12
MAX_OUTPUT_TOKENS = 4_096
"""Of one answer for a server, however many it asks for."""

Answer = TypeVar("Answer")


Asked = ParamSpec("Asked")


def in_turn(turn: asyncio.Lock, ask: Callable[Asked, Awaitable[Answer]]) -> Callable[Asked, Awaitable[Answer]]:
    """The same question, asked while no other one is that keeps to this turn."""

    async def asked(*given: Asked.args, **named: Asked.kwargs) -> Answer:
        async with turn:
            return await ask(*given, **named)

    return asked


class ServerRequests:
    """Asks on this console, one thing at a time. `read` None: nobody can be asked, so everything is declined.

    `agent` is set once it is made; its model answers for servers. `aside` is entered while something is asked.
    `waits` is told of a server whose question has to wait for its turn.
    """

    def __init__(
        self,
        console: Console,
        glyphs: Glyphs,
        read: ReadLine | None = read_answer,
        aside: Callable[[], AbstractContextManager[None]] = nullcontext,
        turn: asyncio.Lock | None = None,
        waits: Callable[[str], None] = lambda _server: None,
    ) -> None:
        self.agent: Agent | None = None
        self._console = console
        self._glyphs = glyphs
        self._read = read
        self._aside = aside
        self._turn = turn or asyncio.Lock()
        self._waits = waits

    def handlers(self, config: ServerConfig) -> Handlers | None:
        """What this server may ask, as its entry says."""
        if not (config.elicitation or config.sampling):
            return None
        return Handlers(
            elicit=self.elicit if config.elicitation else None,
            visit=self.visit if config.elicitation else None,
            sample=self.sample if config.sampling else None,
        )

    # -- elicitation --------------------------------------------------------------------------------------------------

    async def elicit(self, server: str, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        """A form, filled in; None where it is declined. Raises `DismissedError` where it is taken back."""
        return await self._one_at_a_time(server, lambda: self._filled(server, message, schema))

    async def visit(self, server: str, message: str, url: str) -> bool:
        """Whether the user opened the address by themselves; nothing here opens it."""
        return await self._one_at_a_time(server, lambda: self._visited(server, message, url))

    async def _filled(self, server: str, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        try:
            fields = fields_of(schema)
        except UnfitError as error:
            self._say(f"server {_name(server)} asks for something that cannot be asked here: {error}; declined")
            return None
        if self._read is None:
            self._say(f"server {_name(server)} asks you something, and nobody can answer here; declined")
            return None
        what = f"asks you for {counted(len(fields), 'thing')}" if fields else "asks for your consent"
        self._head(server, what, message)
        for field in fields:
            put(self._console, Text(f"  {field.title()}", "dim"))
        if any(field.looks_secret for field in fields):
            self._say("this looks like a secret: a server must not ask for one here, and what you type goes to it")
        if not await self._agreed("answer it?"):
            return None
        try:
            given = {field.name: await self._field(field) for field in fields}
        except EOFError:
            put(self._console, "taken back; nothing was sent", style="dim")
            raise DismissedError from None
        return {name: value for name, value in given.items() if value is not None}

    async def _field(self, field: Field) -> Any:
        put(self._console, *(Text(f"    {line}", "dim") for line in field.choice_lines()))
        typed = field.default()
        while True:
            typed = await self._line(f"  {safe_line(field.name, 40)}: ", typed)
            try:
                return field.value(typed)
            except UnfitError as error:
                put(self._console, Text(f"    {self._glyphs.warning} {error}", "warning"))

    async def _visited(self, server: str, message: str, url: str) -> bool:
        shown = visible(safe_text(url))[:1_000]
        if not url.lower().startswith(("https://", "http://")):
            self._say(f"server {_name(server)} asks you to open something that is no web address; declined")
            return False
        if self._read is None:
            self._say(f"server {_name(server)} asks you to open an address, and nobody can here; declined")
            return False
        self._head(server, "asks you to open an address in your browser", message)
        put(self._console, Text(f"  {shown}", "user"), Text("  open it yourself if you trust it", "dim"))
        return await self._agreed("did you?")

    # -- sampling -----------------------------------------------------------------------------------------------------

    async def sample(self, server: str, params: dict[str, Any]) -> Sampled:
        """The model's answer to what a server wrote, once the user agreed. Raises `DismissedError` where not."""
        return await self._one_at_a_time(server, lambda: self._sampled(server, params))

    async def _sampled(self, server: str, params: dict[str, Any]) -> Sampled:
        assert self.agent is not None
        if self._read is None:
            self._say(f"server {_name(server)} asks for an answer of the model, and nobody can agree here; declined")
            raise DismissedError
        model = self.agent.model.name
        request = sampling_request(params)
        words = "\n".join(message.text for message in request.messages)
        asked = f"{request.system}\n{words}" if request.system else words
        tokens = request.settings.max_output_tokens
        self._head(server, f"asks {safe_line(model, 60)} for an answer of up to {tokens:,} tokens", asked)
        if not await self._agreed("let it, at your cost?"):
            raise DismissedError
        response = await self.agent.complete(request)
        usage, price = response.usage, response.dollars
        cost = f", {money(price)}" if price else ""
        put(
            self._console,
            Text(
                f"  {safe_line(model, 60)} answered server {_name(server)}: "
                f"in {usage.input_tokens:,} out {usage.output_tokens:,} tokens{cost}",
                "dim",
            ),
        )
        return Sampled(response.message.text, model)

    # -- the screen ---------------------------------------------------------------------------------------------------

    async def _one_at_a_time(self, server: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        if self._turn.locked():
            self._waits(server)
        async with self._turn:
            with self._aside():
                return await ask()

    def _head(self, server: str, what: str, message: str) -> None:
        """Who asks and what, then the server's own words behind a bar, so that they cannot pass for ours."""
        width = min(self._console.width, MAX_WIDTH)
        lines = [line for line in visible(safe_text(message)).split("\n") if line.strip()]
        shown = [safe_line(line, max(width - 4, 20)) for line in lines[:MAX_MESSAGE_LINES]]
        if len(lines) > MAX_MESSAGE_LINES:
            shown.append(f"{self._glyphs.ellipsis} {len(lines) - MAX_MESSAGE_LINES} more lines")
        put(
            self._console,
            Text.assemble(
                (f"{self._glyphs.warning} server ", "warning"), (_name(server), "user"), (f" {what}", "warning")
            ),
            *(Text(f"  {self._glyphs.bar} {line}", "dim") for line in shown),
        )
        forget_typed_ahead()

    async def _agreed(self, question: str) -> bool:
        """Only a typed yes is one; Ctrl-D is no."""
        try:
            typed = await self._line(f"{question} [y] yes  [N] no ")
        except EOFError:
            return False
        return typed.strip().lower() in ("y", "yes")

    async def _line(self, question: str, default: str = "") -> str:
        """One answer; Ctrl-C ends the turn, and the question with it: the server's request is no part of the turn."""
        assert self._read is not None
        try:
            return await self._read(question, default)
        except KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)
            raise DismissedError from None

    def _say(self, line: str) -> None:
        put(self._console, Text(f"{self._glyphs.warning} {safe_line(line, 300)}", "warning"))


def sampling_request(params: dict[str, Any]) -> ModelRequest:
    """A server's `sampling/createMessage` as a request: its texts only, without tools, bounded in length."""
    from mcpagent.messages import Message
    from mcpagent.messages import Text as Words
    from mcpagent.models.base import ModelRequest, ModelSettings

    messages: list[Message] = []
    for item in params.get("messages", ()):
        content = item.get("content")
        blocks = content if isinstance(content, list) else [content]
        words = "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))
        if words.strip():
            role = "assistant" if item.get("role") == "assistant" else "user"
            messages.append(Message(role, (Words(words),)))  # type: ignore[arg-type]
    wanted = params.get("maxTokens")
    limit = min(wanted, MAX_OUTPUT_TOKENS) if isinstance(wanted, int) and wanted > 0 else MAX_OUTPUT_TOKENS
    temperature = params.get("temperature")
    settings = ModelSettings(
        max_output_tokens=limit, temperature=temperature if isinstance(temperature, int | float) else None
    )
    return ModelRequest(str(params.get("systemPrompt") or ""), tuple(messages), settings=settings)


def _name(server: str) -> str:
    return safe_line(server, 64)
