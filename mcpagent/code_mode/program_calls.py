"""Make the calls of a program concurrently, through the same pipeline as direct calls."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from mcpagent.code_mode.code_options import CodeMode
from mcpagent.code_mode.importable import (
    Function,
    functions_of,
    importable,
    known_places,
)
from mcpagent.code_mode.memory import Memory, Underway
from mcpagent.code_mode.program_source import Program
from mcpagent.code_mode.results import exception_of, shape_of, value_text
from mcpagent.code_mode.sandbox import AskedCall, Ended, Failed, Sandbox, Step, Waiting
from mcpagent.code_mode.type_checks import Problem
from mcpagent.history.conversation import INNER, CallProgress
from mcpagent.run.agent_run import AgentRun, nothing_to_keep
from mcpagent.run.execution import run_inner_call
from mcpagent.run.middleware.journaling import is_written
from mcpagent.run.middleware.permission_gate import waiting_call
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.utilities.python.worker_threads import beside_loop, is_large
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.approval import CallAnswer, Decision, OnApproval, PendingCall
from mcpagent.values.messages import (
    BinaryBlock,
    Text,
    ToolCall,
    ToolErrorKind,
    ToolKey,
    ToolResult,
)
from mcpagent.values.tools import Tool, ToolChange, ToolOutput

MAX_RESULT_SHARE = 2**18
"""Maximum characters of a call's result per megabyte of the sandbox; parsing needs several times as much memory."""

MOST_AT_ONCE = 50
"""Maximum number of concurrent calls of one program; more would slow down each step of the event loop."""

_AT_ONCE = 10
"""Maximum number of calls that start in one step of the event loop."""

_MANY_CHARACTERS = 20_000

MAX_DENIALS = 3
"""Number of denied calls of a program after which its further calls are denied without asking the user."""

_TROUBLES: Mapping[ToolErrorKind, str] = {
    "denied": "denied",
    "timeout": "unknown outcome",
    "server_down": "server unavailable",
    "cancelled": "cancelled",
}
BREAKS_SCHEMA = "breaks its output schema"
"""Kind of a call whose result the program received although it violates the server's output schema."""

MAX_BLOCKS = 64_000_000
"""Maximum number of base64 characters of all files that one program receives."""

UNKNOWN_OUTCOME = (
    "The process that made this call ended before it had an answer: it may have run. "
    "It was not sent again."
)


_CUT_OFF = (
    "The program was under way in a process that ended, and cannot continue: its state is lost. It was not run again, "
    "and no call was sent a second time. Write a program for the rest."
)

_MAX_SHOWN = 300


Trouble: TypeAlias = "tuple[str, str]"
"""The outcome of a call without a usable result ("denied", "failed", "unknown outcome", ...), and the call's path."""


@dataclass(slots=True, eq=False)
class _Decider:
    """Calls the policy's `decide` until it has denied some calls of one program; then denies without asking."""

    decide: OnApproval
    denied: int = 0

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same policy: a called agent may share its caller's policy, so that the user is
        asked only once.
        """
        return self.decide == (other.decide if isinstance(other, _Decider) else other)

    def __hash__(self) -> int:
        return hash(self.decide)

    async def __call__(self, request: PendingCall) -> Decision:
        if self.denied >= MAX_DENIALS:
            return request.deny(
                f"{self.denied} calls of this program were denied before. End it.",
                asked=False,
            )
        answer = self.decide(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is False or (isinstance(answer, CallAnswer) and not answer.approved):
            self.denied += 1
        return answer


@dataclass(slots=True)
class Job:
    """The state of a running program.

    `changes` are the changes of the offered tools that its calls cause. `blocks` are binary contents, which are stored
    outside of the program, because its values cannot contain them.
    """

    session: SessionTools
    memory: Memory
    options: CodeMode
    run: AgentRun
    sandbox: Sandbox
    program: Program
    calls: int = 0
    changes: list[ToolChange] = field(default_factory=list[ToolChange])
    blocks: list[BinaryBlock] = field(default_factory=list[BinaryBlock])
    before: str = ""
    """Output from before the program was suspended, which precedes the output of this sandbox."""
    known_before: str = ""
    """Source for the type checker that precedes the program, besides earlier programs."""
    doubts: tuple[Problem, ...] = ()
    """Problems that the type checker found, but that may not occur."""
    troubles: list[Trouble] = field(default_factory=list[Trouble])
    """Calls without a usable result, for the line after the program's output."""
    _decider: _Decider | None = None
    at_once: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MOST_AT_ONCE)
    )
    """Semaphore that each active call holds."""
    _names: tuple[tuple[object, object], Mapping[str, str]] = ((None, None), {})

    def asking_run(self) -> AgentRun:
        """Return the run for the program's calls; after `MAX_DENIALS` denials, its questions are declined without
        asking.
        """
        policy = self.run.permissions
        if policy.decide is None:
            return self.run
        if self._decider is None:
            denied = sum(1 for kind, _ in self.troubles if kind == "denied")
            self._decider = _Decider(policy.decide, denied)
        return replace(self.run, permissions=replace(policy, decide=self._decider))

    async def make_ready(self) -> None:
        """Prepare the stored form of the memory, in a worker thread if it is large."""
        if self.is_kept and self.memory.is_large:
            await asyncio.to_thread(self.memory.to_json, self.run.context.thread_id)

    @property
    def is_kept(self) -> bool:
        """True if the session is stored."""
        return self.run.keep is not nothing_to_keep

    def functions(self) -> dict[str, dict[str, Function]]:
        """Return the functions that the program may import; computed at each call, since servers connect and
        disconnect.
        """
        return functions_of(self.session, self.memory.places, importable(self.session))

    def function(self, path: str) -> Function | None:
        """Return the function of this path if the program may import it, otherwise None."""
        known, discovery = self.session.known, self.session.conversation.discovery
        if self._names[0][0] is not known or self._names[0][1] is not discovery:
            places = known_places(self.session, self.memory.places).by_key
            names = {
                places[known[name].definition.key].path: name
                for name in importable(self.session)
            }
            self._names = ((known, discovery), names)
        name = self._names[1].get(path)
        found = functions_of(
            self.session, self.memory.places, [name] if name is not None else []
        )
        module, _, function = path.partition(".")
        return found.get(module, {}).get(function)


