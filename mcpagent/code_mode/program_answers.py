"""Write the text about a program for the model: type errors, output, and failures."""

from __future__ import annotations

import base64
import builtins
import re
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from mcpagent.code_mode.importable import (
    Modules,
    functions_of,
    known_places,
    shown_functions,
)
from mcpagent.code_mode.memory import EndedProgram
from mcpagent.code_mode.prelude import BRIEF, HAS, IMAGES, LAST, NEVER, SHOWN, STATEMENT
from mcpagent.code_mode.program_calls import BREAKS_SCHEMA, Job
from mcpagent.code_mode.program_source import (
    LONG_CODE,
    Program,
    bound_names,
    known_by_name,
    lines_of,
    submodules_in,
)
from mcpagent.code_mode.python_table import LIBRARY_NAME, module_names, offered_modules
from mcpagent.code_mode.results import SHOWN_ERRORS
from mcpagent.code_mode.sandbox import MAX_PRINTED, Ended, Failed
from mcpagent.code_mode.type_checks import Problem
from mcpagent.errors import SessionStoreError
from mcpagent.utilities.python.worker_threads import beside_loop
from mcpagent.utilities.text.for_model import for_model
from mcpagent.values.approval import PendingCall
from mcpagent.values.messages import Image, Text, ToolErrorKind, ToolsChanged
from mcpagent.values.tools import ToolChange, ToolOutput

MAX_PROBLEMS, MAX_LINES, MAX_BRIEF, MAX_NAMES = 8, 20, 200, 6
MAX_IMAGES, MAX_IMAGE_CHARACTERS = 10, 8_000_000
"""Maximum number of images that one program may show, and of their base64 characters in total."""

_LONG_OUTPUT = 20_000

NOTHING_SHOWN = "(the program ended and showed nothing: print what you need to see)"


def refused(job: Job, modules: Modules, problems: Sequence[Problem]) -> ToolOutput:
    """Return the certain problems of a program, and the signatures of imported functions that no search had shown.

    If an imported tool cannot be called by programs, it is loaded, so that the model can call it directly.
    """
    session = job.session
    told = ["The program was not run, and made no call:"]
    told += _problem_lines(job.program, problems)
    if len(problems) > MAX_PROBLEMS:
        told.append(f"and {len(problems) - MAX_PROBLEMS} more")
    imported = _not_shown(job, modules)
    names = [name for name in imported if session.is_function(session.known[name])]
    direct = [name for name in imported if name not in names]
    if direct:
        told.append(
            f"{', '.join(direct)}: only for direct calls, not for programs. Call it directly, without import."
        )
    unseen = functions_of(session, job.memory.places, names)
    told += _unseen_lines(unseen)
    if _has_unknown_import(job.program, [modules, unseen], imported.values()):
        told.append(
            "Use search_tools to find functions; only what it has shown can be imported."
        )
    hidden = [name for name in direct if not session.is_offered(name)]
    changes = list[ToolChange]()
    if loaded := session.fitting(hidden):
        changes.append(ToolsChanged(added=session.definitions(loaded)))
    changes += shown_functions(session, names)
    return ToolOutput((Text("\n".join(told)),), "invalid_arguments", tuple(changes))


def _unseen_lines(unseen: Modules) -> list[str]:
    """Return the stubs of imported functions that no search had shown."""
    lines = list[str]()
    for module, functions in unseen.items():
        lines.append(
            f"These of tools.{module} were not shown before, and can be imported now:"
        )
        lines += [function.stub.shown() for function in functions.values()]
    return lines


def _has_unknown_import(
    program: Program,
    known: Sequence[Modules],
    there: Collection[tuple[str, str]],
) -> bool:
    """Return whether a program imports a module or name that is not among the known functions and classes, nor in
    `there`.
    """
    modules = {module for one in known for module in one}
    modules.update(module for module, _ in there)
    for one in program.imports:
        if not one.module:
            continue
        if one.module not in modules:
            return True
        found = [functions.get(one.module) for functions in known]
        if (
            one.name
            and (one.module, one.name) not in there
            and not _has(one.name, *found)
        ):
            return True
    return False


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
    """Return the checker's message; for a name or module that programs lack, a message with the existing
    alternatives.
    """
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


