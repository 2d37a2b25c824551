"""The content of an exported conversation: prompts, the steps that answered each, and the cost of every step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from mcpagent.errors import InputError
from mcpagent.history.conversation import CANCELLED, INNER, UNKNOWN, CallProgress
from mcpagent.journal.sessions.loaded_session import LoadedSession
from mcpagent.journal.sessions.run_ended import RunEnded, ended_from_json
from mcpagent.journal.sessions.saved_state import SavedState, progress_from_json
from mcpagent.models.provider_tools.provider_calls import (
    ProviderResult,
    calls_to_come,
    ran_at,
)
from mcpagent.prompt.builder import is_own_note
from mcpagent.utilities.text.safe_text import safe_line, without_halves
from mcpagent.utilities.text.secrets import without_secrets
from mcpagent.values.messages import (
    Audio,
    Compacted,
    Document,
    Image,
    Message,
    Part,
    Spent,
    Step,
    Text,
    ToolCall,
    ToolErrorKind,
    ToolKey,
    ToolResult,
    ToolsChanged,
    ToolsShown,
    Usage,
)

_T = TypeVar("_T")

Outcome: TypeAlias = Literal["done", "failed", "denied", "unknown", "waiting"]
"""The outcome of a call, for styling; the text next to it has the details."""

_WORDS: Mapping[ToolErrorKind, str] = {
    "unknown_tool": "unknown tool",
    "not_loaded": "not loaded",
    "invalid_arguments": "invalid arguments",
    "denied": "denied",
    "timeout": "timed out",
    "failed": "failed",
    "cancelled": "cancelled",
    "server_down": "server down",
    "repeated": "repeated",
}

_NEWS = (
    "A server has connected",
    "A server is still connecting",
    "A server cannot be used",
    'The server "',
    "More tools can be used",
    "Your tools have changed",
    "You take ",
    'The call to "',
    "The calls to ",
    "You made the same call again",
    "You have used all ",
)
"""Beginnings of mcpagent's notes to the model about tools and calls, for histories that do not record the change
itself.
"""


BY_PROVIDER = "run by the provider"
"""Beginning of the state text of a call that the model's provider ran."""


class State(NamedTuple):
    """The outcome of a call, and a text about it; "" if the call simply returned a result."""

    outcome: Outcome
    words: str = ""


@dataclass(frozen=True, slots=True)
class CalledTool:
    """A call with its result (None while it is missing), and with the tool changes that it caused."""

    call: ToolCall
    result: ToolResult | None
    state: State
    changes: tuple[ToolsChanged | ToolsShown, ...] = ()


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """The tools that an answer could call, recorded if they differ from those of the previous answer."""

    names: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """A step: an answer of the model. `step` is None in imported histories."""

    number: int
    model: str
    step: Step | None
    offered: OfferedTools | None
    parts: tuple[Part | CalledTool, ...]

    @property
    def has_calls(self) -> bool:
        """Return whether the answer has calls, so that it is not the final one."""
        return any(isinstance(part, CalledTool) for part in self.parts)


