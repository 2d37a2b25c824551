"""`selected_servers` and `selected_tools`."""

import pytest

from mcpagent import ConfigError, Tool, ToolDefinition, ToolOutput
from mcpagent.selection import Selection


def tool(server: str | None, name: str) -> Tool:
    async def run(arguments: dict[str, object]) -> ToolOutput:
        return ToolOutput(())

    return Tool(ToolDefinition(name, "", {}, server=server, original_name=name), run)


TOOLS = [tool("git", "status"), tool("git", "log"), tool("time", "now"), tool(None, "local")]


def names(selection: Selection) -> list[str]:
    return [item.name for item in selection.of(TOOLS)]


def test_nothing_selected_is_everything() -> None:
    assert names(Selection(None, None)) == ["status", "log", "now", "local"]


def test_tools_by_name_and_by_star() -> None:
    selection = Selection(None, ["git:log", "time:*"])
    assert names(selection) == ["log", "now", "local"]
    assert selection.has_server("git")
    assert not selection.has_server("slack")


def test_servers_narrow_what_is_connected() -> None:
    selection = Selection(["time"], None)
    assert selection.has_server("time")
    assert not selection.has_server("git")


@pytest.mark.parametrize(
    ("servers", "tools", "words"),
    [
        (["gti"], None, 'selected server "gti" is not configured; did you mean "git"?'),
        (None, ["slack:*"], 'selected server "slack" is not configured; configured: git, time'),
    ],
)
def test_a_server_that_is_not_configured_is_named(
    servers: list[str] | None, tools: list[str] | None, words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Selection(servers, tools).check(["time", "git"])
    assert str(caught.value) == words


@pytest.mark.parametrize("item", ["git", "git:", ":log", ""])
def test_a_malformed_tool_is_named(item: str) -> None:
    with pytest.raises(ConfigError, match="is not"):
        Selection(None, [item])


def test_a_string_is_not_a_list() -> None:
    with pytest.raises(ConfigError, match="expected a list"):
        Selection("git", None)