def _not_shown(job: Job, modules: Modules) -> dict[str, tuple[str, str]]:
    """Return module and function, by offered name, of tools that are imported by their right path but were not
    importable.
    """
    places = known_places(job.session, job.memory.places).by_key
    wanted = {(one.module, one.name) for one in job.program.imports if one.name}
    for module, functions in modules.items():
        wanted -= {(module, name) for name in functions}
    found = dict[str, tuple[str, str]]()
    for name, tool in job.session.known.items():
        place = places[tool.definition.key]
        if (place.module, place.function) in wanted:
            found[name] = (place.module, place.function)
    return found


async def finished(
    job: Job, step: Ended | Failed | tuple[PendingCall, ...]
) -> ToolOutput:
    """Return the output of an ended program: its printed text, then its last value or its error.

    The program's variables are stored in the memory for the next program. If the program waits for answers to calls,
    these calls are returned as pending.
    """
    if isinstance(step, tuple):
        return ToolOutput((), pending=step)
    job.memory.underway = None
    parts = [(job.before + job.sandbox.printed).rstrip("\n")]
    if isinstance(step, Ended):
        parts.append(await _last_value(job))
        ran = job.program.source
    else:
        lines, ran = await _failed_parts(job, step)
        parts += lines
    images, words = await _shown_images(job)
    parts += [words, *await _trouble_lines(job, step)]
    is_lost = isinstance(step, Failed) and step.is_lost
    state = b""
    if not is_lost:
        state = await job.sandbox.dumped()
    if state:
        await _remember(job, state, ran)
    else:
        parts.append(
            "Variables are as they were before this program. Calls that it made were made."
        )
    text = "\n".join(part for part in parts if part)
    text = await beside_loop(lambda: for_model(text), is_much=len(text) > _LONG_OUTPUT)
    text = text or NOTHING_SHOWN
    error: ToolErrorKind | None = None
    if isinstance(step, Failed):
        error = "failed"
    await _store_end(job, text, error)
    return ToolOutput(
        (Text(text), *images),
        error,
        tuple(job.changes),
        blocks=tuple(job.blocks),
    )


async def _last_value(job: Job) -> str:
    """Return the value of the program's last expression as text, or ""."""
    if not job.program.has_value:
        return ""
    value = await job.sandbox.value_of(
        f"{SHOWN}({LAST}, {MAX_PRINTED}) if {LAST} is not None else ''"
    )
    if isinstance(value, str):
        return value[: MAX_PRINTED + 100]
    return "(the value of the last expression is too large to be shown: print a part of it)"


async def _failed_parts(job: Job, failed: Failed) -> tuple[list[str], str]:
    """Return the lines about an exception, and source code that stands for the effects of the program until then."""
    begun = await job.sandbox.value_of(STATEMENT)
    number = None
    if type(begun) is int and 0 <= begun < len(job.program.tree.body):
        number = begun
    lines = [await _failure(job, failed, number)]
    if job.doubts:
        lines.append("The type checker had doubted, before the program ran:")
        lines += _problem_lines(job.program, job.doubts)
    if failed.is_lost:
        return lines, ""
    return lines, await _left_behind(job, number)


async def _remember(job: Job, state: bytes, ran: str) -> None:
    """Store the variables, and the source that the next program may refer to, which describes the effects of this
    one.
    """
    memory, program = job.memory, job.program
    memory.state = state
    ran = f"{job.known_before}{ran}"
    own = [one.module or one.name for one in program.imports]
    own += submodules_in(job.known_before)
    modules = [module for module in own if module]
    memory.modules = tuple(dict.fromkeys([*memory.modules, *modules]))
    await beside_loop(lambda: memory.remember(ran), is_much=memory.is_long(ran))
    memory.mark(job.run.conversation.place)


async def _store_end(job: Job, text: str, error: ToolErrorKind | None) -> None:
    """Write the program's output to the session's store, if the session is stored."""
    if not job.is_kept:
        return
    run = job.run
    job.memory.ended = EndedProgram(
        run.context.call_id, run.conversation.place, text, error
    )
    await job.make_ready()
    with suppress(
        SessionStoreError
    ):  # the next write raises the error and ends the run
        await run.keep()


