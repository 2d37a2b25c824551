"""Compute the runs of a stored session, or of a recording, as trees of steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mcpagent.errors import CredentialsError, McpAgentError, ModelError
from mcpagent.history.conversation import INNER
from mcpagent.journal.recording.recorded_entries import (
    AgentStarted,
    CallEnded,
    ModelAsked,
    ModelReported,
    ModelResponded,
    RunEndEntry,
    RunStarted,
    read_recording,
)
from mcpagent.journal.sessions.export.transcript import (
    BY_PROVIDER,
    Answered,
    CalledTool,
    NoticeToModel,
    Transcript,
    Turn,
    calls_run_there,
    compacted_words,
)
from mcpagent.journal.sessions.run_ended import RunEnded
from mcpagent.journal.tracing.tree import DEEPEST, TraceStep
from mcpagent.utilities.text.secrets import without_secrets
from mcpagent.values.events import ToolsSearched
from mcpagent.values.messages import (
    Compacted,
    Spent,
    Step,
    ToolsChanged,
    ToolsShown,
)

NO_ANSWER = "no answer"
CUT_OFF = "cut off"
_PURPOSES = {"summary": "a summary, to save room", "sampling": "asked by a server"}


def _run(prompt: str, steps: Sequence[TraceStep]) -> TraceStep:
    """Return a run with these steps, and the sum of their usage.

    Its time is None if that of the last step is unknown, such as of a call that was cancelled.
    """
    requests = [
        step for step in steps if step.offered is not None or step.spent is not None
    ]
    begun = [step.begun for step in steps if step.begun is not None]
    ended = [step.ended for step in steps if step.ended is not None]
    seconds = None
    if begun and ended and steps[-1].ended is not None:
        seconds = max(ended) - min(begun)
    spent = sum((step.spent for step in requests if step.spent is not None), Spent())
    return TraceStep(
        "invoke_agent",
        begun=min(begun, default=None),
        seconds=seconds,
        error=steps[-1].error if steps and steps[-1].name.startswith("chat ") else "",
        prompt=prompt,
        turns=sum(step.offered is not None and not step.error for step in steps),
        spent=spent,
        steps=tuple(steps),
    )


def _ended(run: TraceStep, end: RunEnded | None) -> TraceStep:
    """Return the run with a note about its end, unless the model answered, and with its time without that of questions
    to a person.
    """
    if end is None:
        return run
    if end.result is not None:
        run = replace(run, seconds=end.result.spent.seconds or run.seconds)
        if end.result.stop in ("answered", "calls_pending"):
            return run
        return replace(run, note=f"ended: {end.result.stop}")
    if end.error is None or end.state == "cancelled":
        return replace(run, note="cancelled")
    note = without_secrets(str(end.error))
    return replace(run, error=run.error or _kind_of(end.error), note=note)


def _kind_of(error: McpAgentError) -> str:
    """Return the error's type for a span: the HTTP status of a model error if it has one, else a name."""
    if isinstance(error, CredentialsError):
        return "credentials"
    if isinstance(error, ModelError):
        return str(error.status or "model")
    return type(error).__name__


def _request(model: str, **about: Any) -> TraceStep:
    first = model.partition(",")[0].strip()
    return TraceStep(f"chat {first.partition(':')[2] or first}", **about)


def _spent(step: Step) -> Spent:
    return Spent(
        step.usage,
        step.dollars or 0.0,
        step.dollars is not None,
        saved_tokens=step.saved_tokens,
    )


def _ranked(steps: Iterable[TraceStep]) -> Iterator[TraceStep]:
    """Yield the steps; each call gets the rank that its tool had in the last search that found it."""
    ranks: dict[str, int] = {}
    for step in steps:
        rank = ranks.get(step.name.removeprefix("execute_tool "))
        yield replace(step, rank=rank) if rank is not None else step
        for search in step.walk():
            ranks |= {name: place for place, name in enumerate(search.matches or (), 1)}


# -- Stored sessions ---------------------------------------------------------------------------------------------------


def session_runs(transcript: Transcript) -> list[TraceStep]:
    """Return the turns of a stored session as traces.

    Calls have durations but no start times, because a session does not store when a call began.
    """
    servers = _servers(transcript)
    runs: list[TraceStep] = []
    for turn in transcript.turns:
        prompt = ""
        if turn.number:
            prompt = turn.title
        run = _run(prompt, [*_ranked(_turn_steps(turn, servers))])
        runs.append(_ended(run, transcript.ends.get(turn.run)))
    if runs and not runs[-1].note:
        runs[-1] = replace(runs[-1], note=transcript.ending)
    return runs


def _servers(transcript: Transcript) -> Mapping[str, str]:
    """Return the server of each offered tool, by the tool's name."""
    tools = [*transcript.standing.beginning.offered]
    for part in (
        part for message in transcript.session.messages for part in message.parts
    ):
        if isinstance(part, ToolsChanged):
            tools += part.added
    return {tool.name: tool.server for tool in tools if tool.server is not None}


def _turn_steps(turn: Turn, servers: Mapping[str, str]) -> Iterator[TraceStep]:
    for entry in turn.entries:
        if isinstance(entry, NoticeToModel):
            yield from _news_steps(entry)
            continue
        calls = [part for part in entry.parts if isinstance(part, CalledTool)]
        ran_there = [
            _called(call, servers)
            for call in calls
            if call.state.words.startswith(BY_PROVIDER)
        ]
        yield _answered(entry, ran_there)
        for call in calls:
            if not call.state.words.startswith(BY_PROVIDER):
                yield _called(call, servers)