@dataclass(frozen=True, slots=True)
class NoticeToModel:
    """A message to the model by mcpagent, not by a person."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """A prompt and its steps. Turn 0 has no prompt: it precedes the first one."""

    number: int
    question: tuple[Part, ...] = ()
    entries: tuple[Answered | NoticeToModel, ...] = ()
    run: str = ""
    """The ID of the last run for this prompt."""

    @property
    def title(self) -> str:
        """The beginning of the prompt, in one printable line."""
        words = " ".join(
            part.text[:1_000] for part in self.question if isinstance(part, Text)
        )
        return safe_line(words, 90).strip() or "(an image)"


@dataclass(frozen=True, slots=True)
class Transcript:
    """A conversation without secrets. `at` is the time of the export, `ending` a text about pending work.

    `standing` is the session's state without its messages; `ends` has the ends of runs by ID.
    """

    session: LoadedSession
    standing: SavedState
    turns: tuple[Turn, ...]
    at: datetime
    ending: str = ""
    ends: Mapping[str, RunEnded] = field(default_factory=dict[str, RunEnded])

    @classmethod
    def of(cls, session: LoadedSession, now: float) -> Transcript:
        """Create the transcript of a session. Raises `InputError` for values that no version of mcpagent wrote."""
        try:
            standing = SavedState.from_json(session.values)
            progress = {
                call: progress_from_json(data) for call, data in session.calls.items()
            }
            ends = {
                run: ended_from_json(run, data) for run, data in session.ends.items()
            }
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f'export: session "{safe_line(session.info.id, 60)}" cannot be read'
            raise InputError(
                f"{what}: {type(error).__name__} {safe_line(str(error), 120)}"
            ) from None
        clean = _hidden(replace(session, values={}, calls={}, ends={}))
        standing = _hidden(replace(standing, state={}))
        progress = {_hidden(call): _hidden(known) for call, known in progress.items()}
        turns = tuple(_turns(clean, standing, progress))
        last = "assistant"
        if clean.messages:
            last = clean.messages[-1].role
        ending = ""
        if last != "assistant":
            ending = "This question has no answer yet."
        at = datetime.fromtimestamp(now, UTC)
        return cls(clean, standing, turns, at, ending, ends)

    @property
    def title(self) -> str:
        """The title as one printable line."""
        first = next((turn.title for turn in self.turns if turn.number), "")
        return (
            safe_line(self.session.info.title, 120).strip() or first or "Conversation"
        )

    @property
    def questions(self) -> list[Turn]:
        """The turns that have a prompt."""
        return [turn for turn in self.turns if turn.number]

    @property
    def answers(self) -> Iterator[Answered]:
        """All answers of the model, in order."""
        return (
            entry
            for turn in self.turns
            for entry in turn.entries
            if isinstance(entry, Answered)
        )

    @property
    def calls(self) -> list[CalledTool]:
        """All calls, in order."""
        return [
            part
            for answer in self.answers
            for part in answer.parts
            if isinstance(part, CalledTool)
        ]

    @property
    def spent(self) -> Spent:
        """The usage of all runs, including rewound ones; for an imported history, the sum of its steps."""
        run, steps = self.standing.run, self.session.steps
        spent = self.standing.spent + (run.spent if run is not None else Spent())
        if spent.usage.requests or not steps:
            return spent
        usage = sum((step.usage for step in steps), Usage())
        known = all(step.dollars is not None for step in steps)
        return Spent(usage, sum(step.dollars or 0.0 for step in steps), known)

    def facts(self) -> dict[str, str]:
        """Return time, folder, model and cost as texts by name; unknown ones are omitted."""
        info, calls = self.session.info, self.calls
        models = dict.fromkeys(answer.model for answer in self.answers if answer.model)
        wrong = sum(
            called.state.outcome in ("failed", "denied", "unknown") for called in calls
        )
        seconds = sum(step.seconds for step in self.session.steps)
        in_tools = sum(
            called.result.seconds for called in calls if called.result is not None
        )
        usage = self.spent.usage
        calls_made = ""
        if calls:
            calls_made = f"{len(calls):,}"
        if wrong:
            calls_made += f", {wrong:,} of them without a good end"
        found = {
            "begun": moment(info.created),
            "last used": moment(info.updated),
            "folder": safe_line(info.folder, 300),
            "model": ", ".join(safe_line(name, 100) for name in models)
            or safe_line(info.model, 100),
            "servers": ", ".join(
                safe_line(name, 64) for name in self.standing.told.descriptions
            ),
            "session": safe_line(info.id, 200),
            "calls": calls_made,
            "tokens": figures(usage) if usage.requests or usage.input_tokens else "",
            "cost": money_of(self.spent.dollars, known=self.spent.cost_known)
            if usage.requests
            else "",
            "time": f"{seconds:,.1f} s of the model, {in_tools:,.1f} s of tools"
            if seconds or in_tools
            else "",
        }
        return {name: words for name, words in found.items() if words}


def moment(seconds: float) -> str:
    """Return a time in UTC as text; "" if it is missing."""
    if seconds > 0:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
    return ""


def figures(usage: Usage) -> str:
    """Return the token counts as text."""
    cached = ""
    if usage.cache_read_tokens:
        cached = f" ({usage.cache_read_tokens:,} cached)"
    return f"{usage.input_tokens:,} in{cached}, {usage.output_tokens:,} out"


def money_of(dollars: float, *, known: bool) -> str:
    """Return US dollars with four decimals; if some prices are unknown, the text states it."""
    if known:
        return f"${dollars:,.4f}"
    if dollars:
        return f"${dollars:,.4f} and what is not known"
    return "not known"


def step_figures(step: Step) -> list[str]:
    """Return the tokens, cost and seconds of an answer as texts."""
    if step.dollars is None:
        cost = "cost not known"
    else:
        cost = money_of(step.dollars, known=True)
    return [figures(step.usage), cost, f"{step.seconds:,.1f} s"]


def _turns(
    session: LoadedSession, standing: SavedState, progress: Mapping[str, CallProgress]
) -> Iterator[Turn]:
    steps = {step.place: step for step in session.steps}
    pending = {
        call.call_id.rpartition(INNER)[0]: call.kind for call in standing.pending
    }  # its state is that of the program's call
    pending |= {call.call_id: call.kind for call in standing.pending}
    number, question, entries = 0, tuple[Part, ...](), list[Answered | NoticeToModel]()
    answers, before, run = 0, tuple[str, ...](), ""
    waiting = calls_to_come(None)
    for place, message in enumerate(session.messages):
        if message.role == "user":
            if is_news(session.messages, place):
                entries.append(NoticeToModel(message.parts))
                continue
            if number or entries:
                yield Turn(number, question, tuple(entries), run)
            number, question, entries = number + 1, message.parts, []
        elif message.role == "assistant":
            answers += 1
            step = steps.get(place)
            following = session.messages[place + 1 : place + 2]
            results = (
                following[0].parts if following and following[0].role == "tool" else ()
            )
            called = _called(message, results, progress, pending)
            there = {
                at: _called_there(ran)
                for at, ran in ran_at(message.parts, waiting).items()
            }
            waiting = calls_to_come(message)
            parts = tuple(
                called.pop(0) if isinstance(part, ToolCall) else there.get(at, part)
                for at, part in enumerate(message.parts)
            )
            sources = (
                f"source: {safe_line(one.title, 120)} {safe_line(one.url, 300)}"
                for one in message.citations
            )
            parts += tuple(Text(" ".join(line.split())) for line in sources)
            if message.origin is not None:
                model = message.origin.model
            else:
                model = ""
            if step is not None:
                model = step.model
            if step is not None:
                offered = _offered(step.offered, before)
            else:
                offered = None
            if step is not None:
                before = step.offered
            entries.append(Answered(answers, model, step, offered, parts))
        run = "".join(session.runs[place : place + 1])
    if number or entries:
        yield Turn(number, question, tuple(entries), run)


def calls_run_there(message: Message) -> list[CalledTool]:
    """Return the calls of an answer that the model's provider ran."""
    return [
        _called_there(ran)
        for ran in ran_at(message.parts, calls_to_come(None)).values()
    ]


