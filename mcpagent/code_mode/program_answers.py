"""Write the text that the model receives about a program: type errors, output, and failures."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mcpagent.code_mode.importable import Modules, functions_of, known_places
from mcpagent.code_mode.memory import EndedProgram
from mcpagent.code_mode.prelude import BRIEF, HAS, LAST, SHOWN, STATEMENT
from mcpagent.code_mode.program_calls import Job
from mcpagent.code_mode.program_source import (
    LONG_CODE,
    Program,
    bound_names,
    known_by_name,
    lines_of,
    submodules_in,
)
from mcpagent.code_mode.python_table import LIBRARY_NAME, module_names, offered_modules
from mcpagent.code_mode.sandbox import MAX_PRINTED, Ended, Failed
from mcpagent.code_mode.type_checks import Problem
from mcpagent.errors import SessionStoreError
from mcpagent.utilities.python.worker_threads import beside_loop
from mcpagent.utilities.text.for_model import for_model
from mcpagent.values.approval import PendingCall
from mcpagent.values.messages import Text, ToolErrorKind, ToolsShown
from mcpagent.values.tools import ToolOutput

MAX_PROBLEMS, MAX_LINES, MAX_BRIEF = 8, 20, 200
_LONG_OUTPUT = 20_000

NOTHING_SHOWN = "(the program ended and showed nothing: print what you need to see)"


def refused(job: Job, modules: Modules, problems: Sequence[Problem]) -> ToolOutput:
    """Return the certain problems of a program, and the signatures of imported functions that no search had shown."""
    program = job.program
    told = ["The program was not run, and made no call:"]
    told += _problem_lines(program, problems)
    if len(problems) > MAX_PROBLEMS:
        told.append(f"and {len(problems) - MAX_PROBLEMS} more")
    names = _not_shown(job, modules)
    unseen = functions_of(job.session, job.memory.places, names)
    for module, functions in unseen.items():
        told.append(
            f"These of tools.{module} were not shown before, and can be imported now:"
        )
        told += [function.stub.shown() for function in functions.values()]
    unknown = any(
        one.module and one.module not in modules and one.module not in unseen
        for one in program.imports
    )
    if unknown or any(
        one.name
        and one.module
        and not _has(one.name, modules.get(one.module), unseen.get(one.module))
        for one in program.imports
    ):
        told.append(
            "Use search_tools to find functions; only what it has shown can be imported."
        )
    keys = tuple(job.session.known[name].definition.key for name in names)
    changes = (ToolsShown(tuple(names), keys),) if names else ()
    return ToolOutput((Text("\n".join(told)),), "invalid_arguments", changes)


def _problem_lines(program: Program, problems: Sequence[Problem]) -> list[str]:
    lines, told = program.lines, list[str]()
    for problem in problems[:MAX_PROBLEMS]:
        source = ""
        if 0 < problem.line <= len(lines):
            source = lines[problem.line - 1]
        words = f"line {max(problem.line, 1)}: {problem.rule}: {_words_of(problem, source)[:600]}"
        told.append(words + (f"\n    {source.strip()[:160]}" if source.strip() else ""))
    return told


def _words_of(problem: Problem, source: str) -> str:
    """Return the checker's words; of a name or module that programs lack, the ones that they have."""
    name = source[problem.column - 1 : problem.end_column - 1].strip()
    if problem.rule == "unresolved-reference" and name in vars(builtins):
        return f"{name} is not available here. {_INSTEAD.get(name, '')}".strip()
    if problem.rule == "unresolved-import":
        module = name.partition(" ")[0]
        if (
            module.partition(".")[0] in sys.stdlib_module_names
            and module not in module_names()
        ):
            return f"{module} is not available; modules: {', '.join(offered_modules())}"
        for known, names in module_names().items():
            if problem.message.startswith(f"Module `{LIBRARY_NAME}{known}`"):
                return f"{known} has no {name} here; it has: {', '.join(names)}"
    return problem.message.replace(LIBRARY_NAME, "")


_INSTEAD = {
    "open": "A program has no files; use a tool that reads or writes them.",
    "input": "Nobody can answer a program; ask in your reply.",
    "globals": "Use the variables themselves.",
}


def _has(name: str, *modules: Any) -> bool:
    return any(
        module is not None
        and (
            name in module
            or any(name in one.stub.class_names for one in module.values())
        )
        for module in modules
    )


def _not_shown(job: Job, modules: Modules) -> list[str]:
    """Return the offered names of correctly imported tools that no search has shown."""
    places = known_places(job.session, job.memory.places).by_key
    wanted = {(one.module, one.name) for one in job.program.imports if one.name}
    wanted -= {
        (module, name) for module, functions in modules.items() for name in functions
    }
    return [
        name
        for name, tool in job.session.known.items()
        if ((place := places[tool.definition.key]).module, place.function) in wanted
    ]


