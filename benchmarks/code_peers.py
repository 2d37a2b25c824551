# mypy: disable-error-code="import-not-found, no-any-return, misc, unused-ignore, import-untyped"
"""The peers of `benchmarks/code.py`: the same tasks in their own code modes, each as its documentation shows it."""

from __future__ import annotations

import ast
import re
import time
from typing import Any

from benchmarks.code_measured import Measured, tokens
from benchmarks.code_tasks import GIVE_JSON, Task, servers

SYSTEM = (
    "You are a helpful assistant that completes the user's task with the tools at hand."
)


async def fastmcp_mode(task: Task) -> Measured:
    """FastMCP's `CodeMode` transform, by a client that does what its instructions say: search, schemas, execute."""
    from fastmcp import Client
    from fastmcp.experimental.transforms.code_mode import CodeMode
    from fastmcp.server import create_proxy

    # Its proxy lists all tools again at each call, so it gets that server alone which the task needs.
    server = create_proxy(
        {"mcpServers": {task.server: servers()[task.server]}}, name="all"
    )
    server.add_transform(CodeMode())
    body = _with_call_tool(task)
    replies: list[tuple[str, dict[str, Any]]] = [
        ("search", {"query": " ".join(task.functions).replace("_", " ")}),
        ("get_schema", {"tools": [*task.functions]}),
        ("execute", {"code": body}),
    ]
    async with Client(server) as client:
        listed = await client.list_tools()
        started = time.perf_counter()
        fixed = tokens(SYSTEM) + tokens(task.question)
        fixed += sum(
            tokens({"n": t.name, "d": t.description, "p": t.input_schema})
            for t in listed
        )
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


def _with_call_tool(task: Task) -> str:
    """The program with `call_tool("name", {...})` in the place of calls by name, and `return` at its end."""

    class Rewriting(ast.NodeTransformer):
        def visit_Await(self, node: ast.Await) -> ast.AST:
            call = node.value
            assert isinstance(call, ast.Call)
            assert isinstance(call.func, ast.Name)
            keys: list[ast.expr | None] = [
                ast.Constant(keyword.arg) for keyword in call.keywords
            ]
            given = ast.Dict(keys, [keyword.value for keyword in call.keywords])
            made = ast.Await(
                ast.Call(ast.Name("call_tool"), [ast.Constant(call.func.id), given], [])
            )
            loads = ast.Attribute(ast.Name("json"), "loads")
            return ast.Call(loads, [made], []) if call.func.id in GIVE_JSON else made

    tree = Rewriting().visit(ast.parse(task.body))
    tree.body[-1] = ast.Return(tree.body[-1].value)
    source = ast.unparse(ast.fix_missing_locations(tree))
    return f"import json\n{source}" if "json." in source else source


def _is_right(task: Task, said: str) -> int:
    """Whether the answer is in it, however it is quoted and spaced."""

    def plain(text: str) -> str:
        return re.sub(r"[\s\"'()\[\]]", "", text)

    return int(plain(task.answer) in plain(said))


async def harness_mode(task: Task) -> Measured:
    """pydantic-ai-harness: all signatures stand in `run_code`, so one program is the first thing that is written."""
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel
    from pydantic_ai_harness import CodeMode

    seen: list[int] = []
    said: list[str] = []

    def answer(messages: list[Any], info: AgentInfo) -> ModelResponse:
        fixed = sum(
            tokens({"n": t.name, "d": t.description, "p": t.parameters_json_schema})
            for t in info.function_tools
        )
        fixed += tokens(info.instructions or "")
        parts = [part for message in messages for part in message.parts]
        seen.append(fixed + sum(tokens(_of_part(part)) for part in parts))
        said.extend(
            str(part.content)
            for part in parts
            if part.part_kind in ("tool-return", "retry-prompt")
        )
        if len(seen) > 1:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("run_code", {"code": task.body})])

    toolsets = [
        MCPToolset({"mcpServers": {name: server}}) for name, server in servers().items()
    ]
    agent = Agent(
        FunctionModel(answer),
        instructions=SYSTEM,
        toolsets=toolsets,
        capabilities=[CodeMode()],
    )
    async with agent:
        started = time.perf_counter()
        await agent.run(task.question)
        seconds = time.perf_counter() - started
    out = tokens({"code": task.body}) + tokens("run_code")
    return Measured(
        len(seen),
        sum(seen),
        out,
        seconds,
        max((_is_right(task, one) for one in said), default=0),
    )


def _of_part(part: Any) -> Any:
    """What of a message's part is sent."""
    return (
        {"args": part.args, "name": part.tool_name}
        if part.part_kind == "tool-call"
        else str(part.content)
    )
