"""The interface of model adapters: `Model.respond(request, emit)` streams through `emit` and returns one answer."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from mcpagent.history.token_estimates import (
    DEFINITION_SHARE,
    json_sent,
    message_tokens,
    text_tokens,
)
from mcpagent.models.model_settings import ModelSettings as ModelSettings
from mcpagent.models.provider_tools.provider_tool_values import ProviderTool
from mcpagent.utilities.python.argument_checks import expect
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import (
    AnswerRestarted,
    Emit,
    Event,
    TextDelta,
    ThinkingDelta,
)
from mcpagent.values.messages import (
    Document,
    FileId,
    Message,
    Spent,
    ToolDefinition,
    Usage,
)

ResponseStop: TypeAlias = Literal["end", "tool_calls", "length", "refusal"]
RequestPurpose: TypeAlias = Literal["answer", "summary", "sampling"]


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """The format of a structured answer: a JSON Schema of an object, and a name.

    The answer is that object as JSON text. `way` is the mode of requesting it, which the adapter chooses: the
    provider's native output format, or the arguments of a tool that only serves to submit the answer.
    """

    name: str
    schema: dict[str, Any]
    description: str = ""
    way: Literal["native", "tool"] = "native"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to a model, independent of the provider. `tools` are sent in this order.

    - `tool_choice` "none" requests an answer without a call; the tools stay in the request, and so does the cached
      prefix.
    - `deferred_tools` are for the provider's own search: all tools it received in this conversation, each as first
      sent, including discovered and lost ones. They are set only if `search_problem` reports no problem.
    - `search_strategy` is the ranking of the provider's search, if there is a choice.
    - `provider_tools` run at the provider; unsupported ones are omitted with one notice.
    - `output` is the format of the answer, None for text; an answer with calls need not have it.
    - `purpose` "summary" requests the summary of a conversation; "sampling" is a request of an MCP server.
    """

    system: str
    messages: Sequence[Message]
    tools: tuple[ToolDefinition, ...] = ()
    deferred_tools: tuple[ToolDefinition, ...] = ()
    tool_choice: Literal["auto", "none"] = "auto"
    settings: ModelSettings = field(default_factory=ModelSettings)
    search_strategy: Literal["auto", "bm25", "regex"] = "auto"
    provider_tools: tuple[ProviderTool, ...] = ()
    output: OutputFormat | None = None
    purpose: RequestPurpose = "answer"

    @property
    def known_tools(self) -> int:
        """Number of different tools in the request."""
        return len({tool.name for tool in (*self.tools, *self.deferred_tools)})


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """An answer; the history stores `message`. `dollars` is its price (US), None if it is unknown or not a number from
    0 up.
    """

    message: Message
    usage: Usage
    stop: ResponseStop
    dollars: float | None = None

    def __post_init__(self) -> None:
        if self.dollars is not None:
            object.__setattr__(self, "dollars", _price(self.dollars))


MOST_DOLLARS = 1e12
"""Upper bound of a price, so that sums stay finite."""


def _price(value: Any) -> float | None:
    try:
        if isinstance(value, bool | str):
            dollars = math.nan
        else:
            dollars = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if 0 <= dollars <= MOST_DOLLARS:
        return dollars
    return None


@runtime_checkable
class Model(Protocol):
    """A model that answers requests.

    `respond` emits `TextDelta` and `ThinkingDelta` as they arrive, and raises `ModelError` or `CredentialsError` if
    there is no usable answer. If a tool call was cut off, the answer has `stop="length"`, and the call has `malformed`
    set.
    """

    @property
    def name(self) -> str:
        """The model's name as a user writes it, `provider:model`."""
        ...

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """Return one complete answer to the request."""
        ...

    async def aclose(self) -> None:
        """Release connections; the model is not used afterwards."""
        ...


def search_problem(
    model: Model, strategy: str, deferred: Sequence[ToolDefinition]
) -> str:
    """Return why the model's provider cannot search these tools itself, in a few words; "" if it can.

    A model whose provider can search has a method `search_problem(strategy, deferred)`; it is optional.
    """
    own = getattr(model, "search_problem", None)
    if own is not None:
        return str(own(strategy, deferred))
    return f"{model.name} has no tool search of its own"


def search_cost(model: Model) -> float | None:
    """Return the cost of a search with this model, in cached input tokens; None if unknown.

    A model may have a method `search_cost()`; it is optional.
    """
    cost: float | None = getattr(model, "search_cost", lambda: None)()
    return cost


def discovery_note(model: Model, tokens: int) -> str:
    """Return a note for a person about how a request of `tokens` tokens announces found tools, and why, or "".

    A model may have a method `discovery_note(tokens)`; it is optional.
    """
    own = getattr(model, "discovery_note", None)
    if own is None:
        return ""
    return str(own(tokens))


async def download(model: Model, file: FileId) -> Document | None:
    """Return a file that the model's provider stores; None if another provider does. Raises `ModelError` in one line.

    A model may have a method `download(file)`; it is optional.
    """
    own = getattr(model, "download", None)
    if own is None:
        return None
    found: Document | None = await own(file)
    return found


def is_small(model: Model, settings: ModelSettings) -> bool:
    """Return whether to use the defaults for small models: by the settings, else by the model's own data.

    A model may have a method `is_small(settings)`; it is optional.
    """
    own = getattr(model, "is_small", None)
    if own is None:
        return settings.profile == "small"
    return bool(own(settings))


def runs_provider_tools(model: Model) -> bool:
    """Return whether the model handles `provider_tools` and reports unsupported ones itself.

    A model may have a method `runs_provider_tools()`; without it, the model runs none.
    """
    own = getattr(model, "runs_provider_tools", None)
    return own is not None and bool(own())


