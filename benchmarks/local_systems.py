# mypy: disable-error-code="import-not-found, no-any-return, misc, untyped-decorator, unused-ignore"
"""The agents that `benchmarks/local.py` measures: `python local_systems.py SYSTEM ADDRESS MODEL COMMAND...`.

Each reads one request a line, as JSON, and answers it in a conversation of its own, with the tools of the MCP server
that COMMAND starts; prints `{"answer": ...}` or `{"error": ...}` for each.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

INSTRUCTIONS = "You are a helpful assistant. Use the tools to answer."
LIMIT_SECONDS = 420.0

Ask: TypeAlias = Callable[[str], Awaitable[str]]
System: TypeAlias = Callable[
    [str, str, Sequence[str]], AbstractAsyncContextManager[Ask]
]


@asynccontextmanager
async def mcpagent_system(
    address: str,
    model: str,
    command: Sequence[str],
    *,
    mode: Any = "auto",
    profile: str = "",
) -> AsyncIterator[Ask]:
    from mcpagent import Agent

    servers = {"demo": {"command": command[0], "args": list(command[1:])}}
    spec = f"llamacpp:{model}?base_url={address}" + (
        f"&profile={profile}" if profile else ""
    )
    async with Agent(
        spec, mcp_config={"mcpServers": servers}, with_tool_search_mode=mode
    ) as agent:

        async def ask(prompt: str) -> str:
            return await agent.session().ask(prompt)

        yield ask


@asynccontextmanager
async def pydantic_ai_system(
    address: str, model: str, command: Sequence[str]
) -> AsyncIterator[Ask]:
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    tools = MCPToolset(StdioTransport(command[0], list(command[1:])))
    provider = OpenAIProvider(base_url=address, api_key="none")
    agent = Agent(
        OpenAIChatModel(model, provider=provider),
        instructions=INSTRUCTIONS,
        toolsets=[tools],
    )
    async with agent:

        async def ask(prompt: str) -> str:
            return str((await agent.run(prompt)).output)

        yield ask


@asynccontextmanager
async def openai_agents_system(
    address: str, model: str, command: Sequence[str]
) -> AsyncIterator[Ask]:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
    from agents.mcp import MCPServerStdio
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=address, api_key="none")
    params = {"command": command[0], "args": list(command[1:])}
    async with MCPServerStdio(
        params=params, client_session_timeout_seconds=60
    ) as server:
        chat = OpenAIChatCompletionsModel(model, openai_client=client)
        agent = Agent(
            name="local", instructions=INSTRUCTIONS, model=chat, mcp_servers=[server]
        )

        async def ask(prompt: str) -> str:
            return str((await Runner.run(agent, prompt)).final_output)

        yield ask


@asynccontextmanager
async def fast_agent_system(
    address: str, model: str, command: Sequence[str]
) -> AsyncIterator[Ask]:
    from fast_agent import FastAgent
    from fast_agent.config import (
        GenericSettings,
        LoggerSettings,
        MCPServerSettings,
        MCPSettings,
        Settings,
    )

    server = MCPServerSettings(name="demo", command=command[0], args=list(command[1:]))
    settings = Settings(
        logger=LoggerSettings(
            type="none", progress_display=False, show_chat=False, show_tools=False
        ),
        mcp=MCPSettings(servers={"demo": server}),
        generic=GenericSettings(api_key="none", base_url=address),
    )
    fast = FastAgent("local", parse_cli_args=False, quiet=True, config_path=None)
    fast.app._config_or_path = settings

    @fast.agent(
        name="local",
        instruction=INSTRUCTIONS,
        servers=["demo"],
        model=f"generic.{model}",
        use_history=False,
    )
    async def _local() -> None:
        """Only declared."""

    async with fast.run() as app:

        async def ask(prompt: str) -> str:
            return str(await app.local.send(prompt))

        yield ask


SYSTEMS: Mapping[str, System] = {
    "mcpagent": mcpagent_system,
    "mcpagent, search on": partial(mcpagent_system, mode=True),
    "mcpagent, search off": partial(mcpagent_system, mode=False),
    "mcpagent, as with large models": partial(
        mcpagent_system, mode=True, profile="large"
    ),
    "pydantic-ai": pydantic_ai_system,
    "openai-agents": openai_agents_system,
    "fast-agent": fast_agent_system,
}


async def main() -> None:
    system, address, model, *command = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a framework prints is no answer
    requests = [json.loads(line) for line in sys.stdin]
    async with SYSTEMS[system](address, model, command) as ask:
        for request in requests:
            try:
                async with asyncio.timeout(LIMIT_SECONDS):
                    done = {"answer": await ask(request)}
            except Exception as error:  # noqa: BLE001 - whatever a framework raises
                done = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
            print(json.dumps(done), file=out, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
