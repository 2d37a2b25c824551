"""`run_code`: a program is checked, run, and answered with what it printed; each of its calls passes the gate."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mcpagent.approval import PendingCall
from mcpagent.code_mode.code_options import CodeMode
from mcpagent.code_mode.importable import (
    Function,
    Modules,
    find_places,
    functions_of,
    importable,
    known_places,
    module_stub,
    sandbox_values,
)
from mcpagent.code_mode.memory import EndedProgram, Memory, Underway
from mcpagent.code_mode.program_source import Program, ProgramError, fed, parsed, with_context
from mcpagent.code_mode.results import exception_of, shape_of, value_text
from mcpagent.code_mode.sandbox import MAX_PRINTED, AskedCall, Ended, Failed, Problem, Sandbox, Step, Waiting
from mcpagent.conversation import INNER, CallProgress
from mcpagent.errors import ConfigError, SessionStoreError
from mcpagent.execution import is_gone_on_with, run_inner_call
from mcpagent.mcp.transports.beside_loop import beside_loop
from mcpagent.messages import Text, ToolCall, ToolErrorKind, ToolResult, ToolsChanged, ToolsShown
from mcpagent.run import RunContext, nothing_to_keep, run_context
from mcpagent.text.for_model import for_model
from mcpagent.text.safe_text import safe_line
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.tools import Tool, ToolOutput

MAX_PROBLEMS, MAX_BRIEF = 8, 200

MAX_RESULT_SHARE = 2**18
"""Characters of a call's result for each megabyte of the sandbox: reading it takes some times as much."""

_LONG_CODE, _LONG_OUTPUT = 2_000, 20_000

NOTHING_SHOWN = "(the program ended and showed nothing: print what you need to see)"

_CUT_OFF = (
    "The program was under way in a process that ended, and cannot go on. Its calls may have run. See what was done "
    "before you write it anew."
)
_STILL_WAITS = "The program before this one waits for an answer, so this one was not run. Run it after that."
UNKNOWN_OUTCOME = (
    "The process that made this call ended before it had an answer: it may have run. It was not sent again."
)


async def run_code(session: SessionTools, memory: Memory, options: CodeMode, arguments: dict[str, Any]) -> ToolOutput:
    """What the model is told of its program, or the calls whose answers it waits for: then it goes on when it is called
    again in a run that has these. Raises nothing but a cancellation."""
    run, code = run_context(), str(arguments["code"])
    try:
        program = await beside_loop(lambda: parsed(code), is_much=len(code) > _LONG_CODE)
    except ProgramError as error:
        return ToolOutput.of_text(f"The program was not run: {error}", error="invalid_arguments")
    await find_places(session, memory.places)
    underway, ended, this = memory.underway, memory.ended, (run.call_id, run.conversation.place)
    if ended is not None and (ended.call_id, ended.place) == this:
        return ToolOutput((Text(ended.text),), ended.error)
    is_ours = underway is not None and (underway.call_id, underway.place, underway.source) == (*this, program.source)
    if not is_ours:
        if is_gone_on_with(run.call_id, run) or run.call_id in (run.answers or ()):
            return ToolOutput.of_text(_CUT_OFF, error="failed")
        if underway is not None and any(call.id == underway.call_id for call in run.conversation.open_calls):
            return ToolOutput.of_text(_STILL_WAITS, error="cancelled")
    try:
        async with Sandbox(options, takes_snapshots=run.keep is not nothing_to_keep) as sandbox:
            job = _Job(session, memory, options, run, sandbox, program)
            if underway is not None and is_ours:
                return await _gone_on(job, underway)
            memory.underway = memory.ended = None
            return await _begun(job)
    except ConfigError as error:
        return ToolOutput.of_text(str(error), error="failed")


@dataclass(slots=True)
class _Job:
    """One program, while it runs. `changes` are what its calls bring for the conversation."""

    session: SessionTools
    memory: Memory
    options: CodeMode
    run: RunContext[Any]
    sandbox: Sandbox
    program: Program
    calls: int = 0
    changes: list[ToolsShown | ToolsChanged] = field(default_factory=list[ToolsShown | ToolsChanged])
    before: str = ""
    """What is told before what this sandbox prints: what it had printed before it was left."""

    @property
    def is_kept(self) -> bool:
        """Whether its session is written down."""
        return self.run.keep is not nothing_to_keep

    def functions(self) -> dict[str, dict[str, Function]]:
        """What it may import: asked for anew at each call, since servers come and go."""
        return functions_of(self.session, self.memory.places, importable(self.session))

    def function(self, path: str) -> Function | None:
        """The one of this path, if it may be imported."""
        places, known = known_places(self.session, self.memory.places).by_key, self.session.known
        names = [name for name in importable(self.session) if places[known[name].definition.key].path == path]
        module, _, name = path.partition(".")
        return functions_of(self.session, self.memory.places, names).get(module, {}).get(name)


