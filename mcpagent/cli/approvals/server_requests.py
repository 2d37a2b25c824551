"""Handle servers' requests during a call, at the terminal: a form, an address to open, or an answer of the model.

Only servers whose entry has `"elicitation": true` or `"sampling": true` may ask. The server's name always precedes its
question, in mcpagent's own text; the default answer is no.
"""

from __future__ import annotations

import ipaddress
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rich.text import Text

from mcpagent.cli.approvals.approval_box import VIEW_KEY, Asking, forget_typed_ahead
from mcpagent.cli.common.number_formats import counted, money
from mcpagent.cli.screen.form import Field, UnfitError, fields_of, looks_secret
from mcpagent.cli.screen.lines import behind_bar
from mcpagent.cli.screen.terminal import put, warning_line
from mcpagent.mcp.handlers import DismissedError, Handlers, Sampled
from mcpagent.models.base import ModelRequest, ModelSettings
from mcpagent.utilities.text.for_model import for_model
from mcpagent.utilities.text.safe_text import safe_line, safe_text, visible
from mcpagent.values.messages import Message
from mcpagent.values.messages import Text as Words

if TYPE_CHECKING:
    from mcpagent.agents.agent import Agent
    from mcpagent.config import ServerConfig

MAX_MESSAGE_LINES = 12
MAX_WORDS = 20_000
"""Maximum number of characters of a request that a user can be expected to read; longer requests are declined."""
MAX_ADDRESS = 2_048
MAX_HOST = 253  # RFC 1035, in text form
MAX_TEMPERATURE = 2  # OpenAI's limit, the highest of all providers
MAX_OUTPUT_TOKENS = 4_096
"""Maximum number of output tokens of one answer for a server, even if the server requests more."""


