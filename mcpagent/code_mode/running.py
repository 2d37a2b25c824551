"""`run_code`: a program is checked, run, and answered with what it printed; each of its calls passes the gate."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mcpagent.code_mode.code_options import CodeMode
from mcpagent.code_mode.importable import (
    Function,
    Modules,
    functions_of,
    importable,
    known_places,
    module_stub,
    sandbox_values,
)
from mcpagent.code_mode.memory import Memory, Underway
from mcpagent.code_mode.program_source import Program, ProgramError, fed, parsed, with_context
from mcpagent.code_mode.results import exception_of, shape_of, value_text
from mcpagent.code_mode.sandbox import AskedCall, Ended, Failed, Problem, Sandbox, Step, Waiting
from mcpagent.conversation import INNER, CallProgress
from mcpagent.errors import ConfigError
from mcpagent.execution import run_inner_call
from mcpagent.mcp.transports.beside_loop import beside_loop
from mcpagent.messages import Text, ToolCall, ToolErrorKind, ToolResult, ToolsChanged, ToolsShown
from mcpagent.run import RunContext, nothing_to_keep, run_context
from mcpagent.text.for_model import for_model
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.tools import ToolOutput
from mcpagent.toolsets.validation import MAX_ARGUMENT_CHARACTERS

MAX_PROBLEMS = 8
_LONG_CODE = 2_000

UNKNOWN_OUTCOME = (
    "The process that made this call ended before it had an answer: it may have run. It was not sent again."
)


async def run_code(session: SessionTools, memory: Memory, options: CodeMode, arguments: dict[str, Any]) -> ToolOutput:
    """What the model is told of its program. Raises nothing but a cancellation."""
    run = run_context()
    try:
        async with Sandbox(options, takes_snapshots=run.keep is not nothing_to_keep) as sandbox:
            job = _Job(session, memory, options, run, sandbox)
            underway, memory.underway = memory.underway, None
            if underway is not None and underway.call_id == run.call_id:
                memory.underway = underway
                return await _gone_on(job, underway)
            return await _begun(job, str(arguments["code"]))
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
    calls: int = 0
    changes: list[ToolsShown | ToolsChanged] = field(default_factory=list[ToolsShown | ToolsChanged])
    before: str = ""
    """What it had printed in a process that ended."""

    def functions(self) -> dict[str, dict[str, Function]]:
        """What it may import: asked for anew at each call, since servers come and go."""
        return functions_of(self.session, self.memory.places, importable(self.session))

    def function(self, path: str) -> Function | None:
        """The one of this path."""
        module, _, name = path.partition(".")
        return self.functions().get(module, {}).get(name)


async def _begun(job: _Job, code: str) -> ToolOutput:
    memory, told = job.memory, ""
    try:
        program = await beside_loop(lambda: parsed(code), is_much=len(code) > _LONG_CODE)
    except ProgramError as error:
        return ToolOutput.of_text(f"The program was not run: {error}", error="invalid_arguments")
    modules = job.functions()
    wanted = dict.fromkeys(one.module for one in program.imports if one.module)
    wanted |= {one.name: None for one in program.imports if not one.module and one.name}
    read = dict.fromkeys([*memory.modules, *wanted])
    stubs = {module: module_stub(modules[module]) for module in read if module in modules}
    source, before = with_context(memory.context, program.source)
    problems = [one for one in await job.sandbox.check(source, stubs) if one.line > before or one.line <= 0]
    if problems:
        return _refused(job, program, modules, problems, before)
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
        told, memory.lost = memory.lost, ""
    used = {module: modules[module] for module in wanted if module in modules} or modules
    step = await job.sandbox.feed(fed(program, sandbox_values(used)))
    return await _finished(job, program, await _driven(job, step, program.source), told)


async def _gone_on(job: _Job, underway: Underway) -> ToolOutput:
    """A program of a process that ended, at the calls that it was in."""
    program = parsed(underway.source)
    try:
        await job.sandbox.restore(underway.snapshot, underway.asked)
    except ValueError:
        job.memory.underway = None
        text = "The program was under way in a process that ended, and cannot go on. Its calls may have run."
        return ToolOutput.of_text(text, error="failed")
    job.calls, job.before = underway.calls, underway.printed
    step = await _driven(job, Waiting(underway.asked, underway.snapshot), underway.source)
    return await _finished(job, program, step, "")


# -- its calls --------------------------------------------------------------------------------------------------------


async def _driven(job: _Job, step: Step, source: str) -> Ended | Failed:
    """Makes the calls that the program waits for, all at the same time, until it ends."""
    running: dict[int, asyncio.Task[dict[str, Any]]] = {}
    try:
        while isinstance(step, Waiting):
            if step.snapshot:
                printed = job.before + job.sandbox.printed
                job.memory.underway = Underway(job.run.call_id, source, step.snapshot, step.asked, job.calls, printed)
            for asked in step.asked:
                if asked.id not in running:
                    running[asked.id] = asyncio.create_task(_answered(job, asked))
            done, _ = await asyncio.wait(running.values(), return_when=asyncio.FIRST_COMPLETED)
            answers = {asked: task.result() for asked, task in running.items() if task in done}
            for asked_id in answers:
                del running[asked_id]
            step = await job.sandbox.go_on(answers)
        return step
    finally:
        for task in running.values():
            task.cancel()
        if running:
            await asyncio.wait(running.values())


async def _answered(job: _Job, asked: AskedCall) -> dict[str, Any]:
    """What one call came to, as the sandbox takes it: a value or an exception."""
    if not asked.path:
        await asyncio.sleep(asked.seconds)
        return {"return_value": None}
    call_id = f"{job.run.call_id}{INNER}{asked.id}"
    known = job.run.conversation.progress.get(call_id)
    if known is not None and known.parts:
        return _kept_answer(known.parts[0])
    if known is not None and known.is_unknown:
        return exception_of(UNKNOWN_OUTCOME)
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
    tool = function.tool
    output = await run_inner_call(ToolCall(call_id, tool.name, arguments), tool, job.run)
    job.changes += output.changes
    if output.error is not None:
        text = "\n".join(part.text for part in output.content if isinstance(part, Text))
        answer = exception_of(text, output.error)
        kept = ToolResult(call_id, tool.name, (Text(json.dumps(answer)),), output.error)
    else:
        text = value_text(tool, output)
        answer = {"return_value": text}
        kept = ToolResult(call_id, tool.name, (Text(text),))
        if shape := shape_of(text):
            job.session.catalog.seen_results[tool.definition.key] = shape
    if job.run.keep is not nothing_to_keep:
        job.run.conversation.note_progress(call_id, CallProgress(tool.safe_to_repeat, (kept,)))
    return answer


def _kept_answer(part: Any) -> dict[str, Any]:
    """What a call had come to when the process that made it ended."""
    if not isinstance(part, ToolResult):
        return exception_of(UNKNOWN_OUTCOME)
    if part.error is None:
        return {"return_value": part.text}
    answer: dict[str, Any] = json.loads(part.text)
    return answer


def _read(function: Function, text: str) -> dict[str, Any] | str:
    """The arguments on the wire; a text says what is wrong with them."""
    if len(text) > MAX_ARGUMENT_CHARACTERS:
        return f"the arguments take {len(text):,} characters; the limit is {MAX_ARGUMENT_CHARACTERS:,}"
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        return "the arguments are no JSON object"
    return function.stub.wire_arguments(arguments)


# -- what the model is told -------------------------------------------------------------------------------------------


def _refused(job: _Job, program: Program, modules: Modules, problems: Sequence[Problem], before: int) -> ToolOutput:
    """The type checker's words, and the signatures of functions that were imported without having been shown."""
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
    names = _not_shown(job, program, modules)
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


