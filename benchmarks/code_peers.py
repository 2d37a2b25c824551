# mypy: disable-error-code="import-not-found, no-any-return, misc, unused-ignore, import-untyped"
"""The peers of `benchmarks/code.py`: the same tasks in their own code modes, each as its documentation shows it."""

from __future__ import annotations

import re
import time
from typing import Any

from benchmarks.code import Measured, tokens
from benchmarks.code_tasks import FUNCTIONS, Task

_CALL = re.compile(r"await (\w+)\(([^()]*(?:\[[^\]]*\][^()]*)*)\)")
SYSTEM = "You are a helpful assistant that completes the user's task with the tools at hand."


async def fastmcp_mode(task: Task) -> Measured:
    """FastMCP's `CodeMode` transform, by a client that does what its instructions say: search, schemas, execute."""
    from fastmcp import Client, FastMCP
    from fastmcp.experimental.transforms.code_mode import CodeMode

    server = FastMCP("shop", transforms=[CodeMode()])
    for function in FUNCTIONS:
        server.tool(function)
    body = _CALL.sub(_as_call_tool, task.body)
    lines = body.split("\n")
    lines[-1] = f"return {lines[-1]}"
    replies: list[tuple[str, dict[str, Any]]] = [
        ("search", {"query": " ".join(task.functions).replace("_", " ")}),
        ("get_schema", {"tools": [*task.functions]}),
        ("execute", {"code": "\n".join(lines)}),
    ]
    started = time.perf_counter()
    async with Client(server) as client:
        listed = await client.list_tools()
        fixed = tokens(SYSTEM) + tokens(task.question)
        fixed += sum(tokens({"n": t.name, "d": t.description, "p": t.input_schema}) for t in listed)
        history, sent, out, last = 0, 0, 0, ""
        for name, arguments in replies:
            sent += fixed + history
            written = tokens(arguments) + tokens(name)
            result = await client.call_tool(name, arguments, raise_on_error=False)
            last = "\n".join(getattr(part, "text", "") for part in result.content)
            history += written + tokens(last)
            out += written
        sent += fixed + history
    seconds = time.perf_counter() - started
    return Measured(len(replies) + 1, sent, out, seconds, _is_right(task, last))


def _as_call_tool(found: re.Match[str]) -> str:
    arguments = re.sub(r"(\w+)=(?!=)", r'"\1": ', found[2])
    returns = next(str(one.__annotations__["return"]) for one in FUNCTIONS if one.__name__ == found[1])
    inside = "" if returns.startswith("dict") else '["result"]'  # what is no object is wrapped into one
    return f'(await call_tool("{found[1]}", {{{arguments}}})){inside}'


def _is_right(task: Task, said: str) -> int:
    """Whether the answer is in it, however it is quoted and spaced."""

    def plain(text: str) -> str:
        return re.sub(r"[\s\"'()\[\]]", "", text)

    return int(plain(task.answer) in plain(said))


async def harness_mode(task: Task) -> Measured:
    """pydantic-ai-harness: all signatures stand in `run_code`, so one program is the first thing that is written."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel
    from pydantic_ai_harness import CodeMode

    seen: list[int] = []
    said: list[str] = []

    def answer(messages: list[Any], info: AgentInfo) -> ModelResponse:
        fixed = sum(
            tokens({"n": t.name, "d": t.description, "p": t.parameters_json_schema}) for t in info.function_tools
        )
        fixed += tokens(info.instructions or "")
        parts = [part for message in messages for part in message.parts]
        seen.append(fixed + sum(tokens(_of_part(part)) for part in parts))
        said.extend(str(part.content) for part in parts if part.part_kind in ("tool-return", "retry-prompt"))
        if len(seen) > 1:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("run_code", {"code": task.body})])

    agent = Agent(FunctionModel(answer), instructions=SYSTEM, tools=[*FUNCTIONS], capabilities=[CodeMode()])
    started = time.perf_counter()
    await agent.run(task.question)
    seconds = time.perf_counter() - started
    out = tokens({"code": task.body}) + tokens("run_code")
    return Measured(len(seen), sum(seen), out, seconds, max((_is_right(task, one) for one in said), default=0))


def _of_part(part: Any) -> Any:
    """What of a message's part is sent."""
    return {"args": part.args, "name": part.tool_name} if part.part_kind == "tool-call" else str(part.content)
