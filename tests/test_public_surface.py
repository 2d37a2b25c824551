"""The classes that users meet stay small: parameters and public names are counted, inherited ones too."""

from __future__ import annotations

import inspect

from mcpagent import Agent, RunContext, ScriptedModel, Session, ToolCall
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