def waiting_inner(
    session: SessionTools, memory: Memory, call_id: str, thread: str
) -> PendingCall | None:
    """Return a pending call of a program, made from the program's state and the tool; None if there is no such call.

    `thread` is the ID of the session.
    """
    parent, _, number = call_id.rpartition(INNER)
    underway = memory.underway
    if underway is not None:
        asked = [one for one in underway.asked if str(one.id) == number]
    else:
        asked = []
    if underway is None or underway.call_id != parent or not asked:
        return None
    places = known_places(session, memory.places).by_key
    names = [
        name
        for name in importable(session)
        if places[session.known[name].definition.key].path == asked[0].path
    ]
    module, _, function_name = asked[0].path.partition(".")
    function = (
        functions_of(session, memory.places, names).get(module, {}).get(function_name)
    )
    if function is not None:
        arguments = _read(function, asked[0].arguments)
    else:
        arguments = json.loads(asked[0].arguments)
    if isinstance(arguments, str):
        return None
    if function is not None:
        tool = function.tool
    else:
        tool = None
    call = ToolCall(
        call_id, tool.name if tool is not None else asked[0].path, arguments
    )
    return waiting_call(call, tool, place=underway.place, session=thread)


async def driven(job: Job, step: Step) -> Ended | Failed | tuple[PendingCall, ...]:
    """Make the calls that the program waits for, concurrently, until the program ends.

    If all remaining calls need an answer after this run, returns these calls.
    """
    running: dict[int, asyncio.Task[_Answer]] = {}
    pending: dict[int, PendingCall] = {}
    try:
        while isinstance(step, Waiting):
            if step.snapshot:
                await _leave_underway(
                    job, step.asked, step.snapshot, pending.keys() | running.keys()
                )
            new = [
                asked
                for asked in step.asked
                if asked.id not in running and asked.id not in pending
            ]
            for number, asked in enumerate(new, 1):
                running[asked.id] = asyncio.create_task(_answered(job, asked))
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)
            if not (answers := await _some_answers(running, pending)):
                await _leave_underway(
                    job, step.asked, await job.sandbox.snapshot(), pending.keys()
                )
                return tuple(pending[asked_id] for asked_id in sorted(pending))
            step = await job.sandbox.go_on(answers)
        return step
    finally:
        for task in running.values():
            task.cancel()
        if running:
            await asyncio.wait(running.values())


async def _some_answers(
    running: dict[int, asyncio.Task[_Answer]], pending: dict[int, PendingCall]
) -> dict[int, dict[str, Any]]:
    """Wait for the next results of running calls and return them by ID.

    A call that must wait for an answer moves to `pending`. If only such calls remain, the result is empty.
    """
    answers: dict[int, dict[str, Any]] = {}
    while running and not answers:
        done, _ = await asyncio.wait(
            running.values(), return_when=asyncio.FIRST_COMPLETED
        )
        for asked_id in [
            asked_id for asked_id, task in running.items() if task in done
        ]:
            answer = running.pop(asked_id).result()
            if isinstance(answer, PendingCall):
                pending[asked_id] = answer
            else:
                answers[asked_id] = answer
    return answers


