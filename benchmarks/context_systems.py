# mypy: disable-error-code="import-not-found, no-any-return, misc, unused-ignore"
"""The agents that `benchmarks/context_beside.py` has the same task done by: one conversation of sixty steps.

Each gives a function that asks one question in the conversation. `way` says what is done about its length: "without":
nothing; "large": large results are kept beside it; "compacted": it is compacted; "both".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

INSTRUCTIONS = "You read documents for the user, one after the other, and write a report at the end."
LARGE_STEPS = frozenset({5, 17, 29, 41, 53})
LARGE_CHARACTERS, USUAL_CHARACTERS = 120_000, 6_000

Ask: TypeAlias = Callable[[str], Awaitable[str]]
System: TypeAlias = Callable[[str, str, int], AbstractAsyncContextManager[Ask]]
"""By address of the model, way and window in tokens."""


async def read_document(number: int) -> str:
    """Reads a document by its number."""
    size = LARGE_CHARACTERS if number in LARGE_STEPS else USUAL_CHARACTERS
    line = f"Document {number}, paragraph {{}}: what was found there, and when it was found, in some words.\n"
    text = "".join(line.format(place) for place in range(size // len(line) + 1))
    return text[:size]


@asynccontextmanager
async def mcpagent_system(address: str, way: str, window: int) -> AsyncIterator[Ask]:
    from mcpagent import Agent, Compaction, RunOptions
    from mcpagent.models import OpenAIChatModel

    options = RunOptions(
        large_result_tokens=10_000 if way in ("large", "both") else 0,
        compaction=Compaction(window_tokens=window)
        if way in ("compacted", "both")
        else None,
    )
    model = OpenAIChatModel("m", provider="local", base_url=address)
    async with Agent(
        model, instructions=INSTRUCTIONS, tools=[read_document], options=options
    ) as agent:
        yield agent.session().ask
    await model.aclose()


@asynccontextmanager
async def pydantic_ai_system(address: str, way: str, window: int) -> AsyncIterator[Ask]:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    capabilities: list[Any] = []
    if way in (
        "compacted",
        "both",
    ):  # as the README of pydantic-ai-harness has it, cheap tier first
        from pydantic_ai_harness.compaction import (
            ClearToolResults,
            SummarizingCompaction,
            TieredCompaction,
        )

        tiers = [ClearToolResults(max_tokens=1), SummarizingCompaction(max_messages=1)]
        capabilities.append(
            TieredCompaction(tiers=tiers, target_fraction=0.8, context_window=window)
        )
    model = OpenAIChatModel(
        "m", provider=OpenAIProvider(base_url=address, api_key="none")
    )
    agent = Agent(
        model,
        instructions=INSTRUCTIONS,
        tools=[read_document],
        capabilities=capabilities,
    )
    messages: list[Any] = []

    async def ask(prompt: str) -> str:
        nonlocal messages
        result = await agent.run(prompt, message_history=messages)
        messages = result.all_messages()
        return result.output

    yield ask


@asynccontextmanager
async def fast_agent_system(address: str, way: str, window: int) -> AsyncIterator[Ask]:
    from fast_agent.agents.agent_types import AgentConfig
    from fast_agent.agents.tool_agent import ToolAgent
    from fast_agent.config import CompactionSettings, LoggerSettings, Settings
    from fast_agent.core import Core
    from fast_agent.core.direct_factory import _apply_auto_compaction_hook
    from fast_agent.llm.provider.openai.llm_generic import GenericLLM

    quiet = LoggerSettings(
        type="none",
        progress_display=False,
        show_chat=False,
        show_tools=False,
        streaming="none",
    )
    is_compacted = way in ("compacted", "both")
    compaction = CompactionSettings(auto=is_compacted, threshold=0.8)
    core = Core(
        settings=Settings(logger=quiet, compaction=compaction, session_history=False)
    )
    await core.initialize()

    def made(agent: Any, **options: Any) -> Any:
        return GenericLLM(
            agent=agent,
            name=agent.name,
            api_key="none",
            base_url=address,
            model="m",
            **options,
        )

    agent = ToolAgent(
        AgentConfig("reader", INSTRUCTIONS), [read_document], core.context
    )
    await agent.attach_llm(made)
    agent.usage_accumulator.set_context_window_size(window)
    if is_compacted:  # as its own factory does it for agents that it makes
        _apply_auto_compaction_hook(agent)
    yield agent.send
    await core.cleanup()


SYSTEMS: dict[str, System] = {
    "mcpagent": mcpagent_system,
    "pydantic-ai-slim": pydantic_ai_system,
    "fast-agent-mcp": fast_agent_system,
}
WAYS = {
    "mcpagent": ("without", "large", "compacted", "both"),
    "pydantic-ai-slim": ("without", "compacted"),
    "fast-agent-mcp": ("without", "compacted"),
}