async def _begun(job: _Job) -> ToolOutput:
    memory, program = job.memory, job.program
    modules = job.functions()
    wanted = dict.fromkeys(one.module for one in program.imports if one.module)
    wanted |= {one.name: None for one in program.imports if not one.module and one.name}
    read = dict.fromkeys([*memory.modules, *wanted])
    stubs = {module: module_stub(modules[module]) for module in read if module in modules}
    source, before = with_context(memory.context, program.source)
    problems = [one for one in await job.sandbox.check(source, stubs) if one.line > before or one.line <= 0]
    if problems:
        return _refused(job, modules, problems, before)
    try:
        await job.sandbox.begin(memory.state)
    except ValueError:
        memory.state, memory.context, memory.modules = b"", (), ()
        return ToolOutput.of_text(
            "The variables of earlier programs cannot be read any more, so the program was not run. Write it anew, "
            "with all that it needs.",
            error="failed",
        )
    if memory.lost:
        job.before, memory.lost = f"{memory.lost}\n", ""
    used = {module: modules[module] for module in wanted if module in modules} or modules
    step = await job.sandbox.feed(fed(program, sandbox_values(used)))
    return await _finished(job, await _driven(job, step))


async def _gone_on(job: _Job, underway: Underway) -> ToolOutput:
    """A program that was left, for an answer or since its process ended, at the calls that it was in."""
    try:
        await job.sandbox.restore(underway.snapshot, underway.asked)
    except ValueError:
        job.memory.underway = None
        return ToolOutput.of_text(_CUT_OFF, error="failed")
    job.calls, job.before = underway.calls, underway.printed
    return await _finished(job, await _driven(job, Waiting(underway.asked, underway.snapshot)))


# -- its calls --------------------------------------------------------------------------------------------------------


async def _driven(job: _Job, step: Step) -> Ended | Failed | tuple[PendingCall, ...]:
    """Makes the calls that the program waits for, all at the same time, until it ends; or until nothing is left but
    calls that wait for an answer beyond this run, which it then gives."""
    running: dict[int, asyncio.Task[_Answer]] = {}
    pending: dict[int, PendingCall] = {}
    try:
        while isinstance(step, Waiting):
            if step.snapshot:
                _leave_underway(job, step.asked, step.snapshot, pending.keys() | running.keys())
            for asked in step.asked:
                if asked.id not in running and asked.id not in pending:
                    running[asked.id] = asyncio.create_task(_answered(job, asked))
            if not (answers := await _some_answers(running, pending)):
                _leave_underway(job, step.asked, await job.sandbox.snapshot(), pending.keys())
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
    """What the next of these came to; nothing if all that are left wait, which then are among the pending."""
    answers: dict[int, dict[str, Any]] = {}
    while running and not answers:
        done, _ = await asyncio.wait(running.values(), return_when=asyncio.FIRST_COMPLETED)
        for asked_id in [asked_id for asked_id, task in running.items() if task in done]:
            answer = running.pop(asked_id).result()
            if isinstance(answer, PendingCall):
                pending[asked_id] = answer
            else:
                answers[asked_id] = answer
    return answers


def _leave_underway(job: _Job, asked: Sequence[AskedCall], snapshot: bytes, counted: Collection[int]) -> None:
    """Keeps the program as it stands at these calls. Those of them that were counted are counted again later."""
    calls = job.calls - sum(1 for one in asked if one.path and one.id in counted)
    printed = job.before + job.sandbox.printed
    job.memory.underway = Underway(
        job.run.call_id,
        job.run.conversation.place,
        job.program.source,
        snapshot=snapshot,
        asked=tuple(asked),
        calls=calls,
        printed=printed,
    )


_Answer: TypeAlias = "dict[str, Any] | PendingCall"
"""What a call came to, as the sandbox takes it: a value or an exception; or that it waits for somebody."""