async def _leave_underway(
    job: Job, asked: Sequence[AskedCall], snapshot: bytes, counted: Collection[int]
) -> None:
    """Save the state of the program at these calls. Calls that are already counted will be counted again when it
    resumes.
    """
    calls = job.calls - sum(1 for one in asked if one.path and one.id in counted)
    printed = job.before + job.sandbox.printed
    underway = Underway(
        job.run.context.call_id,
        job.run.conversation.place,
        job.program.source,
        snapshot=snapshot,
        asked=tuple(asked),
        calls=calls,
        printed=printed,
        known_before=job.known_before,
        troubles=tuple(job.troubles),
    )
    part = None
    if job.is_kept:  # in a worker thread, because the search for secrets may take long
        part = await asyncio.to_thread(
            job.memory.prepared, underway, job.run.context.thread_id
        )
    job.memory.leave(underway, part)


_Answer: TypeAlias = "dict[str, Any] | PendingCall"
"""The outcome of a call for the sandbox: a value or an exception, or else a pending call."""


async def _answered(job: Job, asked: AskedCall) -> _Answer:
    if not asked.path:
        await asyncio.sleep(asked.seconds)
        return {"return_value": None}
    async with job.at_once:
        return await _made(job, asked)


async def _made(job: Job, asked: AskedCall) -> _Answer:
    call_id = f"{job.run.context.call_id}{INNER}{asked.id}"
    function = job.function(asked.path)
    is_much = len(asked.arguments) > _MANY_CHARACTERS
    cause = await beside_loop(
        lambda: _cause(asked, _key_of(job, asked, function)), is_much=is_much
    )
    before = _earlier_answer(job, asked, call_id, cause)
    if before is not None:
        return before
    job.calls += 1
    if job.calls > job.options.calls:
        words = f"this program has made {job.options.calls} calls, which is the limit; end it"
        return _failed(job, asked, words, "denied")
    if function is None:
        gone = "was not shown by a search, or is not there any more"
        words = f"{ascii(asked.path[:120])[1:-1]} {gone}: use search_tools"
        return _failed(job, asked, words, "unknown_tool")
    arguments = await beside_loop(
        lambda: _read(function, asked.arguments), is_much=is_much
    )
    if isinstance(arguments, str):
        return _failed(job, asked, arguments, "invalid_arguments")
    shown = f"{asked.path}({safe_line(asked.arguments, _MAX_SHOWN)})"
    sent = CallProgress(cause=cause, shown=shown)
    call = ToolCall(call_id, function.tool.name, arguments)
    made = await run_inner_call(call, function.tool, job.asking_run(), sent)
    _note(job, asked, made.output)
    if made.pending:
        return made.pending[0]
    assert made.output is not None
    return await _given(job, asked, call_id, function.tool, made.output, sent)


def _earlier_answer(
    job: Job, asked: AskedCall, call_id: str, cause: str
) -> dict[str, Any] | None:
    """Return the journaled answer to this call from an ended process; None if the call must be made."""
    known = job.run.conversation.progress.get(call_id)
    if known is None:
        return None
    answer = _kept_answer(known, cause)
    if answer is None:
        return None
    job.blocks += known.blocks
    if known.is_unknown or known.cause != cause:
        job.troubles.append(("unknown outcome", asked.path))
    return answer


def _note(job: Job, asked: AskedCall, output: ToolOutput | None) -> None:
    if output is not None and output.error is not None:
        job.troubles.append((_TROUBLES.get(output.error, "failed"), asked.path))


def _failed(
    job: Job, asked: AskedCall, text: str, kind: ToolErrorKind
) -> dict[str, Any]:
    job.troubles.append((_TROUBLES.get(kind, "failed"), ascii(asked.path[:120])[1:-1]))
    return exception_of(text, kind)


def _cause(asked: AskedCall, key: ToolKey | None) -> str:
    """Return the digest of a call's tool and arguments, under which the journal has its result."""
    digest = hashlib.sha256(json.dumps(key).encode())
    digest.update(b"\0")
    digest.update(asked.arguments.encode(errors="surrogatepass"))
    return digest.hexdigest()


def _key_of(job: Job, asked: AskedCall, function: Function | None) -> ToolKey | None:
    """Return the key of the called tool, even if its server is not connected; None for an unknown path."""
    if function is not None:
        return function.tool.definition.key
    for key, place in job.memory.places.by_key.items():
        if place.path == asked.path:
            return key
    return None


