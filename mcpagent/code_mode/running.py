"""`run_code`: check and run a program, and return its output; or save the program until its calls are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mcpagent.code_mode.code_options import CodeMode
from mcpagent.code_mode.importable import (
    Modules,
    find_places,
    module_stub,
    sandbox_values,
)
from mcpagent.code_mode.memory import Memory, Underway
from mcpagent.code_mode.program_answers import finished, refused
from mcpagent.code_mode.program_calls import Job, cut_off, driven, has_journaled_calls
from mcpagent.code_mode.program_source import (
    LONG_CODE,
    ProgramError,
    declared_anew,
    fed,
    library_code,
    parsed,
    submodule_imports,
    with_context,
)
from mcpagent.code_mode.rewriting import unsupported
from mcpagent.code_mode.sandbox import Sandbox, Waiting
from mcpagent.code_mode.type_checks import Problem, certain
from mcpagent.errors import ConfigError
from mcpagent.run.agent_run import active_run, nothing_to_keep
from mcpagent.run.middleware.reporting import is_answered_inside
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.utilities.python.worker_threads import beside_loop
from mcpagent.values.messages import Text
from mcpagent.values.tools import ToolOutput

_STILL_WAITS = "The program before this one waits for an answer, so this one was not run. Run it after that."


async def run_code(
    session: SessionTools, memory: Memory, options: CodeMode, arguments: dict[str, Any]
) -> ToolOutput:
    """Run the model's program and return its output for the model, or the calls for whose answers it waits.

    A later call, in a run that has these answers, resumes the program. Raises nothing but cancellation.
    """
    run, code = active_run(), str(arguments["code"])
    try:
        program = await beside_loop(lambda: parsed(code), is_much=len(code) > LONG_CODE)
    except ProgramError as error:
        return ToolOutput.of_text(
            f"The program was not run: {error}", error="invalid_arguments"
        )
    await find_places(session, memory.places)
    underway, ended, this = (
        memory.underway,
        memory.ended,
        (run.context.call_id, run.conversation.place),
    )
    if ended is not None and (ended.call_id, ended.place) == this:
        return ToolOutput((Text(ended.text),), ended.error)
    is_ours = underway is not None and (
        underway.call_id,
        underway.place,
        underway.source,
    ) == (*this, program.source)
    if not is_ours:
        has_begun = has_journaled_calls(run) or is_answered_inside(
            run.context.call_id, run
        )
        if has_begun or run.context.call_id in (run.answers or ()):
            return cut_off(run)
        if underway is not None and any(
            call.id == underway.call_id for call in run.conversation.open_calls
        ):
            return ToolOutput.of_text(_STILL_WAITS, error="cancelled")
    try:
        async with Sandbox(
            options, takes_snapshots=run.keep is not nothing_to_keep
        ) as sandbox:
            job = Job(session, memory, options, run, sandbox, program)
            if underway is not None and is_ours:
                return await _gone_on(job, underway)
            memory.underway = memory.ended = None
            return await _begun(job)
    except ConfigError as error:
        return ToolOutput.of_text(str(error), error="failed")


async def _begun(job: Job) -> ToolOutput:
    memory, program = job.memory, job.program
    modules = await asyncio.to_thread(job.functions)
    read = _modules_read(job, modules)
    stubs = {
        module: module_stub(modules[module]) for module in read if module in modules
    }
    problems = await _problems_of_all(job, stubs)
    sure = [one for one in problems if one.is_certain]
    if sure:
        return refused(job, modules, sure)
    job.doubts = tuple(problems)
    try:
        library = await beside_loop(
            lambda: library_code(program.tree), is_much=len(program.source) > LONG_CODE
        )
        await job.sandbox.begin(memory.state, library)
    except ValueError:
        memory.state, memory.context, memory.modules = b"", (), ()
        return ToolOutput.of_text(
            "The variables of earlier programs cannot be read any more, so the program was not run. Write it anew, "
            "with all that it needs.",
            error="failed",
        )
    if memory.lost:
        job.before, memory.lost = f"{memory.lost}\n", ""
    used = {module: modules[module] for module in read if module in modules} or modules
    return await _fed(job, used)


async def _fed(job: Job, used: Modules) -> ToolOutput:
    """Run the program in the sandbox, with the functions of these modules."""
    memory, program = job.memory, job.program
    keys = [
        one.tool.definition.key
        for functions in used.values()
        for one in functions.values()
    ]
    memory.imports({key: memory.places.by_key[key] for key in keys})
    values, is_much = sandbox_values(used), len(program.source) > LONG_CODE
    try:
        source = await beside_loop(lambda: fed(program, values), is_much=is_much)
    except ProgramError as error:
        return ToolOutput.of_text(
            f"The program was not run: {error}", error="invalid_arguments"
        )
    step = await job.sandbox.feed(source)
    return await finished(job, await driven(job, step))


def _modules_read(job: Job, modules: Modules) -> list[str]:
    """Return the modules that the program or earlier ones import, without duplicates."""
    program = job.program
    wanted = [one.module for one in program.imports if one.module]
    wanted += [one.name for one in program.imports if not one.module and one.name]
    if program.takes_all:
        wanted = [*modules]
    return [*dict.fromkeys([*job.memory.modules, *wanted])]


async def _problems_of_all(job: Job, stubs: Mapping[str, str]) -> list[Problem]:
    """Return the problems of the program. It may assign a value of another type to a variable of an earlier program."""
    program = job.program
    job.known_before = ""
    if program.takes_all:
        job.known_before = submodule_imports(stubs)
    problems = await _problems(job, stubs)
    if not any(problem.rule == "invalid-assignment" for problem in problems):
        return problems
    job.known_before += await beside_loop(
        lambda: declared_anew(program), is_much=len(program.source) > LONG_CODE
    )
    return await _problems(job, stubs)


async def _problems(job: Job, stubs: Mapping[str, str]) -> list[Problem]:
    """Return the problems of the program, with its own line numbers; a problem that will certainly end the program is
    marked.
    """
    program, memory = job.program, job.memory
    is_much = memory.is_long(program.source) or len(program.source) > LONG_CODE
    lacking = await beside_loop(lambda: unsupported(program.tree), is_much=is_much)
    if lacking:
        return [
            Problem(line, "not-supported", text, is_certain=True)
            for line, text in lacking
        ]
    source, before = await beside_loop(
        lambda: with_context([*memory.context, job.known_before], program.source),
        is_much=is_much,
    )

    async def check(text: str) -> list[Problem]:
        return await job.sandbox.check(text, stubs)

    found = [one for one in await check(source) if one.line > before or one.line <= 0]
    if not found:
        return []
    sure = await certain(check, source, before, found, stubs)
    return [
        replace(one, line=one.line - before, is_certain=one in sure) for one in found
    ]


async def _gone_on(job: Job, underway: Underway) -> ToolOutput:
    """Continue a suspended program at its calls, after answers or a restart of the process."""
    try:
        await job.sandbox.restore(underway.snapshot, underway.asked)
    except ValueError:
        job.memory.underway = None
        return cut_off(job.run)
    job.memory.lost = ""  # the snapshot contains the variables
    job.troubles = [*underway.troubles]
    job.calls, job.before, job.known_before = (
        underway.calls,
        underway.printed,
        underway.known_before,
    )
    return await finished(
        job, await driven(job, Waiting(underway.asked, underway.snapshot))
    )
