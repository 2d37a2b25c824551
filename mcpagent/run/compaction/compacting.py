"""Compact a conversation when it no longer fits its model, or when the caller requests it.

The history stays complete: it gets a `Compacted` part, and the messages to send are computed from these parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mcpagent.errors import ModelError
from mcpagent.history.conversation import Conversation
from mcpagent.history.sent_messages import compacted_in
from mcpagent.history.token_estimates import (
    DEFINITION_SHARE,
    message_tokens,
    text_tokens,
)
from mcpagent.models.base import ModelRequest, tool_limits
from mcpagent.run.agent_run import AgentRun
from mcpagent.run.compaction.cutting import (
    HEAD_TOKENS,
    SUMMARY_SHARE,
    CuttableRange,
    shortest,
    tail_of,
    with_short_answers_to_come,
    with_short_results,
)
from mcpagent.run.compaction.measuring import Measure, measured
from mcpagent.run.compaction.summarising import (
    Summary,
    SummaryRequest,
    answer_tokens,
    summarised,
)
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import ConversationCompacted, Notice
from mcpagent.values.messages import (
    FILE_PARTS,
    Compacted,
    Message,
    Pinned,
    Text,
    ToolResult,
    ToolsChanged,
    ToolsShown,
)

LEAST_GAIN = 0.1
"""Minimum share of a request that a compaction must save. With less, another one would soon follow, and each one
invalidates the cache.
"""

REFUSED_SHARE = 0.9
"""If the window is unknown or wrong: the assumed window, as a share of the refused request."""

BRIEF_LENGTH = 1_000
"""Maximum number of characters of a result that is reduced to one or two lines with its ID."""

LEAST_SUMMARY, MOST_SUMMARY = 60, 6_000
"""Minimum and maximum number of tokens of a summary."""


@dataclass(frozen=True, slots=True)
class WindowFit:
    """The space in the context window, in estimated tokens.

    `now` is the size of the next request, `fixed` the part of it that is not a removable message. `limit` is the size
    above which it is compacted, `aim` the target size; both are None if the window is unknown.
    """

    measure: Measure
    now: int
    fixed: int
    window: int | None
    limit: int | None
    aim: int | None

    @property
    def expected(self) -> int:
        """The number of tokens that the provider will count for the next request."""
        return self.measure.counted_for(self.now)

    @property
    def room(self) -> int | None:
        """Number of tokens for messages after a compaction, at least half of the window's free part; None if the window
        is unknown.
        """
        if self.limit is None or self.aim is None:
            return None
        return max(self.aim - self.fixed, (self.limit - self.fixed) // 2, 0)


def fit_of(run: AgentRun, *, refused: bool = False) -> WindowFit:
    """Measure the current conversation; `refused`: its last request was too long."""
    conversation = run.conversation
    measure = measured(conversation, run.model.name, lambda names: _fixed(run, names))
    always = _fixed(run, [tool.name for tool in run.tools.offer()])
    now = always + conversation.sent_tokens()
    options = run.compaction
    if options is None:
        return WindowFit(measure, now, always, None, None, None)
    window = options.window_tokens or tool_limits(run.model).window_tokens
    learned = conversation.windows.get(run.model.name)
    if learned is not None:
        window = min(window or learned, learned)
    if refused:
        taken = int(measure.counted_for(now) * REFUSED_SHARE)
        window = min(window or taken, taken)
    if conversation.has_unanswered_prompt:
        always += message_tokens(conversation.messages[-1])
    if window is None:
        return WindowFit(measure, now, always, None, None, None)
    limit, aim = (
        measure.estimate_for(share * window) for share in (options.at, options.to)
    )
    return WindowFit(measure, now, always, window, limit, aim)


def estimated_request(run: AgentRun) -> int:
    """Return the estimated tokens of the next request."""
    return (
        _fixed(run, [tool.name for tool in run.tools.offer()])
        + run.conversation.sent_tokens()
    )


def _fixed(run: AgentRun, names: Sequence[str]) -> int:
    """Return the estimated tokens of the system prompt and of the definitions of tools with these names."""
    return text_tokens(run.conversation.system) + int(
        run.tools.tokens(names) * DEFINITION_SHARE
    )


async def make_room(run: AgentRun, *, refused: bool = False) -> bool:
    """Compact the conversation if its next request would be too long; return whether it did, which is also reported.

    Raises the errors of `summarised`. `refused`: the request was sent and was too long.
    """
    if run.compaction is None:
        return False
    fit = fit_of(run, refused=refused)
    if refused and fit.window is not None:
        run.conversation.windows[run.model.name] = fit.window
    if fit.limit is None or (fit.now <= fit.limit and not refused):
        return False
    live = _live(run)
    most = fit.now * (1 - LEAST_GAIN) - (fit.now - run.conversation.sent_tokens())
    try:
        made = await _compacted(run, live, fit, most)
    except ModelError as error:
        if refused or fit.window is None or fit.expected > fit.window:
            raise
        run.emit(Notice(f"not compacted: {safe_line(str(error), 200)}", "warning"))
        return False
    if made is None:
        return False
    part, summary = made
    part = await _set_aside(run, live, part)
    run.large.offer_readers(run.tools)
    _say(run, live, fit, part, summary)
    run.conversation.deliver()
    return True


async def _set_aside(run: AgentRun, live: CuttableRange, part: Compacted) -> Compacted:
    """Offload the results that the compaction shortens, and add their IDs, so that the model can read the rest."""
    known = {}
    if live.before is not None:
        known = {result.call_id: result for result in live.before.shortened}
    whole = {
        result.call_id: result
        for message in live.messages
        for result in message.tool_results
    }
    shortened: list[ToolResult] = []
    for short in part.shortened:
        result = whole.get(short.call_id, short)
        if short == known.get(short.call_id):
            shortened.append(short)
            continue
        is_brief = len(short.text) < BRIEF_LENGTH
        aside = await run.large.set_aside(
            result, tokens=None if is_brief else 1, force=is_brief
        )
        is_shorter = aside is not result and message_tokens(
            Message("tool", (aside,))
        ) <= message_tokens(Message("tool", (short,)))
        shortened.append(
            aside if is_shorter or (aside is not result and not is_brief) else short
        )
    return replace(part, shortened=tuple(shortened))


async def compact_now(run: AgentRun, keep: str = "") -> ConversationCompacted | None:
    """Summarise all messages before the last prompt, even if they fit; return None if there is nothing to summarise.

    The compaction is queued for the next prompt. `keep` describes what the summary must preserve.
    """
    conversation, live = run.conversation, _live(run)
    if conversation.is_just_compacted:
        return None
    fit = fit_of(run)
    if live.asked is not None:
        asked = live.asked
    else:
        asked = live.end
    if fit.room is not None:
        room = fit.room
    else:
        room = 2 * conversation.sent_tokens()
    tail = tail_of(live, min(room // 2, room - _summary_tokens(room)))
    if tail > asked:
        cut = tail
    else:
        cut = max(asked, live.begin)
    if cut <= live.begin:
        return None
    made = await _cut_at(run, live, fit, cut, room, keep)
    return _say(run, live, fit, *made)


def _live(run: AgentRun) -> CuttableRange:
    conversation = run.conversation
    messages = conversation.messages
    end = len(messages) - conversation.has_unanswered_prompt
    return CuttableRange.of(messages, end, conversation.compacted_at, _asked(run, end))


def _asked(run: AgentRun, end: int) -> int | None:
    """Return the index of the current or last prompt; None if it comes after `end`."""
    if run.conversation.has_unanswered_prompt:
        return None
    messages = run.conversation.messages
    # First search by text: a resumed run begins after its prompt, where a user message can be a note instead of a
    # prompt.
    backwards = _prompts(messages, range(end - 1, -1, -1))
    said = next(
        (at for at in backwards if messages[at].text == run.context.prompt), None
    )
    if said is not None:
        return said
    return next(_prompts(messages, range(run.begins_at, end)), None)


def _prompts(messages: Sequence[Message], places: range) -> Iterator[int]:
    for at in places:
        message = messages[at]
        kinds = {type(part) for part in message.parts}
        if (
            message.role == "user"
            and kinds & {Text, *FILE_PARTS}
            and not kinds & {ToolsChanged, ToolsShown, Compacted}
        ):
            yield at


async def _compacted(
    run: AgentRun, live: CuttableRange, fit: WindowFit, most: float
) -> tuple[Compacted, Summary] | None:
    """Return a compaction that reduces the messages to at most `most` tokens, with its summary; None if that is
    impossible.
    """
    room, whole = fit.room or 0, live
    behind = 0
    if run.conversation.has_unanswered_prompt:
        behind = message_tokens(run.conversation.messages[-1])
    most -= behind
    enough = min((room + (fit.limit or 0) - fit.fixed) // 2, most)
    new = with_short_answers_to_come(
        live, room // 2, int(min((fit.limit or 0) - fit.fixed, most))
    )
    if new is not None:
        return new, Summary("")
    short = with_short_results(live, room // 2)
    if short != live.before and live.tokens(short) <= enough:
        return short, Summary("")
    stays = sum(message_tokens(live.messages[at]) for at in live.staying(live.end))
    cut = tail_of(live, room - _summary_tokens(room) - HEAD_TOKENS - stays)
    if cut == live.begin:
        live = live.released()
    if cut > live.begin or live.before is not whole.before:
        placed = "x" * 4 * _summary_tokens(room)
        if live.tokens(shortest(live, cut, placed, room)) <= most:
            return await _cut_at(run, live, fit, cut, room)
    # No message precedes the steps that have to stay, so these themselves are too long.
    live = whole
    shortened = shortest(live, live.begin, live.summary, room)
    if shortened != live.before and live.tokens(shortened) <= most:
        return shortened, Summary("")
    return None


async def _cut_at(
    run: AgentRun,
    live: CuttableRange,
    fit: WindowFit,
    cut: int,
    room: int,
    keep: str = "",
) -> tuple[Compacted, Summary]:
    tokens = _summary_tokens(room)
    conversation = run.conversation
    sent = tuple(conversation.sent)
    behind = (
        sum(_is_sent(live.messages[at]) for at in range(cut, live.end))
        + conversation.has_unanswered_prompt
    )
    before = sent[: len(sent) - behind]
    as_sent = _request(run, before)
    size = fit.now - conversation.sent_tokens() + sum(map(message_tokens, before)) + 300
    takes = None
    if fit.window is not None:
        takes = fit.measure.estimate_for(fit.window)
    is_fitting = takes is None or size + 2 * tokens <= takes
    answer = answer_tokens(tokens, run.settings)
    if takes is not None:  # the rest is for reasoning
        answer = max(min(answer, takes - size), 2 * tokens)
    if before and compacted_in(before[0]) is not None:
        told = before[1:]
    else:
        told = before
    piece = (takes if takes is not None else size) // 3
    asked = SummaryRequest(
        as_sent if is_fitting else None,
        live.summary,
        told,
        tokens=tokens,
        answer=answer,
        piece=piece,
        keep=keep,
    )
    summary = await summarised(asked, run)
    part = shortest(live, cut, summary.text, room, is_cut=not summary.text)
    return part, summary


def _is_sent(message: Message) -> bool:
    return any(not isinstance(part, Compacted | Pinned) for part in message.parts)


def _summary_tokens(room: int) -> int:
    return min(max(int(room * SUMMARY_SHARE), LEAST_SUMMARY), MOST_SUMMARY)


def _request(run: AgentRun, messages: tuple[Message, ...]) -> ModelRequest:
    """Return a request with these messages and otherwise like the conversation's own."""
    tools = run.tools
    return ModelRequest(
        system=run.conversation.system,
        messages=messages,
        tools=tuple(tool.definition for tool in tools.offer()),
        deferred_tools=tools.left_to_provider(),
        settings=run.settings,
        search_strategy=tools.provider_strategy,
        provider_tools=run.provider_tools,
    )


def _say(
    run: AgentRun,
    live: CuttableRange,
    fit: WindowFit,
    part: Compacted,
    summary: Summary,
) -> ConversationCompacted:
    """Add the compaction to the conversation, and report it."""
    conversation = run.conversation
    taken = live.tokens(part) + sum(
        message_tokens(message) for message in conversation.messages[live.end :]
    )
    offered = [tool.name for tool in run.tools.offer()]
    after = fit.measure.counted_for(_fixed(run, offered) + taken)
    if (
        part.leaves_out
        and (words := run.tools.still_there())
        and Text(words) not in conversation.announced
    ):
        conversation.announce(words)
    conversation.compact(part)
    event = ConversationCompacted(
        tokens_before=fit.expected,
        tokens_after=after,
        summarised=live.end - part.kept - len(part.pinned) if part.leaves_out else 0,
        shortened=len(part.shortened),
        without_summary=summary.why if part.is_cut else "",
        usage=summary.usage,
        window_tokens=fit.window,
    )
    run.emit(event)
    return event


def sent_now(conversation: Conversation) -> Conversation:
    """Return a copy of the conversation with queued notes appended, as for its next prompt."""
    copy = conversation.first()
    copy.deliver()
    return copy
