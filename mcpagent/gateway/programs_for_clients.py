"""Code mode for a client: an internal agent runs the programs, with a model that makes exactly the client's calls."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from mcpagent.gateway.asking_client import Caller
from mcpagent.gateway.gateway_calls import text_result
from mcpagent.gateway.offered_tools import OfferedTool
from mcpagent.gateway.upstreams import Upstreams
from mcpagent.mcp.result_content import output_of_call
from mcpagent.models.base import ModelRequest, ModelResponse
from mcpagent.values.events import Emit
from mcpagent.values.messages import Message, Text, ToolCall, Usage
from mcpagent.values.tools import Tool, ToolOutput, Toolset

if TYPE_CHECKING:
    from mcpagent.agents.agent import Agent
    from mcpagent.agents.session import Session

CallForProgram: TypeAlias = Callable[
    [Upstreams, Caller, str, dict[str, Any]], Awaitable[dict[str, Any]]
]


class _ClientsCalls:
    """A model that makes one call that was set before, and ends its answer after the result."""

    name = "gateway:client"

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self.call: ToolCall | None = None

    def next(self, name: str, arguments: dict[str, Any]) -> str:
        """Set the call of the next answer; return its ID."""
        self.call = ToolCall(f"call_{next(self._ids)}", name, arguments)
        return self.call.id

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:  # noqa: ARG002
        """Return the call, then a final answer."""
        call, self.call = self.call, None
        if call is None:
            end = Message("assistant", (Text("done"),))
            return ModelResponse(end, Usage(requests=1), "end", 0.0)
        calls = Message("assistant", (call,))
        return ModelResponse(calls, Usage(requests=1), "tool_calls", 0.0)

    def price_of(self, usage: Usage) -> float:  # noqa: ARG002
        """Return 0.0, because no provider is used."""
        return 0.0

    async def aclose(self) -> None:
        """Do nothing."""


class _OfUpstreams(Toolset):
    """The tools of a gateway's servers, under their servers' own names."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._made: tuple[Any, list[Tool]] = (None, [])

    async def tools(self) -> list[Tool]:
        """Return the tools; the same objects until a list changes."""
        offered = self._programs.offered()
        if self._made[0] is not offered:
            usable = [
                tool
                for tool in offered.values()
                if tool.withheld is None and "code" in tool.allowed_callers
            ]
            self._made = (offered, [*map(self._tool, usable)])
        return self._made[1]

    def _tool(self, tool: OfferedTool) -> Tool:
        run = partial(self._programs.run, tool.name)
        schema = tool.wire.get("outputSchema")
        return Tool(tool.shown, run, output_schema=schema)


class Programs:
    """The programs of one client. They share variables, and their calls follow the gateway's rules."""

    def __init__(
        self,
        offered: Callable[[], Any],
        call_for_program: CallForProgram,
        upstreams: Upstreams,
    ) -> None:
        self.offered = offered
        self._call_for_program = call_for_program
        self._upstreams = upstreams
        self._model = _ClientsCalls()
        self._agent: Agent | None = None
        self._session: Session[Any] | None = None
        self._caller: Caller | None = None
        self._alone = asyncio.Lock()

    async def call(
        self, caller: Caller, name: str, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        """Run `search_tools` or `run_code` for the client, one call at a time, because programs share variables."""
        async with self._alone:
            self._caller = caller
            session = await self._started()
            identity = self._model.next(name, arguments)
            result = await session.run(name)
            results = [
                found
                for message in result.messages
                for found in message.tool_results
                if found.call_id == identity
            ]
        texts = [
            part.text
            for found in results
            for part in found.content
            if isinstance(part, Text)
        ]
        answer = text_result("\n".join(texts))
        if any(found.error is not None for found in results):
            answer["isError"] = True
        return answer

    async def _started(self) -> Session[Any]:
        if self._session is None:
            from mcpagent.agents.agent import Agent

            self._agent = Agent(self._model, [_OfUpstreams(self)], code_mode=True)
            await self._agent.__aenter__()
            self._session = self._agent.session()
        return self._session

    async def run(self, name: str, arguments: dict[str, Any]) -> ToolOutput:
        """Call a tool for a program."""
        assert self._caller is not None
        result = await self._call_for_program(
            self._upstreams, self._caller, name, arguments
        )
        return output_of_call(result)

    async def close(self) -> None:
        """End the agent and its sandbox."""
        if self._agent is not None:
            await self._agent.__aexit__(None, None, None)
