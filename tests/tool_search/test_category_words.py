"""What a category line says of a server: its own words if they say something, else the words of its tools."""

from __future__ import annotations

from functools import cache

from benchmarks.search_everyday import load_tools
from hypothesis import given
from hypothesis import strategies as st

from mcpagent.models.scripted import ScriptedModel
from mcpagent.tool_search.category_words import characteristic_words, own_words
from mcpagent.values.messages import ToolDefinition
from tests.scenes import CountedTools, call, results, searching_agent
from tests.tables import each_row


def tools_of(server: str, *names: str) -> list[ToolDefinition]:
    return [ToolDefinition(name, f"{name.replace('_', ' ')} of it", {}, server, name) for name in names]


FORGE = tools_of(
    "forge", "create_issue", "list_issues", "get_issue", "create_pull_request", "merge_pull_request", "fork_repository"
)


@cache
def real_servers() -> dict[str, list[ToolDefinition]]:
    servers: dict[str, list[ToolDefinition]] = {}
    for tool in load_tools():
        servers.setdefault(str(tool.server), []).append(tool)
    return servers


def test_the_word_of_most_tools_comes_first_and_pairs_stay_together() -> None:
    words = characteristic_words("forge", FORGE).split(", ")
    assert words[0] == "issue"
    assert {"pull request", "repository"} <= set(words)


@given(st.permutations(FORGE))
def test_the_order_of_the_tools_changes_nothing(tools: list[ToolDefinition]) -> None:
    assert characteristic_words("forge", tools) == characteristic_words("forge", FORGE)


def test_a_line_never_repeats_the_servers_name() -> None:
    for server, tools in real_servers().items():
        words = characteristic_words(server, tools).split(", ")
        assert words != [""], server
        assert server not in words


@each_row(
    "text, said",
    [
        ("forge-mcp-server", ""),
        ("Forge MCP", ""),
        ("Always be careful. Ask before you do anything.", ""),
        ("# Forge\nManage issues, pull requests and repositories.", "Manage issues, pull requests and repositories."),
        ("", ""),
    ],
)
def test_a_servers_own_words_are_taken_if_they_say_what_its_tools_are_for(text: str, said: str) -> None:
    assert own_words("forge", FORGE, "", text) == said


@each_row(
    "title, said",
    [
        ("Forge MCP Server", ""),
        ("forge", ""),
        ("the code and the tickets of a team", "the code and the tickets of a team"),
    ],
)
def test_a_title_is_taken_if_it_is_more_than_a_name(title: str, said: str) -> None:
    assert own_words("forge", FORGE, title, "") == said


async def test_the_prompt_says_what_a_server_without_a_description_is_for() -> None:
    tools = CountedTools("list_invoices", "send_invoice", "cancel_invoice", server="books")
    model = ScriptedModel([call("search_tools", query="zebra quantum"), "ok", "ok"])
    async with searching_agent(model, tools) as agent:
        await agent.ask("go")
        tools._tools.extend(CountedTools(*(f"paint_wall_{number}" for number in range(9)), server="books")._tools)
        await agent.ask("again")
    lines = [line for line in model.requests[0].system.splitlines() if line.startswith("- books")]
    [line] = lines
    assert line.startswith("- books (invoice")
    assert line.endswith(", 3 tools")
    assert line in results(model.requests[1].messages)[0].text.replace("\\n", "\n")
    assert model.requests[2].system == model.requests[0].system