async def _answered(job: _Job, asked: AskedCall) -> _Answer:
    if not asked.path:
        await asyncio.sleep(asked.seconds)
        return {"return_value": None}
    call_id = f"{job.run.call_id}{INNER}{asked.id}"
    if (known := job.run.conversation.progress.get(call_id)) is not None and (answer := _kept_answer(known)):
        return answer
    job.calls += 1
    if job.calls > job.options.calls:
        return exception_of(f"this program has made {job.options.calls} calls, which is the limit; end it", "denied")
    function = job.function(asked.path)
    if function is None:
        gone = "was not shown by a search, or is not there any more"
        return exception_of(f"{ascii(asked.path[:120])[1:-1]} {gone}: use search_tools", "unknown_tool")
    arguments = _read(function, asked.arguments)
    if isinstance(arguments, str):
        return exception_of(arguments, "invalid_arguments")
    output = await run_inner_call(ToolCall(call_id, function.tool.name, arguments), function.tool, job.run)
    return output.pending[0] if output.pending else _given(job, call_id, function.tool, output)


def _given(job: _Job, call_id: str, tool: Tool, output: ToolOutput) -> dict[str, Any]:
    """What a tool gave, for the program, and for the process that may have to go on with it."""
    job.changes += output.changes
    text = value_text(tool, output) if output.error is None else ""
    if len(text) > (most := job.options.memory_mb * MAX_RESULT_SHARE):
        words = f"was called, but its result has {len(text):,} characters; a program takes {most:,}: ask for less"
        output = ToolOutput.of_text(f"{tool.name} {words}", error="failed")
    if output.error is not None:
        said = "\n".join(part.text for part in output.content if isinstance(part, Text))
        answer = exception_of(said, output.error)
        kept = ToolResult(call_id, tool.name, (Text(json.dumps(answer)),), output.error)
    else:
        answer = {"return_value": text}
        kept = ToolResult(call_id, tool.name, (Text(text),))
        if shape := shape_of(text):
            job.session.catalog.seen_results[tool.definition.key] = shape
    if job.is_kept:
        job.run.conversation.note_progress(call_id, CallProgress(tool.safe_to_repeat, (kept,)))
    return answer


def _kept_answer(known: CallProgress) -> dict[str, Any]:
    """What a call had come to when the process that made it ended; nothing for one that can be made again."""
    part = known.parts[0] if known.parts else None
    if not isinstance(part, ToolResult):
        return exception_of(UNKNOWN_OUTCOME) if known.is_unknown else {}
    if part.error is None:
        return {"return_value": part.text}
    answer: dict[str, Any] = json.loads(part.text)
    return answer


def _read(function: Function, text: str) -> dict[str, Any] | str:
    """The arguments on the wire; a text says what is wrong with them."""
    try:
        arguments = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        return f"the arguments are no JSON: {safe_line(str(error), 200)}"
    if not isinstance(arguments, dict):
        return "the arguments are no JSON object"
    return function.stub.wire_arguments(arguments)


def _no_number(name: str) -> float:
    raise ValueError(f"it has no {name}")


# -- what the model is told -------------------------------------------------------------------------------------------


def _refused(job: _Job, modules: Modules, problems: Sequence[Problem], before: int) -> ToolOutput:
    """The type checker's words, and the signatures of functions that were imported without having been shown."""
    program = job.program
    lines = program.source.splitlines()
    told = ["The program was not run, and made no call:"]
    for problem in problems[:MAX_PROBLEMS]:
        line = problem.line - before
        source = lines[line - 1].strip()[:160] if 0 < line <= len(lines) else ""
        told.append(
            f"line {max(line, 1)}: {problem.rule}: {problem.message[:400]}" + (f"\n    {source}" if source else "")
        )
    if len(problems) > MAX_PROBLEMS:
        told.append(f"and {len(problems) - MAX_PROBLEMS} more")
    names = _not_shown(job, modules)
    unseen = functions_of(job.session, job.memory.places, names)
    for module, functions in unseen.items():
        told.append(f"These of tools.{module} were not shown before, and can be imported now:")
        told += [function.stub.shown() for function in functions.values()]
    unknown = any(one.module and one.module not in modules and one.module not in unseen for one in program.imports)
    if unknown or any(
        one.name and one.module and not _has(one.name, modules.get(one.module), unseen.get(one.module))
        for one in program.imports
    ):
        told.append("Use search_tools to find functions; only what it has shown can be imported.")
    keys = tuple(job.session.known[name].definition.key for name in names)
    changes = (ToolsShown(tuple(names), keys),) if names else ()
    return ToolOutput((Text("\n".join(told)),), "invalid_arguments", changes)