async def finished(
    job: Job, step: Ended | Failed | tuple[PendingCall, ...]
) -> ToolOutput:
    """Return the output of an ended program: its printed text, then its last value or its error.

    The memory keeps the program's variables for the next program. If the program waits for answers to calls, return
    these calls as pending.
    """
    if isinstance(step, tuple):
        return ToolOutput((), pending=step)
    memory, program = job.memory, job.program
    memory.underway = None
    printed = job.before + job.sandbox.printed
    parts = [printed.rstrip("\n")]
    if isinstance(step, Ended):
        if program.has_value:
            value = await job.sandbox.value_of(
                f"{SHOWN}({LAST}, {MAX_PRINTED}) if {LAST} is not None else ''"
            )
            too_large = "(the value of the last expression is too large to be shown: print a part of it)"
            parts.append(
                value[: MAX_PRINTED + 100] if isinstance(value, str) else too_large
            )
        if step.unawaited:
            parts.append(
                f"({step.unawaited} calls were not awaited, so they were not made: write `await`)"
            )
        ran = program.source
    else:
        begun = await job.sandbox.value_of(STATEMENT)
        number = None
        if type(begun) is int and 0 <= begun < len(program.tree.body):
            number = begun
        parts.append(await _failure(job, step, number))
        if job.doubts:
            parts += [
                "The type checker had doubted, before the program ran:",
                *_problem_lines(program, job.doubts),
            ]
        if step.is_lost:
            ran = ""
        else:
            ran = await _left_behind(job, number)
    is_lost = isinstance(step, Failed) and step.is_lost
    if is_lost or not (state := await job.sandbox.dumped()):
        parts.append(
            "Variables are as they were before this program. Calls that it made were made."
        )
    else:
        memory.state = state
        ran = f"{job.known_before}{ran}"
        own = [
            *(one.module or one.name for one in program.imports),
            *submodules_in(job.known_before),
        ]
        memory.modules = tuple(
            dict.fromkeys([*memory.modules, *(module for module in own if module)])
        )
        await beside_loop(lambda: memory.remember(ran), is_much=memory.is_long(ran))
        memory.mark(job.run.conversation.place)
    text = "\n".join(part for part in parts if part)
    text = await beside_loop(lambda: for_model(text), is_much=len(text) > _LONG_OUTPUT)
    error: ToolErrorKind | None = None if isinstance(step, Ended) else "failed"
    if job.is_kept:
        memory.ended = EndedProgram(
            job.run.context.call_id,
            job.run.conversation.place,
            text or NOTHING_SHOWN,
            error,
        )
        await job.make_ready()
        with suppress(SessionStoreError):  # the next write ends the run for it
            await job.run.keep()
    return ToolOutput(
        (Text(text or NOTHING_SHOWN),),
        error,
        tuple(job.changes),
        blocks=tuple(job.blocks),
    )


async def _failure(job: Job, failed: Failed, number: int | None) -> str:
    """Return the exception, the lines of the program that led to it, and the variables of the first of these lines.

    `number`: the statement that ended with it. An exception of a coroutine that `gather` runs has no line there.
    """
    program = job.program
    lines = program.lines
    numbers = lines_of(program)
    led = [numbers[line - 1] for line in failed.lines if 0 < line <= len(numbers)]
    statement = None
    if number is not None:
        statement = program.tree.body[number]
    if (
        statement
        and not (led and statement.lineno <= led[0] <= (statement.end_lineno or 0))
        and not failed.is_lost
    ):
        led = [statement.lineno, *led]
    told = [
        f"line {line}: {lines[line - 1].strip()[:200]}"
        for line in led
        if 0 < line <= len(lines)
    ]
    if len(told) > MAX_LINES:
        told[MAX_LINES // 2 : -MAX_LINES // 2] = [
            f"and {len(told) - MAX_LINES:,} lines more"
        ]
    told.append(
        f"{failed.kind}: {failed.message[:2_000]}" if failed.message else failed.kind
    )
    if led and not failed.is_lost:
        names = (
            await beside_loop(
                lambda: program.names_at(led[0]),
                is_much=len(program.source) > LONG_CODE,
            )
        )[:6]
        reads = ", ".join(f"{BRIEF}(lambda: {name})" for name in names)
        values = await job.sandbox.value_of(f"[{reads}]") if names else None
        known = zip(names, values, strict=False) if isinstance(values, list) else ()
        told += [
            f"    {name} = {value[:MAX_BRIEF]}"
            for name, value in known
            if isinstance(value, str)
        ]
    return "\n".join(told)


async def _left_behind(job: Job, number: int | None) -> str:
    """Describe as source code the effects of a program that failed.

    These are the statements before the failed one, and the names that the failed one has bound. If that is unknown,
    assume that it may have bound any of its names.
    """
    program = job.program
    if number is None:
        body = program.tree.body
    else:
        body = program.tree.body[number : number + 1]
    names = await beside_loop(
        lambda: bound_names(body), is_much=len(program.source) > LONG_CODE
    )
    known = await job.sandbox.value_of(
        f"[{', '.join(f'{HAS}(lambda: {name})' for name in names)}]"
    )
    if not isinstance(known, list) or len(known) != len(names):
        known = [True] * len(names)
    there = [
        name for name, is_there in zip(names, known, strict=True) if is_there is True
    ]
    gone = [
        name
        for name, is_there in zip(names, known, strict=True)
        if is_there is not True
    ]
    done = ""
    if number is not None:
        done = program.before(number)
    return f"{done}\n{known_by_name(there, gone)}"