async def _trouble_lines(job: Job, step: Ended | Failed) -> list[str]:
    """Return lines about calls without a usable result, and about coroutines that were never awaited."""
    lines = list[str]()
    by_kind: dict[str, Counter[str]] = {}
    for kind, path in job.troubles:
        by_kind.setdefault(kind, Counter())[path] += 1
    broken = by_kind.pop(BREAKS_SCHEMA, None)
    if by_kind:
        told = [f"{kind}: {_listed(paths)}" for kind, paths in by_kind.items()]
        lines.append(f"(calls without a usable result: {'; '.join(told)})")
    if broken:
        lines.append(
            f"(results that break the output schema of their own server: {_listed(broken)})"
        )
    never = await job.sandbox.value_of(f"{NEVER}()")
    names = [str(name)[:120] for name in never] if isinstance(never, list) else []
    if isinstance(step, Ended) and step.unawaited and not names:
        names = [f"{step.unawaited} calls"]
    if names:
        lines.append(
            f"(never awaited, so not run: {_listed(Counter(names))}; write `await`)"
        )
    return lines


async def _shown_images(job: Job) -> tuple[list[Image], str]:
    """Return the images that the program showed, within the limits, and a line that counts them."""
    found = await job.sandbox.value_of(
        f"{IMAGES}({MAX_IMAGES}, {MAX_IMAGE_CHARACTERS})"
    )
    match found:
        case [int(count), list(shown)] if count:
            images = [_image(one) for one in shown]
        case _:
            return [], ""
    usable = [one for one in images if one is not None]
    left = len(shown) - len(usable)
    words = f"{len(usable)} image{'' if len(usable) == 1 else 's'} shown"
    if count > len(shown):
        words += f"; {count - len(shown)} more were left out"
    if left:
        words += f"; {left} is no image" if left == 1 else f"; {left} are no images"
    return usable, f"({words})"


def _image(one: Any) -> Image | None:
    """Return an image of a program; None unless the bytes are an image of a known kind."""
    match one:
        case [str(kind), str(data)] if re.fullmatch(r"image/[a-z0-9.+-]{1,40}", kind):
            head = data[:64]
        case _:
            return None
    with suppress(ValueError):
        begin = base64.b64decode(head, validate=True)
        if any(begin.startswith(magic) for magic in _IMAGE_BYTES):
            return Image(kind, data)
    return None


_IMAGE_BYTES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"<svg")


def _listed(counts: Mapping[str, int]) -> str:
    shown = [
        f"{name} ({count} times)" if count > 1 else name
        for name, count in list(counts.items())[:MAX_NAMES]
    ]
    return ", ".join([*shown, *(["..."] if len(counts) > MAX_NAMES else [])])


async def _failure(job: Job, failed: Failed, number: int | None) -> str:
    """Return the exception, the program lines that led to it, and the variables in the first of these lines.

    `number` is the failed statement. It has no line for an exception in a coroutine that `gather` runs.
    """
    program = job.program
    lines = program.lines
    numbers = await beside_loop(
        lambda: lines_of(program), is_much=len(program.source) > LONG_CODE
    )
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
    kind = failed.kind
    if not failed.is_lost:
        kind = SHOWN_ERRORS.get(kind, kind)
    words = kind
    if failed.message:
        words = f"{kind}: {failed.message[:2_000]}"
    told.append(words)
    if led and not failed.is_lost:
        told += await _values_at(job, led[0])
    return "\n".join(told)


async def _values_at(job: Job, line: int) -> list[str]:
    """Return a line with the value of each variable in this line of the program."""
    program = job.program
    is_much = len(program.source) > LONG_CODE
    named = await beside_loop(lambda: program.names_at(line), is_much=is_much)
    names = named[:6]
    if not names:
        return []
    reads = ", ".join(f"{BRIEF}(lambda: {name})" for name in names)
    values = await job.sandbox.value_of(f"[{reads}]")
    if not isinstance(values, list):
        return []
    return [
        f"    {name} = {value[:MAX_BRIEF]}"
        for name, value in zip(names, values, strict=False)
        if isinstance(value, str)
    ]


async def _left_behind(job: Job, number: int | None) -> str:
    """Return source code that stands for the effects of a failed program.

    This consists of the statements before the failed one (`number`), and of the names that the failed statement may
    have bound. If `number` is None, any name of the program may be bound.
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