def price_of(model: Model, usage: Usage) -> float | None:
    """Return the price of these tokens in US dollars; None if unknown.

    A model may have a method `price_of(usage)`; it is optional.
    """
    own = getattr(model, "price_of", None)
    try:
        if own is not None:
            return _price(own(usage))
        return None
    except Exception:  # noqa: BLE001 - it may be third-party code, and its error must not hide the cause
        return None


def request_tokens(request: ModelRequest) -> int:
    """Return the estimated tokens of the whole request."""
    tools = sum(
        len(
            json_sent(
                {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                }
            )
        )
        for tool in request.tools
    )
    said = text_tokens(request.system) + sum(map(message_tokens, request.messages))
    return said + int(tools / 4 * DEFINITION_SHARE)


def untold_tokens(
    usage: Usage, sent: Callable[[], int], written: Message
) -> tuple[int, int]:
    """Return estimates of the request's and the answer's tokens, each 0 if the provider reported the count.

    `sent` estimates the tokens of the request; `written` is the answer.
    """
    return (
        0 if usage.input_tokens else sent(),
        0 if usage.output_tokens else message_tokens(written),
    )


class ActiveRequest:
    """A request to a model: it receives the request's events, and counts its usage, even if the request is cut off.

    Usage that the provider does not report is estimated and counted separately. `sent` estimates the tokens of the
    request; `heard` is the text of the answer so far.
    """

    def __init__(
        self,
        model: Model,
        request: ModelRequest,
        emit: Emit,
        count: Callable[[Spent], None],
        sent: Callable[[], int] | None = None,
    ) -> None:
        self._model, self._request, self._emit, self._count = (
            model,
            request,
            emit,
            count,
        )
        self._sent = sent or partial(request_tokens, request)
        self.task: asyncio.Future[ModelResponse] | None = None
        """The task that waits for the response."""
        self.deltas: list[TextDelta | ThinkingDelta] = []
        """The pieces of the answer so far, without those of abandoned attempts."""
        self._paid: list[str] = []
        self._is_over = False

    def __call__(self, event: Event) -> None:
        if self._is_over:  # the request was abandoned
            return
        if isinstance(event, AnswerRestarted):
            self.deltas.clear()
        elif isinstance(event, TextDelta | ThinkingDelta):
            self.deltas.append(event)
            self._paid.append(event.text)
        self._emit(event)

    @property
    def heard(self) -> str:
        """The text of the answer so far."""
        return "".join(
            delta.text for delta in self.deltas if isinstance(delta, TextDelta)
        )

    def answered(
        self, response: ModelResponse, *, offered: int = 0, saved: int = 0
    ) -> ModelResponse:
        """Count the usage of the answer and return it. Raises `ConfigError` if it is not a `ModelResponse`.

        `offered` and `saved` are the `definition_tokens` and `saved_tokens` of the request.
        """
        self._is_over = True
        place = f"model {safe_line(self._model.name, 80)}: respond()"
        expect(place, response, ModelResponse, "a ModelResponse")
        expect(f"{place}: usage", response.usage, Usage, "Usage(...)")
        price, told = response.dollars, response.usage
        estimated = sum(untold_tokens(told, self._sent, response.message))
        self._count(
            Spent(
                told,
                price or 0.0,
                price is not None,
                offered,
                saved,
                estimated_tokens=estimated,
            )
        )
        return response

    def __enter__(self) -> ActiveRequest:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        was_over, self._is_over = self._is_over, True
        is_cut_off = kind is not None and not issubclass(kind, Exception)
        if kind is None or was_over or not (is_cut_off or self._paid):
            return  # a refused request costs nothing
        usage = Usage(self._sent(), text_tokens("".join(self._paid)))
        # The cost of the provider's tools until then is unknown.
        if self._request.provider_tools:
            price = None
        else:
            price = price_of(self._model, usage)
        self._count(
            Spent(
                Usage(requests=1),
                price or 0.0,
                price is not None,
                estimated_tokens=usage.tokens,
            )
        )


class WrappedModel:
    """A model that wraps another one. It delegates every method that a subclass does not override."""

    def __init__(self, model: Model) -> None:
        self.inside = model

    @property
    def name(self) -> str:
        """The name of the inner model."""
        return self.inside.name

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """Return the answer of the inner model."""
        return await self.inside.respond(request, emit)

    async def aclose(self) -> None:
        """Close the inner model."""
        await self.inside.aclose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inside, name)


async def look_up(model: Model) -> None:
    """Let a model query its server before the first request. Never raises an error or takes long.

    A model may have a method `look_up()`; it is optional.
    """
    if (own := getattr(model, "look_up", None)) is not None:
        await own()


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """The limits of a model: `max_tools` definitions in one request, `window_tokens` in total. None: unknown.

    `joining`: tools may be added between two turns, without a call that found them, at no higher cost.
    """

    max_tools: int | None = None
    window_tokens: int | None = None
    joining: bool = True


def accepted_files(model: Model) -> frozenset[str]:
    """Return the inputs other than text that the model accepts: "image", "pdf", "audio"; by default, images.

    A model may have a method `accepted_files()`; it is optional.
    """
    own = getattr(model, "accepted_files", None)
    if own is not None:
        return frozenset(own())
    return frozenset({"image"})


def tool_limits(model: Model) -> ToolLimits:
    """Return the model's known limits on tools; `capabilities.py` has the known values.

    A model may have a method `tool_limits()`; it is optional.
    """
    limits: ToolLimits = getattr(model, "tool_limits", ToolLimits)()
    return limits