def _not_shown(job: _Job, program: Program, modules: Modules) -> list[str]:
    """The offered names of tools that a program imports by the right name, and no search has shown."""
    places = known_places(job.session, job.memory.places).by_key
    wanted = {(one.module, one.name) for one in program.imports if one.name}
    wanted -= {(module, name) for module, functions in modules.items() for name in functions}
    return [
        name
        for name, tool in job.session.known.items()
        if ((place := places[tool.definition.key]).module, place.function) in wanted and not tool.external
    ]


async def _finished(job: _Job, program: Program, step: Ended | Failed, told: str) -> ToolOutput:
    memory, most = job.memory, job.options.output_characters
    memory.underway = None
    printed = job.before + job.sandbox.printed
    parts = [told, _cut(printed.rstrip("\n"), most)]
    if isinstance(step, Ended):
        if program.has_value:
            value = await job.sandbox.value_of(f"_shown(_last, {most}) if _last is not None else ''")
            too_large = "(the value of the last expression is too large to be shown: print a part of it)"
            parts.append(value if isinstance(value, str) else too_large)
        if step.unawaited:
            parts.append(f"({step.unawaited} calls were not awaited, so they were not made: write `await`)")
        ran = program.source
    else:
        parts.append(await _failure(job, program, step))
        ran = program.done_before(step.lines[0]) if step.lines else ""
    if isinstance(step, Failed) and step.is_lost:
        parts.append("Variables are as they were before this program. Calls that it made were made.")
    else:
        if state := await job.sandbox.dumped():
            memory.state = state
        memory.remember(ran)
        own = (one.module or one.name for one in program.imports)
        memory.modules = tuple(dict.fromkeys([*memory.modules, *(module for module in own if module)]))
    text = "\n".join(part for part in parts if part)
    text = for_model(text) or "(the program ended and showed nothing: print what you need to see)"
    error: ToolErrorKind | None = None if isinstance(step, Ended) else "failed"
    return ToolOutput((Text(_cut(text, 2 * most)),), error, tuple(job.changes))


async def _failure(job: _Job, program: Program, failed: Failed) -> str:
    """The exception, the lines of the program that led to it, and the values of the variables in the first of these."""
    lines = program.source.splitlines()
    told = [f"line {line}: {lines[line - 1].strip()[:200]}" for line in failed.lines if 0 < line <= len(lines)]
    told.append(f"{failed.kind}: {failed.message[:2_000]}" if failed.message else failed.kind)
    if failed.lines and not failed.is_lost:
        names = program.names_at(failed.lines[0])[:6]
        reads = ", ".join(f"_brief(lambda: {name})" for name in names)
        values = await job.sandbox.value_of(f"[{reads}]") if names else None
        known = zip(names, values, strict=False) if isinstance(values, list) else ()
        told += [f"    {name} = {value}" for name, value in known if isinstance(value, str)]
    return "\n".join(told)


def _cut(text: str, most: int) -> str:
    """The one place where an output that is too long is made shorter: its beginning and its end stay."""
    if len(text) <= most:
        return text
    left = len(text) - most
    return (
        f"{text[: most * 3 // 4]}\n[... {left:,} characters left out: print less ...]\n{text[len(text) - most // 4 :]}"
    )