def _called_there(ran: ProviderResult) -> CalledTool:
    """Return a call that the model's provider ran, with its outcome."""
    if ran.call.server:
        name = f"{ran.call.server}.{ran.call.name}"
    else:
        name = ran.call.name
    call = ToolCall(ran.call.id, name, dict(ran.call.input))
    if ran.outcome is None:
        return CalledTool(
            call, None, State("unknown", f"{BY_PROVIDER}, without a result")
        )
    result = ToolResult(
        call.id,
        name,
        (Text(ran.text or ran.outcome),),
        "failed" if ran.failed else None,
    )
    return CalledTool(
        call, result, State("failed" if ran.failed else "done", BY_PROVIDER)
    )


def compacted_words(part: Compacted) -> str:
    """Return a text about which earlier messages the model receives from here on."""
    parts = [
        "the messages before these were summarised"
        if part.summary
        else "the messages before these were left out"
    ]
    if not part.leaves_out:
        parts = []
    if part.shortened:
        parts += [f"{len(part.shortened):,} results were shortened"]
    told = "; ".join(parts) or "nothing was left out"
    return f"For the model, from here on: the last {part.kept:,} messages stay; {told}"


def is_news(messages: Sequence[Message], place: int) -> bool:
    """Return whether mcpagent wrote this message: it follows results or precedes a prompt, and begins with a known
    text.
    """
    message, before, after = (
        messages[place],
        messages[max(place - 1, 0)],
        messages[place + 1 : place + 2],
    )
    if any(
        isinstance(part, ToolsChanged | ToolsShown | Compacted)
        for part in message.parts
    ):
        return True
    if place and is_own_note(message.text):
        return True
    has_place = before.role == "tool" or (bool(after) and after[0].role == "user")
    return has_place and message.text.startswith(_NEWS)


