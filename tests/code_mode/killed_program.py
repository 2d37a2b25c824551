"""`python -m tests.code_mode.killed_program FOLDER CALL [durable]`: ten calls of a program, in one of which it dies.

Each call writes its number into FOLDER/calls; in call CALL the process is killed, before or after that (`CALL+`); at
`end` when the program is over, and its result is not written. With `-` it goes on with the session, and prints what the
model was told. As a `durable` run nobody has to go on with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from mcpagent import Agent, RunOptions, ScriptedModel, Sessions, ToolCall
from mcpagent.agents.durable import DurableRuns
from mcpagent.values.events import Event, ToolCallFinished
from mcpagent.values.messages import ToolDefinition
from mcpagent.values.tools import Tool, ToolOutput

PROGRAM = """from tools.functions import step
total = kept
for n in range(5):
    total += await step(n=n)
print("half")
for n in range(5, 10):
    total += await step(n=n)
total"""


def step(folder: Path, dies_in: str) -> Tool:
    async def run(arguments: dict[str, int]) -> ToolOutput:
        n = arguments["n"]
        if dies_in == str(n):
            os.kill(os.getpid(), signal.SIGKILL)
        with (folder / "calls").open("a") as file:
            file.write(f"{n}\n")
        if dies_in == f"{n}+":
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(0)
        return ToolOutput.of_text(str(n), error=None) if n < 0 else ToolOutput((), structured=n)

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    return Tool(ToolDefinition("step", "One step.", schema), run, safe_to_repeat="+" not in dies_in)


async def main(folder: Path, dies_in: str, how: str = "") -> None:
    searched = ToolCall("a", "search_tools", {"query": "step"})
    programs = ["kept = 100\nprint(1)", PROGRAM]
    script: list[Any] = [searched, *(ToolCall(f"run {n}", "run_code", {"code": one}) for n, one in enumerate(programs))]
    # Each answer by what there is so far, since a durable run begins again at its beginning.
    model = ScriptedModel(
        [lambda request: [*script, "done"][sum(bool(one.tool_results) for one in request.messages)]] * 9
    )
    store, durable = Sessions(folder / "sessions.db"), DurableRuns(folder / "runs.db")
    wrappers = [durable] if how else []

    def hear(event: Event) -> None:
        if dies_in == "end" and isinstance(event, ToolCallFinished) and event.call.id == "run 1":
            os.kill(os.getpid(), signal.SIGKILL)

    about: dict[str, Any] = {"sessions": store, "options": RunOptions(wrappers=wrappers), "on_event": hear}
    agent = Agent(model, tools=[step(folder, dies_in)], code_mode=True, **about)
    async with agent:
        if how:
            async with durable.serving(agent):
                run = await durable.start("go", session="it", run="the run")
                result = await run.result(60)
                print(result.answer)
                counted = result.spent.tool_calls
            messages = store.read("it").messages
        else:
            session = agent.session("it")
            print(await (session.resume() if dies_in == "-" else session.ask("go")))
            messages, counted = session.messages, session.spent.tool_calls
        (folder / "counted").write_text(str(counted))
        print([result.text for message in messages for result in message.tool_results][-1])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
