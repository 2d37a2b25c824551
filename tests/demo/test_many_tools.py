"""The servers with hundreds of narrow tools: every one of them works, and says what it takes."""

from __future__ import annotations

import re

import pytest

from mcpagent import Agent, RunOptions
from mcpagent.demo import DemoToolError
from mcpagent.demo.many_tools import THEMES, GeneratedTool, catalog_config
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models import ScriptedModel
from mcpagent.run.validation import argument_problem
from tests.tables import each_row

ARGUMENTS = {"value": 3, "city": "Tokyo"}


def tools(theme: str) -> list[GeneratedTool]:
    return list(THEMES[theme][0]())


def test_there_are_a_thousand_and_no_two_have_one_name() -> None:
    names = [tool.name for theme in THEMES for tool in tools(theme)]
    assert len(names) == len(set(names)) > 1_000
    assert all(re.fullmatch(r"[a-z0-9_]{1,64}", name) for name in names)


@each_row("theme", THEMES)
def test_every_tool_works_with_what_it_asks_for(theme: str) -> None:
    for tool in tools(theme):
        given = {name: ARGUMENTS[name] for name in tool.properties}
        schema = {"type": "object", "properties": tool.properties, "required": list(tool.properties)}
        assert argument_problem(schema, given) == ""
        assert tool.run(**given), tool.name


def test_they_answer_rightly_and_say_what_is_wrong() -> None:
    converter = {tool.name: tool for tool in tools("converter")}
    assert converter["convert_kilometres_to_miles"].run(42) == "42 kilometre = 26.0976 mile"
    assert converter["convert_celsius_to_fahrenheit"].run(100) == "100 celsius = 212 fahrenheit"
    atlas = {tool.name: tool for tool in tools("atlas")}
    assert "Tokyo" in atlas["distance_from_paris"].run("Tokyo")
    with pytest.raises(DemoToolError, match="did you mean"):
        atlas["distance_from_paris"].run("Portugl")


@pytest.mark.slow
async def test_a_server_lists_and_runs_them() -> None:
    config = {"mcpServers": {"atlas": catalog_config()["mcpServers"]["atlas"]}}
    async with Agent(
        ScriptedModel([]), mcp_config=config, options=RunOptions(servers=ServerOptions(startup_seconds=None))
    ) as agent:
        assert len(agent.known_tools) == len(tools("atlas"))
        distance = agent._runtime.tools.find("distance_from_paris")
        assert distance is not None
        assert distance.definition.read_only
        told = await distance.run({"city": "Tokyo"})
        assert "km" in str(told.content)
        wrong = await distance.run({"city": "Atlantis"})
        assert wrong.error == "failed"
