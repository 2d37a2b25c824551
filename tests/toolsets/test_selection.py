"""`selected_servers` and `selected_tools`."""

import pytest

from mcpagent import ConfigError, Tool, ToolDefinition, ToolOutput
from mcpagent.toolsets.selection import Selection
from tests.tables import each_row


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


@each_row(
    "servers, tools, words",
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


@each_row("item", ["git", "git:", ":log", ""])
def test_a_malformed_tool_is_named(item: str) -> None:
    with pytest.raises(ConfigError, match="is not"):
        Selection(None, [item])


def test_a_string_is_not_a_list() -> None:
    with pytest.raises(ConfigError, match="expected a list"):
        Selection("git", None)


MANY = ["git_status", "git_log", "create_issue", "git_Push"]


@each_row(
    "pattern, words",
    [
        ("git:git_statsu", 'matches no tool of "git"; did you mean "git:git_status"?'),
        ("git:GIT_LOG", 'did you mean "git:git_log"?'),
        ("git:git_push", 'did you mean "git:git_Push"?'),
        ("git:git__create_issue", 'did you mean "git:create_issue"?'),
        ("git:mcp__git__create_issue", 'did you mean "git:create_issue"?'),
        ("git:issue*", 'did you mean "git:create_issue"?'),
        ("git:[!a]", '"git:[!a]" matches no tool of "git"; it has git_status, git_log, create_issue, ...'),
        ("git:zzz", "it has git_status, git_log, create_issue, ..."),
        ("time:then", 'matches no tool of "time"; it has now'),
    ],
)
def test_a_pattern_that_matches_nothing_is_told_with_what_was_meant(pattern: str, words: str) -> None:
    server = pattern.partition(":")[0]
    [line] = Selection(None, [pattern]).unmatched(server, MANY if server == "git" else ["now"])
    assert line.startswith("selected_tools: ")
    assert words in line
    assert "\n" not in line


def test_patterns_that_match_and_those_of_other_servers_are_not_told() -> None:
    assert Selection(None, None).unmatched("git", MANY) == []
    assert Selection(["git"], None).unmatched("git", MANY) == []
    assert Selection(None, ["git:git_*", "slack:post", "git:create_issue"]).unmatched("git", MANY) == []
    two = Selection(None, ["git:zzz", "git:*", "git:yyy"]).unmatched("git", MANY)
    assert [line.split('"')[1] for line in two] == ["git:zzz", "git:yyy"]


def test_a_server_without_tools_and_one_that_is_not_connected_are_told() -> None:
    [line] = Selection(None, ["git:*"]).unmatched("git", [])
    assert line.endswith('matches no tool of "git"; it has no tools')
    [line] = Selection(["git"], ["git:*", "slack:post"]).unused({"git"})
    assert line == 'selected_tools: "slack:post" selects nothing: server "slack" is disabled or not selected'


def test_names_of_a_server_are_third_party_text() -> None:
    [line] = Selection(None, ["evil:a"]).unmatched("evil", ["\x1b[2Jx\nselected_tools: fine"])
    assert line == 'selected_tools: "evil:a" matches no tool of "evil"; it has [2Jx selected_tools: fine'