def _has(name: str, *modules: Any) -> bool:
    return any(
        module is not None and (name in module or any(name in one.stub.class_names for one in module.values()))
        for module in modules
    )


def _not_shown(job: _Job, modules: Modules) -> list[str]:
    """The offered names of tools that a program imports by the right name, and no search has shown."""
    places = known_places(job.session, job.memory.places).by_key
    wanted = {(one.module, one.name) for one in job.program.imports if one.name}
    wanted -= {(module, name) for module, functions in modules.items() for name in functions}
    return [
        name
        for name, tool in job.session.known.items()
        if ((place := places[tool.definition.key]).module, place.function) in wanted
    ]


async def _finished(job: _Job, step: Ended | Failed | tuple[PendingCall, ...]) -> ToolOutput:
    if isinstance(step, tuple):
        return ToolOutput((), pending=step)
    memory, program = job.memory, job.program
    memory.underway = None
    printed = job.before + job.sandbox.printed
    parts = [printed.rstrip("\n")]
    if isinstance(step, Ended):
        if program.has_value:
            value = await job.sandbox.value_of(f"_shown(_last, {MAX_PRINTED}) if _last is not None else ''")
            too_large = "(the value of the last expression is too large to be shown: print a part of it)"
            parts.append(value[: MAX_PRINTED + 100] if isinstance(value, str) else too_large)
        if step.unawaited:
            parts.append(f"({step.unawaited} calls were not awaited, so they were not made: write `await`)")
        ran = program.source
    else:
        parts.append(await _failure(job, step))
        ran = await _done(job, step)
    is_lost = isinstance(step, Failed) and step.is_lost
    if is_lost or not (state := await job.sandbox.dumped()):
        parts.append("Variables are as they were before this program. Calls that it made were made.")
    else:
        memory.state = state
        memory.remember(ran)
        own = (one.module or one.name for one in program.imports)
        memory.modules = tuple(dict.fromkeys([*memory.modules, *(module for module in own if module)]))
    text = "\n".join(part for part in parts if part)
    text = await beside_loop(lambda: for_model(text), is_much=len(text) > _LONG_OUTPUT)
    error: ToolErrorKind | None = None if isinstance(step, Ended) else "failed"
    if job.is_kept:
        memory.ended = EndedProgram(job.run.call_id, job.run.conversation.place, text or NOTHING_SHOWN, error)
        with suppress(SessionStoreError):  # whoever writes next ends the run for it
            await job.run.keep()
    return ToolOutput((Text(text or NOTHING_SHOWN),), error, tuple(job.changes))


async def _failure(job: _Job, failed: Failed) -> str:
    """The exception, the lines of the program that led to it, and the values of the variables in the first of these."""
    lines = job.program.source.splitlines()
    told = [f"line {line}: {lines[line - 1].strip()[:200]}" for line in failed.lines if 0 < line <= len(lines)]
    told.append(f"{failed.kind}: {failed.message[:2_000]}" if failed.message else failed.kind)
    if failed.lines and not failed.is_lost:
        names = job.program.names_at(failed.lines[0])[:6]
        reads = ", ".join(f"_brief(lambda: {name})" for name in names)
        values = await job.sandbox.value_of(f"[{reads}]") if names else None
        known = zip(names, values, strict=False) if isinstance(values, list) else ()
        told += [f"    {name} = {value[:MAX_BRIEF]}" for name, value in known if isinstance(value, str)]
    return "\n".join(told)


async def _done(job: _Job, failed: Failed) -> str:
    """What of a program that failed was done, as source. An exception of `gather` has no line: what was assigned tells
    then how far it came."""
    program = job.program
    if failed.lines:
        return program.done_before(failed.lines[0])
    if failed.is_lost:
        return ""
    assigned = program.assigned()
    reads = ", ".join(f"_has(lambda: {name})" for names in assigned for name in names)
    known = await job.sandbox.value_of(f"[{reads}]")
    if not isinstance(known, list) or len(known) != sum(map(len, assigned)):
        return ""
    left = iter(known)
    for number, names in enumerate(assigned):
        if not all(next(left) is True for _ in names):
            return program.done_before(program.tree.body[number].lineno)
    return program.done_before(program.tree.body[-1].lineno)
