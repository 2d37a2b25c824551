"""Twenty tasks of 1 to 30 calls, solved by a program and by direct calls: requests, tokens, seconds.

    python -m benchmarks.code [--sandbox]

Seven tasks need one call, eight need independent calls, five need calls that depend on results of others. The model
is scripted; each side is at its best and knows only what it was shown. It searches in words. Direct calls use
`load="search"`, so that found tools can be called in the next request, and independent calls are one request. A
program cannot know the form of a text before it saw one. So one with independent calls of short results prints them
all for the model; before others, code mode makes one call and prints its result, unless that is the answer. Tokens
are characters / 4 of what a request holds (system prompt, definitions, messages, all of it again at each request, as
providers count) and of what the model writes. The tools are those of the bundled server, and of three services of the
example's catalogue where `botocore` is installed; without it two tasks are left out. Seconds are those from the
question on, with servers that run. Peers are measured if they are installed: `pip install botocore
'fastmcp[code-mode]' 'pydantic-ai-harness[code-mode]'`, each with its own code mode over the same servers. `--sandbox`
measures instead how long the event loop is held by the hostile programs of the tests.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import importlib.util
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from benchmarks.code_measured import Measured, tokens
from benchmarks.code_tasks import Task, servers, tasks


async def ours(task: Task, replies: Sequence[Any], **options: Any) -> Measured:
    """One task in mcpagent."""
    from mcpagent import Agent, ScriptedModel
    from mcpagent.values.messages import ToolCall, ToolResult, ToolsChanged, ToolsShown

    model = ScriptedModel([*replies, "done"])
    async with Agent(model, mcp_config={"mcpServers": servers()}, **options) as agent:
        started = time.perf_counter()
        await agent.ask(task.question)
        seconds = time.perf_counter() - started
        results = [
            result.text for message in agent.messages for result in message.tool_results
        ]
        written = [message for message in agent.messages if message.role == "assistant"]
    sent = 0
    for request in model.requests:
        sent += tokens(request.system)
        sent += sum(
            tokens({"n": t.name, "d": t.description, "p": t.parameters})
            for t in request.tools
        )
        for message in request.messages:
            for part in message.parts:
                match part:
                    case ToolCall(name=name, arguments=arguments):
                        sent += tokens({"args": arguments, "name": name})
                    case ToolResult():
                        sent += tokens(part.text)
                    case ToolsChanged() | ToolsShown():
                        pass
                    case _:
                        sent += tokens(getattr(part, "text", ""))
    out = sum(
        tokens(call.arguments) + tokens(call.name)
        for message in written
        for call in message.tool_calls
    )
    is_right = any(map(task.is_answered_by, results))
    return Measured(len(model.requests), sent, out, seconds, int(is_right))


async def in_programs(task: Task) -> Measured:
    """mcpagent's code mode, as its prompt says: a search, and the program.

    A program that parses results follows a look at one of them. Short results of independent calls are printed whole.
    """
    from mcpagent import ToolCall

    replies = [ToolCall("", "search_tools", {"query": task.query})]
    if task.kind == "independent" and task.prints:
        code = f"{task.imports}\n{task.prints}"
        return await ours(
            task, [*replies, ToolCall("", "run_code", {"code": code})], code_mode=True
        )
    if task.kind != "one call":
        name, arguments = task.calls[0]
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        look = f"from tools.{task.server} import {name}\nawait {name}({given})"
        replies.append(ToolCall("", "run_code", {"code": look}))
    replies.append(ToolCall("", "run_code", {"code": task.program}))
    return await ours(task, replies, code_mode=True)


async def directly(task: Task) -> Measured:
    """mcpagent's tool search at its best: found tools are loaded at once, and independent calls are one request."""
    from mcpagent import ToolCall, ToolSearch

    replies: list[Any] = [ToolCall("", "search_tools", {"query": task.query})]
    replies += [
        [ToolCall("", name, arguments) for name, arguments in calls]
        for calls in task.rounds
    ]
    return await ours(
        task, replies, tool_search=ToolSearch(enabled=True, load="search")
    )


async def all_tasks(
    system: Callable[[Task], Awaitable[Measured]], made: Sequence[Task]
) -> Measured:
    """The sum over all."""
    total = Measured()
    for task in made:
        total = total.plus(await system(task))
    return total


async def longest_holds() -> list[tuple[float, str]]:
    """For how many milliseconds each hostile program held the event loop, the longest first."""
    from mcpagent.code_mode.code_options import CodeMode
    from mcpagent.code_mode.program_source import ProgramError
    from tests.code_mode.hostile_programs import ESCAPES, FLOODS
    from tests.code_mode.test_sandbox_hostile import outcome

    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        before = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest, before = max(longest, now - before), now

    beating = asyncio.create_task(beat())
    await asyncio.sleep(0.01)
    longest = 0.0
    await asyncio.sleep(20.0)
    found: list[tuple[float, str]] = [
        (1_000 * longest, "(20 seconds of nothing, on this machine)")
    ]
    for program in (*ESCAPES, *FLOODS):
        await asyncio.sleep(0.01)
        longest = 0.0
        try:
            await outcome(
                program.replace("{{", "{").replace("}}", "}"),
                CodeMode(seconds=0.3, memory_mb=64),
            )
        except ProgramError:
            continue
        found.append((1_000 * longest, program.splitlines()[-1][:60]))
    beating.cancel()
    return sorted(found, reverse=True)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sandbox",
        action="store_true",
        help="how long hostile programs hold the event loop",
    )
    if parser.parse_args().sandbox:
        holds = asyncio.run(longest_holds())
        print(
            f"{len(holds) - 1} hostile programs; the longest holds of the event loop, ms"
        )
        nothing = [one for one in holds if one[1].startswith("(")]
        for milliseconds, program in [*nothing, *holds[:5]]:
            print(f"{milliseconds:8.1f}  {program}")
        return
    systems: dict[str, Callable[[Task], Awaitable[Measured]]] = {
        "mcpagent, code mode": in_programs,
        "mcpagent, direct calls": directly,
    }
    from benchmarks.code_peers import fastmcp_mode, harness_mode

    if importlib.util.find_spec("fastmcp") is not None:
        systems[f"fastmcp {importlib.metadata.version('fastmcp')}"] = fastmcp_mode
    if importlib.util.find_spec("pydantic_ai_harness") is not None:
        systems[
            f"pydantic-ai-harness {importlib.metadata.version('pydantic-ai-harness')}"
        ] = harness_mode
    made = asyncio.run(tasks())
    for kind in ("one call", "independent", "dependent"):
        chosen = [task for task in made if task.kind == kind]
        print(
            f"{f'{len(chosen)} tasks, {kind}':28}{'right':>6}{'requests':>10}{'tokens in':>11}{'out':>7}{'seconds':>9}"
        )
        rows = {
            name: asyncio.run(all_tasks(system, chosen))
            for name, system in systems.items()
        }
        for name, found in rows.items():
            right = (
                "-" if systems[name] is directly else found.right
            )  # its answer would be the model's own
            line = f"{right:>6}{found.requests:>10}{found.tokens_in:>11,}{found.tokens_out:>7,}{found.seconds:>9.2f}"
            print(f"{name:28}{line}")
        programs, direct = rows["mcpagent, code mode"], rows["mcpagent, direct calls"]
        share = (programs.tokens_in + programs.tokens_out) / (
            direct.tokens_in + direct.tokens_out
        )
        print(
            f"of direct calls: {share:.0%} of the tokens, {programs.requests / direct.requests:.0%} of the requests"
        )


if __name__ == "__main__":
    main()
