"""`python -m tests.code_mode.unkept_program FOLDER BEFORE [resume]`: die in the third write of a program.

BEFORE is the first line of the program. Each write appends its number to FOLDER/writes. The third one waits until the
store has the result of the second, which runs at the same time, and kills the process. With `resume` the session
continues, and its last result is printed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from mcpagent import Agent, ScriptedModel, Sessions, ToolCall
from mcpagent.journal.sessions.saved_state import progress_from_json

PROGRAM = """import asyncio
from tools.functions import write
first = await write(n=1)
await asyncio.gather(write(n=2), write(n=3))"""


async def main(folder: Path, before: str, how: str = "") -> None:
    store = Sessions(folder / "sessions.db")

    def has_result(n: int) -> bool:
        known = map(progress_from_json, store.read("it").calls.values())
        return any(one.parts and f'"n": {n}' in one.shown for one in known)

    async def write(n: int) -> str:
        """Write a number."""
        with (folder / "writes").open("a") as file:
            file.write(f"{n}\n")
        if n == 3:
            async with asyncio.timeout(60):
                while not has_result(2):  # noqa: ASYNC110 - the store of another thread
                    await asyncio.sleep(0)
            os.kill(os.getpid(), signal.SIGKILL)
        return f"written {n}"

    search = ToolCall("a", "search_tools", {"query": "write"})
    run = ToolCall("b", "run_code", {"code": f"{before}\n{PROGRAM}"})
    model = ScriptedModel(["done"] if how else [search, run])
    async with Agent(model, tools=[write], code_mode=True, sessions=store) as agent:
        session = agent.session("it")
        await (session.resume() if how else session.ask("go"))
        print([result.text for message in session.messages for result in message.tool_results][-1])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
