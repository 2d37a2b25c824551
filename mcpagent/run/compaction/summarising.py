"""Request the summary of a part of a conversation from its model, with the same prefix as its other requests.

So the provider has most of it in its cache. A part that is too long for one request is sent as text, piece by piece,
each with the summary of the previous ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mcpagent.errors import ContextOverflowError, ModelError
from mcpagent.history.intake.file_descriptions import details_of, file_kind
from mcpagent.history.token_estimates import json_sent, text_tokens
from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.models.model_settings import ModelSettings
from mcpagent.prompt.builder import piece_words, summary_note
from mcpagent.run.agent_run import AgentRun
from mcpagent.run.run_parts import StepState, ToolOffer
from mcpagent.utilities.text.for_model import for_model
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import (
    AnswerRestarted,
    Emit,
    Event,
    ProviderCallFinished,
    ProviderCallStarted,
    TextDelta,
    ThinkingDelta,
    ToolsSearched,
)
from mcpagent.values.messages import (
    Audio,
    Document,
    FileId,
    Image,
    ImageUrl,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    user_message,
)

MOST_PIECES = 12
"""Maximum number of pieces of a conversation that is sent as text; in a longer conversation, the parts are
shortened.
"""

LEAST_PIECE = 400
"""Minimum tokens of a piece; a refused piece of this size is not split further."""

LEAST_ANSWER, LEVEL_TOKENS = 1_000, 4_000
"""Minimum output tokens of an answer with a short summary, since many models reason before they write; and tokens for
reasoning at a set level.
"""

_PER_TOKEN = 3
"""Assumed characters per token of a conversation that is sent as text: lower than usual, so that a piece certainly
fits.
"""

_OF_THE_ANSWER = (
    TextDelta,
    ThinkingDelta,
    AnswerRestarted,
    ToolsSearched,
    ProviderCallStarted,
    ProviderCallFinished,
)


@dataclass(frozen=True, slots=True)
class Summary:
    """The text of a summary; if it is "", `why` is the reason in one printable line. `usage` is that of the request."""

    text: str
    why: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """The wanted summary: at most `tokens` long, in an answer of at most `answer` tokens.

    `as_sent` is a request like the one that the beginning of the conversation was sent with; None if it would be too
    long. `before` is the summary of the messages before `messages`. `piece` is the number of tokens of the conversation
    in one request.
    """

    as_sent: ModelRequest | None
    before: str
    messages: Sequence[Message]
    tokens: int
    answer: int
    piece: int
    keep: str = ""


async def summarised(asked: SummaryRequest, run: AgentRun) -> Summary:
    """Return the summary, by the first form of request that works.

    Raises errors that another form cannot avoid: `LimitError`, `CredentialsError`, and a temporary `ModelError`.
    """
    usage = Usage()
    note = summary_note(asked.keep, words=max(asked.tokens * 2 // 3, 60))
    why = "the model gave none"

    def count(response: ModelResponse) -> str:
        nonlocal usage
        usage += response.usage
        return cleaned(response.message.text, asked.tokens)

    if asked.as_sent is not None:
        request = replace(
            asked.as_sent,
            messages=(*asked.as_sent.messages, user_message(note)),
            tool_choice="none",
        )
        try:
            if text := count(await _ask(_bounded(request, asked.answer), run)):
                return Summary(text, usage=usage)
        except ModelError as error:
            why = _why(error)
    try:
        return Summary(await _in_pieces(asked, note, run, count), why, usage)
    except ModelError as error:
        return Summary("", _why(error), usage)


def _why(error: ModelError) -> str:
    """Return the reason for a missing summary. Raises the error again if it may be temporary."""
    if error.retryable:
        raise error
    return safe_line(str(error), 200)


def cleaned(text: str, tokens: int) -> str:
    """Return a model's summary in a form that is safe in a request, of about `tokens` tokens at most, in any script."""
    text = text.strip()[: tokens * 5]
    size, most = text_tokens(text), tokens * 1.25
    return for_model(
        text if size <= most else text[: int(len(text) * most / size)]
    ).strip()


