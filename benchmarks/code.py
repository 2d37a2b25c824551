"""Ten tasks of 5 to 30 calls, solved by a program and by calling one by one: requests, tokens, seconds.

    python -m benchmarks.code [--sandbox]

The model is scripted in each system, with the same programs: what is measured is what a framework puts around them.
Tokens are characters / 4 of what a request holds (system prompt, definitions, messages, all of it again at each
request, as providers count) and of what the model writes. The tools are those of the bundled server, and of three
services of the example's catalogue where `botocore` is installed; without it eight tasks are left. Seconds are those
from the question on, with servers that run. One by one is mcpagent's own tool search: a search, what it
adds, one call a request, since each depends on what was read before. Peers are measured if they are installed:
`pip install botocore 'fastmcp[code-mode]' 'pydantic-ai-harness[code-mode]'`, each with its own code mode over the same
servers. `--sandbox` measures instead how long the event loop is held by the hostile programs of the tests.
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
    is_right = any(task.answer in result for result in results)
    return Measured(len(model.requests), sent, out, seconds, int(is_right))


async def in_programs(task: Task) -> Measured:
    """mcpagent's code mode: a search and a program."""
    from mcpagent import ToolCall

    replies = [
        ToolCall("", "search_tools", {"query": f"select:{','.join(task.functions)}"}),
        ToolCall("", "run_code", {"code": task.program}),
    ]
    return await ours(task, replies, code_mode=True)


async def one_by_one(task: Task) -> Measured:
    """mcpagent's tool search: the calls that the program makes, one a request."""
    from mcpagent import ToolCall

    replies = [
        ToolCall("", "search_tools", {"query": f"select:{','.join(task.functions)}"}),
        ToolCall("", "add_tool", {"tool_names": [*task.functions]}),
        *(ToolCall("", name, arguments) for name, arguments in task.calls),
    ]
    return await ours(task, replies, with_tool_search_mode=True)


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
        "mcpagent, one by one": one_by_one,
    }
    from benchmarks.code_peers import fastmcp_mode, harness_mode

    if importlib.util.find_spec("fastmcp") is not None:
        systems[f"fastmcp {importlib.metadata.version('fastmcp')}"] = fastmcp_mode
    if importlib.util.find_spec("pydantic_ai_harness") is not None:
        systems[
            f"pydantic-ai-harness {importlib.metadata.version('pydantic-ai-harness')}"
        ] = harness_mode
    made = asyncio.run(tasks())
    print(
        f"{f'{len(made)} tasks':28}{'right':>6}{'requests':>10}{'tokens in':>11}{'out':>7}{'seconds':>9}"
    )
    rows: dict[str, Measured] = {}
    for name, system in systems.items():
        found = rows[name] = asyncio.run(all_tasks(system, made))
        right = (
            "-" if system is one_by_one else found.right
        )  # its answer would be the model's own
        line = f"{right:>6}{found.requests:>10}{found.tokens_in:>11,}{found.tokens_out:>7,}{found.seconds:>9.2f}"
        print(f"{name:28}{line}")
    ours_, single = rows["mcpagent, code mode"], rows["mcpagent, one by one"]
    taken, of = ours_.tokens_in + ours_.tokens_out, single.tokens_in + single.tokens_out
    print(
        f"of calling one by one: {taken / of:.0%} of the tokens, {ours_.requests / single.requests:.0%} of the requests"
    )


if __name__ == "__main__":
    main()