def _offered(names: tuple[str, ...], before: tuple[str, ...]) -> OfferedTools | None:
    if names == before:
        return None
    had, has = frozenset(before), frozenset(names)
    added = tuple(name for name in names if name not in had)
    return OfferedTools(names, added, tuple(name for name in before if name not in has))


def _called(
    message: Message,
    results: tuple[Part, ...],
    progress: Mapping[str, CallProgress],
    pending: Mapping[str, str],
) -> list[CalledTool]:
    """Return the calls of an answer in order, each with its outcome."""
    by_call: dict[str, tuple[ToolResult | None, list[ToolsChanged | ToolsShown]]] = {}
    known = [
        part
        for call in message.tool_calls
        if call.id in progress
        for part in progress[call.id].parts
    ]
    changes: list[ToolsChanged | ToolsShown] = []
    for part in (*known, *results):
        if isinstance(part, ToolResult):
            changes = []
            by_call[part.call_id] = (part, changes)
        elif isinstance(part, ToolsChanged | ToolsShown):
            changes.append(part)
    called: list[CalledTool] = []
    for call in message.tool_calls:
        result, brought = by_call.get(call.id, (None, []))
        called.append(
            CalledTool(
                call, result, _state(call, result, progress, pending), tuple(brought)
            )
        )
    return called


def _state(
    call: ToolCall,
    result: ToolResult | None,
    progress: Mapping[str, CallProgress],
    pending: Mapping[str, str],
) -> State:
    if result is None:
        if call.id in pending:
            on = "a result from outside"
            if pending[call.id] == "approval":
                on = "an approval"
            return State("waiting", f"waits for {on}")
        if call.id in progress:
            return State("unknown", "sent, without a result: it may have run")
        return _NOT_RUN
    if result.error is None and result.set_aside is not None:
        aside = result.set_aside
        if aside.tokens:
            much = f"about {aside.tokens:,} tokens"
        else:
            much = aside.kind
        return State("done", f"set aside as {safe_line(aside.handle, 40)}, {much}")
    if result.error is None:
        return State("done")
    if result.error == "cancelled" and result.text in (UNKNOWN, CANCELLED):
        return State("unknown", "outcome unknown: it may have run")
    if call.malformed:
        words = "malformed arguments"
    else:
        words = _WORDS[result.error]
    return State("denied" if result.error == "denied" else "failed", words)


_NOT_RUN = State("waiting", "not run yet")

_FIXED = frozenset({"type", "role", "error", "protocol", "kind", "media_type"})
"""Fields whose values are fixed words of mcpagent, which need no redaction."""


def _hidden(value: _T) -> _T:
    """Return the value with every text in it redacted, including keys of JSON data; images stay unchanged."""
    clean: Any = value
    match value:
        case str():
            clean = without_halves(without_secrets(value))
        case Image() | Document() | Audio():
            clean = value
        case ToolKey():
            clean = ToolKey(
                _hidden(value.source),
                without_secrets(value.name),
                without_secrets(value.listed),
            )
        case tuple() | list() | frozenset():
            clean = type(value)(_hidden(item) for item in value)
        case Mapping():
            clean = {_hidden(key): _hidden(item) for key, item in value.items()}
        case _ if is_dataclass(value):
            changed = {
                item.name: _hidden(getattr(value, item.name))
                for item in fields(value)
                if item.name not in _FIXED and item.init
            }
            clean = replace(value, **changed)  # type: ignore[type-var]
        case _:
            pass
    found: _T = clean
    return found


@dataclass(slots=True)
class ExportBudget:
    """The remaining characters and images of third parties that an export accepts, so that every exported file can be
    opened.
    """

    left: int = 20_000_000
    images_left: int = 60_000_000
    markdown_left: int = 1_000_000
    """The remaining characters of answers that are parsed as Markdown; so many take half a minute in the worst case."""

    def cut(self, text: str, shown: int, folded: int = 0) -> tuple[str, str, int]:
        """Return the visible part of a text, its folded part, and the number of omitted characters.

        The visible part ends at the end of a line if one is near.
        """
        shown = min(shown, self.left)
        line_end = 0
        if len(text) > shown:
            line_end = text.rfind("\n", shown // 2, shown) + 1
        first = text[: line_end or shown]
        self.left -= len(first)
        rest = text[len(first) : len(first) + min(folded, self.left)]
        self.left -= len(rest)
        return first, rest, len(text) - len(first) - len(rest)