def answer_tokens(tokens: int, settings: ModelSettings) -> int:
    """Return the output tokens for a summary of `tokens` tokens, including reasoning before it."""
    level = settings.thinking
    if isinstance(level, int):
        thoughts = level
    elif level in (None, "off"):
        thoughts = 0
    else:
        thoughts = LEVEL_TOKENS
    return max(2 * tokens, LEAST_ANSWER) + thoughts


def _bounded(request: ModelRequest, most: int) -> ModelRequest:
    """Return the request with at most this many output tokens."""
    settings = request.settings
    if settings.max_output_tokens is None or settings.max_output_tokens > most:
        settings = replace(settings, max_output_tokens=most)
    return replace(request, settings=settings.without("tool_choice"))


async def _ask(request: ModelRequest, run: AgentRun) -> ModelResponse:
    """Send a request for the run, which counts for its limits. The answer is not reported as an answer of the run."""
    request = replace(request, purpose="summary")
    tokens = sum(run.tools.tokens([tool.name]) for tool in request.tools)
    offer = ToolOffer(offered_tokens=tokens, known_tokens=tokens)
    step = StepState(lambda: (request, offer), is_summary=True)
    async with run.pipeline.around_step(run, step):
        if not step.is_settled:
            async with run.sending(step, _beside_the_answer(run.emit)) as under_way:
                under_way.task = asyncio.ensure_future(
                    run.model.respond(request, under_way)
                )
    assert step.response is not None
    return step.response


def _beside_the_answer(emit: Emit) -> Emit:
    def listen(event: Event) -> None:
        if not isinstance(event, _OF_THE_ANSWER):
            emit(event)

    return listen


async def _in_pieces(
    asked: SummaryRequest,
    note: str,
    run: AgentRun,
    count: Callable[[ModelResponse], str],
) -> str:
    """Summarise the conversation as text, piece by piece. Raises `ModelError` if the model returns no summary."""
    settings = replace(run.settings, tool_choice=None)
    piece, summary = max(asked.piece, LEAST_PIECE), asked.before
    left = transcript(asked.messages, MOST_PIECES * piece * _PER_TOKEN)
    while left:
        size = piece * _PER_TOKEN
        request = ModelRequest(
            "",
            (user_message(piece_words(summary, left[:size], note)),),
            settings=settings,
        )
        try:
            said = count(await _ask(_bounded(request, asked.answer), run))
        except ContextOverflowError:
            if piece // 2 < LEAST_PIECE:
                raise
            piece //= 2
            left = left[: MOST_PIECES * piece * _PER_TOKEN]
            continue
        if not said:
            return ""
        summary, left = said, left[size:]
    return summary


def transcript(messages: Sequence[Message], most: int) -> str:
    """Return the messages as text of at most `most` characters; each part is shortened until all fit."""
    text = ""
    for length in (4_000, 1_000, 250, 60):
        text = "\n".join(
            line for message in messages for line in _lines(message, length)
        )
        if len(text) <= most:
            return text
    if most > 0:
        return f"{text[: most // 2]}\n[...]\n{text[-(most // 2) :]}"
    return ""


def _lines(message: Message, length: int) -> list[str]:
    who = "assistant"
    if message.role == "user":
        who = "user"
    lines: list[str] = []
    for part in message.parts:
        match part:
            case Text(text=text):
                lines.append(f"{who}: {_cut(text, length)}")
            case Image() | Document() | Audio() | ImageUrl() | FileId():
                lines.append(f"{who}: [{file_kind(part)}: {details_of(part)}]")
            case ToolCall(name=name, arguments=arguments):
                written = json_sent(arguments)
                lines.append(f"call of {safe_line(name, 64)}: {_cut(written, length)}")
            case ToolResult(name=name, text=text, error=error):
                what = f"result of {safe_line(name, 64)}" + (
                    f" ({error})" if error else ""
                )
                lines.append(f"{what}: {_cut(text, length)}")
            case _:
                pass
    return lines


def _cut(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    return f"{text[:length]} [...]"
