"""`python -m tests.code_mode.killed_program FOLDER CALL`: ten calls of a program, in one of which its process dies.

Each call writes its number into FOLDER/calls; in call CALL the process is killed, before or after that (`CALL+`). With
`-` it goes on with the session, and prints what the model was told.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from mcpagent import Agent, ScriptedModel, SessionStore, ToolCall
from mcpagent.messages import ToolDefinition
from mcpagent.tools import Tool, ToolOutput

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


async def main(folder: Path, dies_in: str) -> None:
    first = [
        ToolCall("", "search_tools", {"query": "step"}),
        ToolCall("", "run_code", {"code": "kept = 100\nprint(1)"}),
    ]
    script: list[Any] = ["done"] if dies_in == "-" else [*first, ToolCall("", "run_code", {"code": PROGRAM}), "done"]
    model = ScriptedModel(script)
    store = SessionStore(folder / "sessions.db")
    async with Agent(model, tools=[step(folder, dies_in)], with_code_mode=True, sessions=store) as agent:
        session = agent.session("it")
        print(await (session.resume() if dies_in == "-" else session.ask("go")))
        results = [result.text for message in session.messages for result in message.tool_results]
        print(results[-1])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