class ServerRequests:
    """Asks the user one question at a time; declines everything if no user can be asked.

    `agent` is set once the agent exists; its model answers for servers. `waits` receives the name of a server whose
    question has to wait for another one.
    """

    def __init__(
        self, asking: Asking, waits: Callable[[str], None] = lambda _server: None
    ) -> None:
        self.agent: Agent | None = None
        self._asking = asking
        self._console = asking.console
        self._glyphs = asking.glyphs
        self._waits = waits

    def handlers(self, config: ServerConfig) -> Handlers | None:
        """Return the handlers for the requests that this server's entry allows."""
        if not (config.elicitation or config.sampling):
            return None
        return Handlers(
            elicit=self.elicit if config.elicitation else None,
            visit=self.visit if config.elicitation else None,
            sample=self.sample if config.sampling else None,
        )

    # -- Elicitation ---------------------------------------------------------------------------------------------------

    async def elicit(
        self, server: str, message: str, schema: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Return the filled form, with None for empty fields; None if the user declines.

        Raises `DismissedError` if the user dismisses the form.
        """
        async with self._turn_of(server):
            try:
                fields = fields_of(schema)
            except UnfitError as error:
                self._decline(
                    server, f"asks for something that cannot be asked here: {error}"
                )
                return None
            if self._asking.read is None:
                self._decline(server, "asks you something, and nobody can answer here")
                return None
            if self._is_too_long(server, message):
                return None
            what = "asks for your consent"
            if fields:
                what = f"asks you for {counted(len(fields), 'thing')}"
            rows = self._head(server, what, message)
            put(
                self._console,
                *(row for field in fields for row in self._behind_bar(field.title())),
            )
            if looks_secret(message) or any(field.looks_secret for field in fields):
                self._say(
                    "this looks like a secret: a server must not ask for one here, and what you type goes to it"
                )
            if not await self._agreed("answer it?", rows):
                return None
            try:
                return {field.name: await self._field(field) for field in fields}
            except EOFError:
                put(self._console, "taken back; nothing was sent", style="dim")
                raise DismissedError from None

    async def _field(self, field: Field) -> Any:
        put(
            self._console,
            *(Text(f"    {line}", "dim") for line in field.choice_lines()),
        )
        typed = field.default()
        while True:
            typed = await self._line(f"  {safe_line(field.name, 40)}: ", typed)
            try:
                return field.value(typed)
            except UnfitError as error:
                put(
                    self._console,
                    Text(f"    {self._glyphs.warning} {error}", "warning"),
                )

    async def visit(self, server: str, message: str, url: str) -> bool:
        """Return whether the user opened the address; mcpagent never opens it."""
        async with self._turn_of(server):
            host = host_of(url)
            if host is None:
                self._decline(
                    server, "asks you to open something that is no plain web address"
                )
                return False
            if self._asking.read is None:
                self._decline(
                    server, "asks you to open an address, and nobody can here"
                )
                return False
            if self._is_too_long(server, message):
                return False
            rows = self._head(
                server, "asks you to open an address in your browser", message
            )
            # On one line, so that it can be copied.
            self._console.print(
                Text(f"  {url}", "user"), soft_wrap=True, highlight=False
            )
            put(
                self._console,
                Text(f"  it leads to {host}; open it yourself if you trust it", "dim"),
            )
            return await self._agreed("did you?", rows)

    # -- Sampling ------------------------------------------------------------------------------------------------------

    async def sample(self, server: str, params: dict[str, Any]) -> Sampled:
        """Return the model's answer to a server's request, after the user's consent.

        Raises `DismissedError` without consent.
        """
        async with self._turn_of(server):
            assert self.agent is not None
            if self._asking.read is None:
                self._decline(
                    server, "asks for an answer of the model, and nobody can agree here"
                )
                raise DismissedError("nobody can be asked here")
            model = self.agent._runtime.model.name
            shown = safe_line(model, 60)
            request = sampling_request(params)
            said = []
            if request.system:
                said = [("system", request.system)]
            said += [(message.role, message.text) for message in request.messages]
            asked = "\n".join(f"{role}: {text}" for role, text in said)
            if self._is_too_long(server, asked):
                raise DismissedError(f"more than {MAX_WORDS:,} characters")
            tokens = request.settings.max_output_tokens
            rows = self._head(
                server, f"asks {shown} for an answer of up to {tokens:,} tokens", asked
            )
            if not await self._agreed("let it, at your cost?", rows):
                raise DismissedError
            response = await self.agent._runtime.complete(request)
            usage, price = response.usage, response.dollars
            cost = ""
            if price:
                cost = f", {money(price)}"
            took = f"in {usage.input_tokens:,} out {usage.output_tokens:,} tokens{cost}"
            put(
                self._console,
                Text(f"  {shown} answered server {_name(server)}: {took}", "dim"),
            )
            return Sampled(response.message.text, model)

    # -- Output and input ----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _turn_of(self, server: str) -> AsyncIterator[None]:
        if self._asking.turn.locked():
            self._waits(server)
        async with self._asking.turn:
            with self._asking.aside():
                yield

    def _is_too_long(self, server: str, words: str) -> bool:
        if len(words) <= MAX_WORDS:
            return False
        self._decline(
            server,
            f"asks with {len(words):,} characters, more than anybody reads ({MAX_WORDS:,})",
        )
        return True

    def _head(self, server: str, what: str, message: str) -> list[Text]:
        """Print the server's name and request, then its own text after a bar, so that it cannot imitate mcpagent.

        Returns all rows of that text if some were omitted, otherwise [].
        """
        rows = self._behind_bar(visible(safe_text(message)))
        hidden = len(rows) - MAX_MESSAGE_LINES
        who = (_name(server), "user")
        head = Text.assemble(
            (f"{self._glyphs.warning} server ", "warning"), who, (f" {what}", "warning")
        )
        put(self._console, head, *rows[:MAX_MESSAGE_LINES])
        if hidden > 0:
            put(
                self._console,
                Text(
                    f"  {self._glyphs.ellipsis} {hidden} more lines: [v] shows all",
                    "warning",
                ),
            )
        forget_typed_ahead(self._console)
        if hidden > 0:
            return rows
        return []

    def _behind_bar(self, words: str) -> list[Text]:
        return behind_bar(words, self._glyphs, self._console.width)

    async def _agreed(self, question: str, rows: list[Text]) -> bool:
        """Return whether the user typed yes; Ctrl-D means no. `rows` are printed if the user wants to see the whole
        text.
        """
        view = ""
        if rows:
            view = f"  {VIEW_KEY}"
        while True:
            try:
                typed = (
                    (await self._line(f"{question} [y] yes{view}  [N] no "))
                    .strip()
                    .lower()
                )
            except EOFError:
                return False
            if not (rows and typed == "v"):
                return typed in ("y", "yes")
            put(self._console, *rows)

    async def _line(self, question: str, default: str = "") -> str:
        """Return one line of input. Ctrl-C ends the turn and the question, because the server's request is not a task
        of the turn.
        """
        assert self._asking.read is not None
        try:
            return await self._asking.read(question, default)
        except KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)
            raise DismissedError from None

    def _decline(self, server: str, why: str) -> None:
        self._say(f"server {_name(server)} {why}; declined")

    def _say(self, line: str) -> None:
        put(self._console, warning_line(line, self._glyphs, 300))


def sampling_request(params: dict[str, Any]) -> ModelRequest:
    """Return a server's `sampling/createMessage` as a model request: texts only, without tools, limited in length."""
    messages: list[Message] = []
    for item in params.get("messages", ()):
        content = item.get("content")
        if isinstance(content, list):
            blocks = content
        else:
            blocks = [content]
        words = for_model(
            "\n".join(_words_of(block) for block in blocks if isinstance(block, dict))
        )
        if words.strip():
            role = "user"
            if item.get("role") == "assistant":
                role = "assistant"
            messages.append(Message(role, (Words(words),)))  # type: ignore[arg-type]
    wanted = params.get("maxTokens")
    if isinstance(wanted, int) and wanted > 0:
        limit = min(wanted, MAX_OUTPUT_TOKENS)
    else:
        limit = MAX_OUTPUT_TOKENS
    heat = params.get("temperature")
    temperature = None
    if isinstance(heat, int | float) and 0 <= heat <= MAX_TEMPERATURE:
        temperature = heat
    settings = ModelSettings(max_output_tokens=limit, temperature=temperature)
    return ModelRequest(
        for_model(str(params.get("systemPrompt") or "")),
        tuple(messages),
        settings=settings,
        purpose="sampling",
    )


def _words_of(block: dict[str, Any]) -> str:
    """Return a block's text, or a note about an omitted block, so that the model knows that something is missing."""
    kind = str(block.get("type", "text"))
    if kind == "text":
        return str(block.get("text", ""))
    return f"[{safe_line(kind, 20)} left out: only text is passed on]"


def host_of(url: str) -> str | None:
    """Return the host that a browser opens for this address, in ASCII.

    Returns None for other addresses and for ambiguous ones: with spaces, backslashes or hidden characters, a number
    instead of a host, or letters that IDNA maps in two ways.
    """
    if (
        len(url) > MAX_ADDRESS
        or visible(url, "") != url
        or re.search(r"[\s\\]", url)
        or "://" not in url[:8]
    ):
        return None
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        if parts.scheme not in ("http", "https") or not host or re.search("[ßς]", host):
            return None
        if ":" in host:
            return f"[{ipaddress.IPv6Address(host)}]"
        plain = host.encode("idna").decode().lower().removesuffix(".")
        # If the last label begins like a number, browsers read the host as an IPv4 address, also in octal and
        # hexadecimal.
        if re.fullmatch(r"\d+|0x[0-9a-f]*", plain.rpartition(".")[2]):
            return str(ipaddress.IPv4Address(plain))
    except ValueError:  # including UnicodeError
        return None
    if re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", plain) and len(plain) <= MAX_HOST:
        return plain
    return None


def _name(server: str) -> str:
    return safe_line(server, 64)