def _news_steps(news: NoticeToModel) -> Iterator[TraceStep]:
    for part in news.parts:
        if isinstance(part, ToolsShown):
            yield TraceStep("retrieval tools", matches=part.names)
        elif isinstance(part, Compacted):
            yield TraceStep("compacted", note=compacted_words(part))


def _answered(answer: Answered, ran_there: Sequence[TraceStep]) -> TraceStep:
    step = answer.step
    if step is None:
        return _request(answer.model or "unknown", steps=tuple(ran_there))
    return _request(
        step.model,
        begun=step.begun or None,
        seconds=step.seconds,
        spent=_spent(step),
        offered=step.offered,
        known_tools=step.known_tools or None,
        steps=tuple(ran_there),
    )


def _called(called: CalledTool, servers: Mapping[str, str]) -> TraceStep:
    call, result, state = called.call, called.result, called.state
    shown = [
        part.names
        for part in called.changes
        if isinstance(part, ToolsShown) and call.name == "search_tools"
    ]
    step = TraceStep(
        f"execute_tool {call.name}",
        note=state.words if state.outcome in ("waiting", "unknown") else "",
        server=servers.get(call.name, ""),
        arguments=call.arguments,
        steps=tuple(TraceStep("retrieval tools", matches=names) for names in shown),
    )
    if result is None:
        return replace(step, error="unknown" if state.outcome == "unknown" else "")
    seconds: float | None = result.seconds
    is_measured = result.error != "cancelled" or result.seconds > 0
    if state.words.startswith(BY_PROVIDER) or not is_measured:
        seconds = None
    return replace(step, error=result.error or "", seconds=seconds)


# -- Recordings --------------------------------------------------------------------------------------------------------


def recorded_runs(path: Path) -> list[TraceStep]:
    """Return the runs in a recording, in the order in which they began. Raises `ConfigError` for other files."""
    runs = _RecordedRuns()
    read_recording(path, runs.take)
    return runs.trees()


@dataclass(slots=True)
class _RecordedRuns:
    """The entries of a recording read so far, by run.

    `requests` are those without an answer, by number. `inner` are the steps of calls that programs made, by run and by
    the ID of the program's call.
    """

    model: str = ""
    prompts: dict[int, str] = field(default_factory=dict[int, str])
    steps: dict[int, list[TraceStep]] = field(default_factory=lambda: defaultdict(list))
    requests: dict[int, ModelAsked] = field(default_factory=dict[int, ModelAsked])
    ends: dict[int, RunEnded] = field(default_factory=dict[int, RunEnded])
    inner: dict[tuple[int, str], list[TraceStep]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def take(self, line: Any) -> None:
        """Add an entry of the recording."""
        match line:
            case AgentStarted(model=model) | ModelReported(name=model) if model:
                self.model = model
            case RunStarted():
                self.prompts[line.run] = line.prompt
            case RunEndEntry(end=end):
                self.ends[line.run] = end
            case ModelAsked():
                self.requests[line.number] = line
            case ModelResponded() if (
                request := self.requests.pop(line.number, None)
            ) is not None:
                self._take_response(request, line)
            case CallEnded():
                self._take_call(line)

    def _take_response(self, request: ModelAsked, line: ModelResponded) -> None:
        response, error = line.response, line.error
        if error is not None:
            about = {"error": _kind_of(error), "note": str(error)}
            self._take_answer(request, seconds=line.seconds, **about)
        elif response is None:
            self._take_answer(request, seconds=line.seconds, error=CUT_OFF)
        else:
            known = response.dollars is not None
            spent = Spent(
                response.usage,
                response.dollars or 0.0,
                known,
                saved_tokens=request.saved_tokens,
            )
            there = [_called(ran, {}) for ran in calls_run_there(response.message)]
            self._take_answer(
                request, seconds=line.seconds, spent=spent, steps=tuple(there)
            )

    def _take_answer(self, request: ModelAsked, **about: Any) -> None:
        if request.purpose == "answer":
            about |= {"offered": request.tools, "known_tools": request.known_tools}
        else:
            about.setdefault("note", _PURPOSES[request.purpose])
        self.steps[request.run].append(
            _request(self.model, begun=request.time, **about)
        )

    def _take_call(self, line: CallEnded) -> None:
        result, call_id = line.result, line.result.call_id
        searches = [event for event in line.events if isinstance(event, ToolsSearched)]
        step = TraceStep(
            f"execute_tool {result.name}",
            begun=line.time - result.seconds,
            seconds=result.seconds,
            error=result.error or "",
            server=line.server or "",
            arguments=line.arguments,
            spent=line.agents,
            steps=(*self.inner.pop((line.run, call_id), ()), *map(_search, searches)),
        )
        if INNER in call_id and call_id.count(INNER) < DEEPEST:
            self.inner[line.run, call_id.rpartition(INNER)[0]].append(step)
        else:
            self.steps[line.run].append(step)

    def trees(self) -> list[TraceStep]:
        """Return the runs as trees, including requests that were not answered."""
        for request in self.requests.values():
            self._take_answer(request, error=NO_ANSWER)
        for (run, _), steps in self.inner.items():
            self.steps[run] += steps
        trees: list[TraceStep] = []
        for number, below in sorted(self.steps.items()):
            tree = _run(self.prompts.get(number, "(resumed)"), [*_ranked(below)])
            trees.append(_ended(tree, self.ends.get(number)))
        return trees


def _search(event: ToolsSearched) -> TraceStep:
    return TraceStep(
        "retrieval tools",
        seconds=event.seconds,
        query=event.query,
        found=event.found,
        matches=event.matches,
    )