async def _given(
    job: Job,
    asked: AskedCall,
    call_id: str,
    tool: Tool,
    output: ToolOutput,
    sent: CallProgress,
) -> dict[str, Any]:
    """Return the result of a tool for the program, and journal it for a process that may resume the program."""
    job.changes += output.changes
    if output.schema_problem:
        job.troubles.append((BREAKS_SCHEMA, f"{asked.path}: {output.schema_problem}"))
    given = output
    output, text = await _usable(job, tool, given)
    job.blocks += output.blocks
    if output is not given:
        _note(job, asked, output)
    if output.error is not None:
        said = "\n".join(part.text for part in output.content if isinstance(part, Text))
        answer = exception_of(said, output.error)
        kept = ToolResult(call_id, tool.name, (Text(json.dumps(answer)),), output.error)
    else:
        answer = {"return_value": text}
        kept = ToolResult(call_id, tool.name, (Text(text),))
        if shape := shape_of(text):
            job.memory.shapes[tool.definition.key] = shape
    if job.is_kept:
        progress = replace(
            sent, is_repeatable=tool.safe_to_repeat, parts=(kept,), blocks=output.blocks
        )
        job.run.conversation.note_progress(call_id, progress)
        await is_written(job.run)
    return answer


async def _usable(job: Job, tool: Tool, output: ToolOutput) -> tuple[ToolOutput, str]:
    """Return the output and its value in the sandbox's format; an error if a program cannot have this value."""
    text = words = ""
    texts = [part.text for part in output.content if isinstance(part, Text)]
    try:
        is_much = is_large([output.structured, *texts])
        if output.error is None:
            text = await beside_loop(partial(value_text, tool, output), is_much=is_much)
    # A tool in this process may return anything.
    except (TypeError, ValueError, RecursionError) as error:
        words = f"its result is no JSON: {safe_line(str(error), 200)}"
    most = job.options.memory_mb * MAX_RESULT_SHARE
    if len(text) > most:
        words = f"its result has {len(text):,} characters; a program takes {most:,}: ask for less"
    size = sum(len(block.data) for block in (*job.blocks, *output.blocks))
    if size > MAX_BLOCKS:
        words = "one program gets no more than 64 MB that are no text: get fewer files at once"
    if not words:
        return output, text
    failed = f"{tool.name} was called, but {words}"
    return ToolOutput.of_text(failed, error="failed"), ""


def _kept_answer(known: CallProgress, cause: str) -> dict[str, Any] | None:
    """Return the answer of a call that an ended process made; None if the call can be repeated.

    If the journal has another call under this ID, the outcome is unknown.
    """
    part = None
    if known.parts:
        part = known.parts[0]
    if known.cause != cause or known.is_unknown:
        return exception_of(UNKNOWN_OUTCOME, "timeout")
    if not isinstance(part, ToolResult):
        return None
    if part.error is None:
        return {"return_value": part.text}
    answer: dict[str, Any] = json.loads(part.text)
    return answer


def cut_off(run: AgentRun) -> ToolOutput:
    """Report a program that cannot continue, with the results of its calls and the calls of unknown outcome."""
    done: list[str] = []
    unknown: list[str] = []
    for call_id, known in run.conversation.progress.items():
        if not call_id.startswith(f"{run.context.call_id}{INNER}"):
            continue
        answer = None
        if known.parts:
            answer = _kept_answer(known, known.cause)
        if answer is None:
            unknown.append(f"- {known.shown}")
        elif "message" in answer:
            done.append(f"- {known.shown}: {answer['exc_type']}: {answer['message']}")
        else:
            done.append(f"- {known.shown}: {answer['return_value'][1:]}")
    told = [_CUT_OFF]
    if done:
        told += ["Calls with a known result:", *done]
    if unknown:
        told += ["Calls whose outcome is unknown (they may have run):", *unknown]
    if not done and not unknown:
        told.append("None of its calls is recorded here; they may have run.")
    return ToolOutput.of_text("\n".join(told), error="failed")


def has_journaled_calls(run: AgentRun) -> bool:
    """Return whether the journal has a call of the program that this call runs."""
    return any(
        call_id.startswith(f"{run.context.call_id}{INNER}")
        for call_id in run.conversation.progress
    )


def _read(function: Function, text: str) -> dict[str, Any] | str:
    """Return the JSON arguments for the tool; a text with the problem if they are invalid."""
    try:
        arguments = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        return f"the arguments are no JSON: {safe_line(str(error), 200)}"
    if not isinstance(arguments, dict):
        return "the arguments are no JSON object"
    return function.stub.wire_arguments(arguments)


def _no_number(name: str) -> float:
    raise ValueError(f"it has no {name}")
