"""Combine several models: if one is overloaded, out of quota, unreachable or returns nothing, the next one answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from mcpagent.errors import (
    ConfigError,
    ContextOverflowError,
    CredentialsError,
    ModelError,
)
from mcpagent.models.base import (
    Model,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    ToolLimits,
    download,
    is_small,
    look_up,
    price_of,
    runs_provider_tools,
    search_cost,
    search_problem,
    tool_limits,
)
from mcpagent.models.output_modes.structured_output import told_form
from mcpagent.models.stream_rollback import ShownDeltas
from mcpagent.utilities.python.argument_checks import checked
from mcpagent.values.events import Emit, Notice
from mcpagent.values.messages import Document, FileId, ToolDefinition, Usage

REST_SECONDS = 60.0
"""How long a failed model is skipped if its provider reports no time."""


class FallbackModel:
    """Asks the models in order until one returns a usable answer.

    Each model has already retried its own request if that could help. A conversation that is too long is not sent to
    the next model, because it must be compacted. A failed model is skipped for a while, unless all models failed. All
    models share the history, so tools found with one model remain available with the next. `owned` models are closed
    with this one.
    """

    @checked()
    def __init__(
        self,
        models: Sequence[Model],
        *,
        owned: Sequence[Model] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not models:
            raise ConfigError("model: the list of models is empty; name at least one")
        self.models = tuple(models)
        self._owned = tuple(owned)
        self._clock = clock
        self._rests_until: dict[int, float] = {}
        self._told: set[str] = set()

    @property
    def name(self) -> str:
        """The names of all models, in order."""
        return ", ".join(model.name for model in self.models)

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """Return the first usable answer. Raises `ModelError` with the tried models and the reason of each failure."""
        tried: list[tuple[Model, Exception]] = []
        empty: ModelResponse | None = None
        shown, last = ShownDeltas(emit), len(self.models) - 1
        for position in self._order():
            model = self.models[position]
            if tried or empty:
                emit(Notice(f"{model.name} answers instead", "warning"))
                shown.restart(f"{model.name} answers instead")
            self._tell_left_out(model, request, emit)
            try:
                response = await model.respond(told_form(model, request), shown)
            except (ModelError, CredentialsError) as error:
                # A request may exceed one account's tokens per minute, but not those of the next model.
                if isinstance(error, ContextOverflowError) and (
                    error.status != 429 or len(tried) == last
                ):
                    raise
                tried.append((model, error))
                self._rest(position, error)
                emit(Notice(str(error), "warning"))
                continue
            if (
                response.message.text.strip()
                or response.message.tool_calls
                or response.stop != "end"
            ):
                if empty is None:
                    return response
                return _beside(response, empty)
            if empty is None:
                empty = response
            else:
                empty = _beside(response, empty)
            emit(Notice(f"{model.name} gave an empty answer", "warning"))
        if empty is not None:
            return empty
        raise _nobody_answered(tried)

    def _tell_left_out(self, model: Model, request: ModelRequest, emit: Emit) -> None:
        """Emit one notice about the provider tools that a model without a provider cannot run."""
        if (
            not request.provider_tools
            or model.name in self._told
            or runs_provider_tools(model)
        ):
            return
        self._told.add(model.name)
        names = ", ".join(tool.name for tool in request.provider_tools)
        emit(
            Notice(
                f"{model.name}: {names} is left out: it has no provider that runs tools",
                "warning",
            )
        )

    def search_problem(self, strategy: str, deferred: Sequence[ToolDefinition]) -> str:
        """Return the first problem of any model, because any of them may answer and must be able to find tools."""
        problems = (search_problem(model, strategy, deferred) for model in self.models)
        return next((problem for problem in problems if problem), "")

    def search_cost(self) -> float | None:
        """Return the highest known cost, because any of the models may answer; None if none is known."""
        costs = (search_cost(model) for model in self.models)
        return max((cost for cost in costs if cost is not None), default=None)

    async def download(self, file: FileId) -> Document | None:
        """Return a file that the provider of one of the models stores; None if none does."""
        for model in self.models:
            if (found := await download(model, file)) is not None:
                return found
        return None

    def price_of(self, usage: Usage) -> float | None:
        """Return the highest price, because any of the models may have answered; None if one is unknown."""
        prices = [price_of(model, usage) for model in self.models]
        known = [price for price in prices if price is not None]
        if len(known) == len(prices):
            return max(known)
        return None

    def tool_limits(self) -> ToolLimits:
        """Return the smallest known limits, because the tools must fit every model that may answer."""
        limits = [tool_limits(model) for model in self.models]
        return ToolLimits(
            min(
                (limit.max_tools for limit in limits if limit.max_tools is not None),
                default=None,
            ),
            min(
                (
                    limit.window_tokens
                    for limit in limits
                    if limit.window_tokens is not None
                ),
                default=None,
            ),
            all(limit.joining for limit in limits),
        )

    def is_small(self, settings: ModelSettings) -> bool:
        """Return whether the first model, which normally answers, is small."""
        return is_small(self.models[0], settings)

    def runs_provider_tools(self) -> bool:
        """Return whether any of the models handles provider tools; each one reports unsupported tools itself."""
        return any(map(runs_provider_tools, self.models))

    def takes_output(self) -> bool:
        """Return True: each model chooses its own mode of structured output."""
        return True

    async def look_up(self) -> None:
        """Query the servers of all models."""
        await asyncio.gather(*map(look_up, self.models))

    def _order(self) -> list[int]:
        """Return the positions of the models in the order to try; models that failed recently come last."""
        now = self._clock()
        return sorted(
            range(len(self.models)),
            key=lambda place: (self._rests_until.get(place, now) > now, place),
        )

    def _rest(self, position: int, error: Exception) -> None:
        told = None
        if isinstance(error, ModelError):
            told = error.retry_after_seconds
        self._rests_until[position] = self._clock() + (
            told if told is not None else REST_SECONDS
        )

    async def aclose(self) -> None:
        """Close the owned models."""
        for model in self._owned:
            await model.aclose()


class UnusableModel:
    """A placeholder for a model that could not be created: each request fails with the reason."""

    def __init__(self, name: str, error: CredentialsError) -> None:
        self.name = name
        self.error = error

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:  # noqa: ARG002
        """Raise the reason why the model could not be created."""
        raise self.error

    def search_problem(self, strategy: str, deferred: Sequence[ToolDefinition]) -> str:  # noqa: ARG002
        """Return "": this model never answers, so the others of its chain decide."""
        return ""

    def price_of(self, usage: Usage) -> float:  # noqa: ARG002
        """Return 0.0: this model is never used."""
        return 0.0

    async def aclose(self) -> None:
        """Do nothing; the placeholder holds no resources."""


def _beside(response: ModelResponse, empty: ModelResponse) -> ModelResponse:
    """Return the response with the usage of an earlier empty answer added, which costs money, too."""
    known = response.dollars is not None and empty.dollars is not None
    if known:
        dollars = (response.dollars or 0.0) + (empty.dollars or 0.0)
    else:
        dollars = None
    return replace(response, usage=response.usage + empty.usage, dollars=dollars)


def _nobody_answered(
    tried: Sequence[tuple[Model, Exception]],
) -> ModelError | CredentialsError:
    if len(tried) == 1 and isinstance(tried[0][1], ModelError | CredentialsError):
        return tried[0][1]
    reasons = "; ".join(
        f"{number}. {error}" for number, (_, error) in enumerate(tried, 1)
    )
    failed = [error for _, error in tried if isinstance(error, ModelError)]
    last = None
    if failed:
        last = failed[-1]
    waits = [
        error.retry_after_seconds
        for error in failed
        if error.retry_after_seconds is not None
    ]
    return ModelError(
        f"none of {len(tried)} models answered: {reasons}",
        provider=last.provider if last else "",
        status=last.status if last else None,
        retryable=any(error.retryable for error in failed),
        retry_after_seconds=min(waits, default=None),
    )
