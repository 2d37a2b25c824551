"""The classes that users meet stay small: parameters and public names are counted, inherited ones too."""

from __future__ import annotations

import inspect
from typing import Any

from mcpagent import Agent, CodeMode, RunContext, ScriptedModel, Session, ToolCall, ToolSearch
from tests.tables import each_row

MOST_PARAMETERS = 12
MOST_NAMES: dict[type, int] = {Agent: 25, Session: 22, RunContext: 14}


def public_names(owner: object) -> list[str]:
    return [name for name in dir(owner) if not name.startswith("_")]


def test_an_agent_has_few_parameters() -> None:
    parameters = inspect.signature(Agent).parameters
    assert len(parameters) <= MOST_PARAMETERS, f"{len(parameters)} parameters: {' '.join(parameters)}"
    assert {"with_tool_search_mode", "pre_discovered_tools"} <= parameters.keys()


@each_row("owner", MOST_NAMES)
def test_a_class_has_few_public_names(owner: type) -> None:
    names = public_names(owner)
    assert len(names) <= MOST_NAMES[owner], f"{len(names)} names: {' '.join(names)}"


async def test_values_have_the_names_of_their_class() -> None:
    """What a constructor or a run adds would be public as well."""
    seen: list[RunContext] = []

    def look(context: RunContext) -> str:
        """Look."""
        seen.append(context)
        return "seen"

    async with Agent(ScriptedModel([ToolCall("1", "look", {}), "done"]), [look]) as agent:
        await agent.ask("look")
        assert public_names(agent) == public_names(Agent)
        assert public_names(agent.session()) == public_names(Session)
    assert public_names(seen[0]) == public_names(RunContext)


def count(word: str) -> int:
    """Count the letters of a word."""
    return len(word)


@each_row(
    "options, virtual",
    [
        ({}, []),
        ({"tool_search": True}, ["search_tools", "add_tool"]),
        ({"tool_search": ToolSearch()}, ["search_tools", "add_tool"]),
        ({"with_tool_search_mode": True}, ["search_tools", "add_tool"]),
        ({"tool_search": "auto"}, []),
        ({"with_tool_search_mode": "auto"}, []),
        ({"tool_search": False, "with_tool_search_mode": True}, []),
        ({"code_mode": True}, ["search_tools", "run_code"]),
        ({"code_mode": CodeMode(), "tool_search": "auto"}, ["search_tools", "run_code"]),
        ({"code_mode": False}, []),
    ],
)
async def test_a_switch_is_one_parameter(options: dict[str, Any], virtual: list[str]) -> None:
    model = ScriptedModel(["done"])
    async with Agent(model, [count], **options) as agent:
        await agent.ask("go")
    offered = [tool.name for tool in model.requests[0].tools]
    assert [name for name in offered if name != "count"] == virtual
