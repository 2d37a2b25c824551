"""Tool search mode: what the model sees at each request, and what it may run."""

import json
import random
from typing import Any

import pytest

from mcpagent import Agent, ConfigError, ToolDefinition, ToolSearch
from mcpagent.models.scripted import ScriptedModel
from mcpagent.values.events import Event, Notice, ToolsLoaded, ToolsRemoved, ToolsSearched
from tests.scenes import CountedTools, call, offered, results, searching_agent
from tests.tables import each_row

VIRTUAL = ["search_tools", "add_tool"]


async def test_search_shows_add_loads_and_the_next_request_offers() -> None:
    model = ScriptedModel(
        [
            call("search_tools", query="read"),
            call("add_tool", tool_names=["read_file"]),
            call("read_file", path="a"),
            "ok",
        ]
    )
    tools = CountedTools("read_file", "write_file", "list_folder")
    events: list[Event] = []
    async with searching_agent(model, tools, events=events) as agent:
        assert await agent.ask("read a") == "ok"
        assert [offered(request) for request in model.requests] == [
            VIRTUAL,
            VIRTUAL,
            [*VIRTUAL, "read_file"],
            [*VIRTUAL, "read_file"],
        ]
        assert tools.ran == [("files.read_file", {"path": "a"})]
        assert list(agent.discovered_tools) == ["read_file"]
        assert set(agent.all_deferred_tools) == {"read_file", "write_file", "list_folder"}
    answer = json.loads(results(model.requests[1].messages)[0].text)
    assert answer["tools"][0]["name"] == "read_file"
    assert answer["tools"][0]["server"] == "files"
    assert answer["tools"][0]["signature"] == "read_file(path: string)" or "path" in answer["tools"][0]["signature"]
    assert "add_tool" in answer["message"]
    searched = next(event for event in events if isinstance(event, ToolsSearched))
    assert (searched.query, searched.matches[0], searched.known) == ("read", "read_file", 3)
    assert [event.names for event in events if isinstance(event, ToolsLoaded)] == [("read_file",)]


async def test_definitions_of_the_virtual_tools_are_the_seeds() -> None:
    model = ScriptedModel(["ok"])
    async with searching_agent(model, CountedTools("read_file")) as agent:
        await agent.ask("hello")
    search, add = model.requests[0].tools
    assert search.parameters["required"] == ["query"]
    assert list(search.parameters["properties"]) == ["query", "queries", "server", "limit", "offset"]
    assert search.description.startswith("Search for available tools by name or description.")
    assert add.parameters["properties"]["tool_names"]["items"] == {"type": "string"}


async def test_pinned_come_by_name_then_discovered_in_order_of_discovery() -> None:
    model = ScriptedModel([call("add_tool", tool_names=["zip_it", "copy_file"]), "ok"])
    tools = CountedTools("zip_it", "copy_file", "move_file", "append_file")
    async with searching_agent(model, tools, pinned=["MoveFile", "files.append_file"]) as agent:
        await agent.ask("go")
    assert offered(model.requests[0]) == [*VIRTUAL, "append_file", "move_file"]
    assert offered(model.requests[1]) == [*VIRTUAL, "append_file", "move_file", "zip_it", "copy_file"]


async def test_search_add_and_call_in_one_message_work_in_that_order() -> None:
    batch = [
        call("search_tools", query="read"),
        call("add_tool", tool_names=["read_file"]),
        call("read_file", path="b"),
    ]
    model = ScriptedModel([batch, "ok"])
    tools = CountedTools("read_file")
    async with searching_agent(model, tools) as agent:
        await agent.ask("go")
    assert tools.ran == [("files.read_file", {"path": "b"})]
    assert [result.name for result in results(model.requests[1].messages)] == [item.name for item in batch]


@each_row(
    "arguments, text",
    [
        ({"tool_names": ["read_file", "write_file"]}, "Added tools: read_file, write_file"),
        ({"tool_names": "read_file"}, "Added tools: read_file"),
        ({"tool_name": "ReadFile"}, "Added tools: read_file"),
        ({"tool_names": ["files__read_file"]}, "Added tools: read_file"),
        ({"tool_names": ["read-file", "read_file"]}, "Added tools: read_file"),
        ({"tool_names": ["list_folder"]}, "Already available: list_folder"),
    ],
)
async def test_add_tool_takes_every_form(arguments: dict[str, Any], text: str) -> None:
    model = ScriptedModel([call("add_tool", **arguments), "ok"])
    async with searching_agent(
        model, CountedTools("read_file", "write_file", "list_folder"), pinned=["list_folder"]
    ) as agent:
        await agent.ask("go")
    assert results(model.requests[1].messages)[0].text == text


@each_row("names", [[], "", [""], [" ", "read_file"], [1], None, {}])
async def test_add_tool_of_nothing_says_how_to_call_it(names: Any) -> None:
    model = ScriptedModel([call("add_tool", tool_names=names), "ok"])
    async with searching_agent(model, CountedTools("read_file")) as agent:
        await agent.ask("go")
    (answer,) = results(model.requests[1].messages)
    assert answer.error == "invalid_arguments"
    assert answer.text.startswith("Pass tool_names as an array of texts, the names as search_tools returned them")


async def test_add_tool_names_each_of_what_it_was_given() -> None:
    asked = ["read_file", "write_file", "write_file", "zebra"]
    model = ScriptedModel([call("add_tool", tool_names=asked), "ok"])
    async with searching_agent(model, CountedTools("read_file", "write_file"), pinned=["read_file"]) as agent:
        await agent.ask("go")
    (answer,) = results(model.requests[1].messages)
    assert answer.text == "Added tools: write_file\nAlready available: read_file\nNot found: zebra"


async def test_add_tool_names_what_it_did_not_find_and_refuses_too_many() -> None:
    many = [f"tool_{number}" for number in range(51)]
    model = ScriptedModel([call("add_tool", tool_names=["read_fiel"]), call("add_tool", tool_names=many), "ok"])
    async with searching_agent(model, CountedTools("read_file", "write_file")) as agent:
        await agent.ask("go")
    first, second = results(model.requests[2].messages)
    assert first.text.startswith("Not found: read_fiel (did you mean read_file")
    assert "over the limit of 50" in second.text
    assert offered(model.requests[2]) == VIRTUAL


async def test_a_repeated_search_gives_the_same_list_and_marks_what_is_loaded() -> None:
    model = ScriptedModel(
        [
            call("search_tools", "1", query="file"),
            call("add_tool", "2", tool_names=["read_file"]),
            call("search_tools", "3", query="file"),
            "ok",
        ]
    )
    async with searching_agent(model, CountedTools("read_file", "write_file")) as agent:
        await agent.ask("go")
    answers = [json.loads(item.text) for item in results(model.requests[3].messages) if item.name == "search_tools"]
    names = [[tool["name"] for tool in answer["tools"]] for answer in answers]
    assert names[0] == names[1]
    assert [tool["name"] for tool in answers[1]["tools"] if tool.get("loaded")] == ["read_file"]


async def test_no_match_an_empty_catalogue_and_an_empty_query_say_so() -> None:
    model = ScriptedModel([call("search_tools", query="zebra quantum"), call("search_tools", query=" "), "ok"])
    async with searching_agent(model, CountedTools("read_file")) as agent:
        await agent.ask("go")
    nothing, empty = results(model.requests[2].messages)
    answer = json.loads(nothing.text)
    assert (answer["found"], answer["tools"]) == (0, [])
    assert answer["message"].startswith("No tools found matching the pattern")
    assert "- files (read), 1 tool" in answer["message"]
    assert empty.error == "invalid_arguments"
    assert "empty" in json.loads(empty.text)["error"]

    model = ScriptedModel([call("search_tools", query="x"), "ok"])
    async with searching_agent(model) as agent:
        await agent.ask("go")
    assert "Do not search again" in json.loads(results(model.requests[1].messages)[0].text)["message"]


async def test_an_invalid_pattern_is_named_and_searched_as_words() -> None:
    model = ScriptedModel([call("search_tools", query="(read"), "ok"])
    async with searching_agent(model, CountedTools("read_file", "write_file")) as agent:
        await agent.ask("go")
    answer = json.loads(results(model.requests[1].messages)[0].text)
    assert answer["error"].startswith("invalid regex pattern:")
    assert answer["tools"][0]["name"] == "read_file"


async def test_typos_still_find() -> None:
    weather = CountedTools("get_weather", "send_message", "list_folder", server="misc")
    model = ScriptedModel([call("search_tools", query="wether"), call("search_tools", query="send msg"), "ok"])
    async with searching_agent(model, weather) as agent:
        await agent.ask("go")
    first, second = (json.loads(item.text) for item in results(model.requests[2].messages))
    assert first["tools"][0]["name"] == "get_weather"
    assert second["tools"][0]["name"] == "send_message"


async def test_a_call_to_a_shown_tool_runs_and_loads_it() -> None:
    model = ScriptedModel([call("search_tools", query="read"), call("read_file", path="x"), "ok"])
    tools = CountedTools("read_file")
    async with searching_agent(model, tools) as agent:
        await agent.ask("go")
    assert tools.ran == [("files.read_file", {"path": "x"})]
    assert offered(model.requests[2]) == [*VIRTUAL, "read_file"]


async def test_a_call_to_a_tool_never_shown_loads_it_and_gives_its_signature_instead_of_running() -> None:
    model = ScriptedModel([call("read_file", path="x"), call("read_file", path="x"), "ok"])
    tools = CountedTools("read_file")
    async with searching_agent(model, tools) as agent:
        await agent.ask("go")
    first = results(model.requests[1].messages)[0]
    assert first.error == "not_loaded"
    assert "read_file(path" in first.text
    assert offered(model.requests[1]) == [*VIRTUAL, "read_file"]
    assert len(tools.ran) == 1


async def test_a_shown_tool_with_arguments_that_do_not_fit_is_not_run() -> None:
    model = ScriptedModel([call("search_tools", query="read"), call("read_file", file="x"), "ok"])
    tools = CountedTools("read_file")
    async with searching_agent(model, tools) as agent:
        await agent.ask("go")
    assert results(model.requests[2].messages)[1].error == "invalid_arguments"
    assert tools.ran == []


async def test_refuse_and_run_are_the_other_policies() -> None:
    model = ScriptedModel([call("read_file", path="x"), "ok"])
    tools = CountedTools("read_file")
    async with searching_agent(model, tools, on_direct_call="refuse") as agent:
        await agent.ask("go")
    assert results(model.requests[1].messages)[0].text == (
        '"read_file" is not loaded. Call add_tool(tool_names=["read_file"]) first.'
    )
    assert tools.ran == []

    model = ScriptedModel([call("read_file", path="x"), "ok"])
    async with searching_agent(model, tools, on_direct_call="run") as agent:
        await agent.ask("go")
    assert tools.ran == [("files.read_file", {"path": "x"})]


async def test_a_removed_tool_is_withdrawn_and_refused_with_the_reason() -> None:
    model = ScriptedModel(
        [
            call("remove_tool", tool_names=["read_file"]),
            call("read_file", path="x"),
            call("add_tool", tool_names=["read_file"]),
            "ok",
        ]
    )
    tools = CountedTools("read_file", "write_file")
    events: list[Event] = []
    async with searching_agent(
        model, tools, events=events, extra_tools=("show_all_tools", "remove_tool"), pinned=["read_file"]
    ) as agent:
        await agent.ask("go")
    assert offered(model.requests[0]) == [*VIRTUAL, "show_all_tools", "remove_tool", "read_file"]
    assert offered(model.requests[1]) == [*VIRTUAL, "show_all_tools", "remove_tool"]
    refused = results(model.requests[2].messages)[1]
    assert refused.error == "not_loaded"
    assert "was removed" in refused.text
    assert tools.ran == []
    assert offered(model.requests[3])[-1] == "read_file"
    assert [event.names for event in events if isinstance(event, ToolsRemoved)] == [("read_file",)]


async def test_show_all_tools_lists_by_server() -> None:
    model = ScriptedModel([call("show_all_tools"), "ok"])
    async with searching_agent(
        model, CountedTools("b_tool", "a_tool"), CountedTools("c_tool", server="zip"), extra_tools=("show_all_tools",)
    ) as agent:
        await agent.ask("go")
    assert results(model.requests[1].messages)[0].text == "3 tools\nfiles (2): a_tool, b_tool\nzip (1): c_tool"


async def test_an_unknown_tool_gets_near_names_and_runs_nothing() -> None:
    model = ScriptedModel([call("read_fil", path="x"), "ok"])
    tools = CountedTools("read_file")
    async with searching_agent(model, tools) as agent:
        await agent.ask("go")
    answer = results(model.requests[1].messages)[0]
    assert answer.error == "unknown_tool"
    assert "read_file" in answer.text
    assert tools.ran == []


async def test_tools_that_share_a_name_reach_their_own_server() -> None:
    first, second = CountedTools("search", "read", server="git"), CountedTools("search", server="hub")
    model = ScriptedModel(
        [
            call("add_tool", tool_names=["git__search", "hub.search"]),
            [call("hub__search", path="1"), call("git__search", path="2")],
            "ok",
        ]
    )
    async with searching_agent(model, first, second) as agent:
        await agent.ask("go")
        assert set(agent.known_tools) == {"git__search", "hub__search", "read"}
    assert offered(model.requests[1]) == [*VIRTUAL, "git__search", "hub__search"]
    assert (first.ran, second.ran) == ([("git.search", {"path": "2"})], [("hub.search", {"path": "1"})])


async def test_names_that_collide_after_namespacing_are_told_once() -> None:
    events: list[Event] = []
    toolsets = [
        CountedTools("b__c", server="a"),
        CountedTools("c", server="a__b"),
        CountedTools("c", "b__c", server="z"),
    ]
    async with searching_agent(ScriptedModel([]), *toolsets, events=events) as agent:
        assert len(agent.known_tools) == 4
    warnings = [event.text for event in events if isinstance(event, Notice)]
    assert [text.partition(" <-")[0] for text in warnings] == ["Tool names collide after namespacing: a__b__c"]


async def test_an_ambiguous_plain_name_is_not_guessed() -> None:
    model = ScriptedModel([call("add_tool", tool_names=["search"]), "ok"])
    async with searching_agent(
        model, CountedTools("search", server="git"), CountedTools("search", server="hub")
    ) as agent:
        await agent.ask("go")
    assert results(model.requests[1].messages)[0].text == ("Not found: search (did you mean git__search, hub__search?)")


async def test_a_server_tool_with_a_reserved_name_gets_the_longer_form() -> None:
    model = ScriptedModel(["ok"])
    async with searching_agent(
        model, CountedTools("search_tools", server="evil"), pinned=["evil__search_tools"]
    ) as agent:
        await agent.ask("go")
    assert offered(model.requests[0]) == [*VIRTUAL, "evil__search_tools"]


def test_an_own_function_with_a_reserved_name_is_a_clear_error() -> None:
    def search_tools(query: str) -> str:
        return query

    async def start() -> None:
        async with Agent(ScriptedModel([]), tools=[search_tools], with_tool_search_mode=True):
            pass

    import asyncio

    with pytest.raises(ConfigError, match="reserved"):
        asyncio.run(start())


async def test_load_search_loads_what_a_search_returns() -> None:
    model = ScriptedModel([call("search_tools", query="read file"), call("read_file", path="x"), "ok"])
    tools = CountedTools("read_file", "write_file")
    async with searching_agent(model, tools, load="search", max_results=1) as agent:
        await agent.ask("go")
    assert offered(model.requests[0]) == ["search_tools"]
    assert offered(model.requests[1]) == ["search_tools", "read_file"]
    assert tools.ran == [("files.read_file", {"path": "x"})]
    assert "add_tool" not in model.requests[0].system


async def test_scope_and_eager_tools_keep_tools_offered() -> None:
    def local(x: int) -> int:
        """A local function."""
        return x

    model = ScriptedModel(["ok"])
    tools = CountedTools("read_file", "write_file", "list_folder")
    async with Agent(
        model,
        tool_search=ToolSearch(scope="mcp", eager_tools={"files": ["read_*"], "other": ["*"]}),
        tools=[local, tools],
    ) as agent:
        await agent.ask("go")
        assert set(agent.all_deferred_tools) == {"write_file", "list_folder"}
    assert offered(model.requests[0]) == [*VIRTUAL, "local", "read_file"]


async def test_normal_mode_offers_everything_and_auto_offers_small_catalogues() -> None:
    few, many = CountedTools("b", "a"), CountedTools(*(f"tool_{number:02}" for number in range(31)))
    for mode, tools, expected in (
        (False, many, 31),
        ("auto", few, 2),
        ("auto", many, 31),
        (True, few, 2),
    ):
        model = ScriptedModel(["ok"])
        async with Agent(model, with_tool_search_mode=mode, tools=[tools]) as agent:  # type: ignore[arg-type]
            await agent.ask("go")
        assert len(model.requests[0].tools) == expected
        assert ("Tool Search Mode" in model.requests[0].system) == (offered(model.requests[0]) == VIRTUAL)


@each_row("length, limit, searched", [(1_000, None, False), (1_500, None, True), (100, 1_000, True), (10, 0, True)])
async def test_auto_turns_on_by_the_tokens_of_the_definitions(length: int, limit: int | None, searched: bool) -> None:
    from mcpagent import Tool, ToolOutput

    async def run(arguments: dict[str, Any]) -> ToolOutput:
        return ToolOutput(())

    wide = [Tool(ToolDefinition(f"wide_{number:02}", "x" * length, {"type": "object"}), run) for number in range(80)]
    model = ScriptedModel(["ok"])
    search = ToolSearch(enabled="auto") if limit is None else ToolSearch(enabled="auto", auto_tokens=limit)
    async with Agent(model, tools=wide, tool_search=search) as agent:
        await agent.ask("go")
    assert offered(model.requests[0]) == (VIRTUAL if searched else [tool.name for tool in wide])


def test_a_limit_below_zero_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"ToolSearch\.auto_tokens: expected 0 or more, got -1"):
        ToolSearch(auto_tokens=-1)


async def test_the_prompt_lists_categories_and_stays_as_it_began() -> None:
    def spam(x: int) -> int:
        return x

    model = ScriptedModel(["one", "two"])
    async with searching_agent(
        model, CountedTools("read_file", "write_file"), CountedTools("x", server="zip")
    ) as agent:
        await agent.ask("a")
        agent.tool(category="mail")(spam)
        await agent.ask("b")
        assert "spam" in agent.all_deferred_tools
    assert "- files (write, read), 2 tools\n- zip, 1 tool\n" in model.requests[0].system
    assert model.requests[1].system == model.requests[0].system


async def test_a_renderer_decides_what_a_result_shows() -> None:
    model = ScriptedModel([call("search_tools", query="read"), "ok"])
    async with searching_agent(
        model, CountedTools("read_file"), renderer=lambda tool: {"about": tool.description.upper()}
    ) as agent:
        await agent.ask("go")
    shown = json.loads(results(model.requests[1].messages)[0].text)["tools"]
    assert shown == [{"name": "read_file", "match": "likely", "about": "READ FILE ON FILES"}]


async def test_a_strategy_of_ones_own_is_asked() -> None:
    async def backwards(query: str, tools: Any) -> list[str]:
        return [*sorted((tool.name for tool in tools), reverse=True), "no_such_tool"]

    model = ScriptedModel([call("search_tools", query="read"), "ok"])
    async with searching_agent(model, CountedTools("a", "b", "c"), strategy=backwards, max_results=2) as agent:
        await agent.ask("go")
    shown = json.loads(results(model.requests[1].messages)[0].text)["tools"]
    assert [tool["name"] for tool in shown] == ["c", "b"]


async def test_the_order_of_toolsets_changes_no_byte() -> None:
    async def request_of(toolsets: list[CountedTools]) -> tuple[Any, ...]:
        model = ScriptedModel([call("search_tools", query="read"), "ok"])
        async with searching_agent(model, *toolsets, pinned=["x", "git__search"]) as agent:
            await agent.ask("go")
        last = model.requests[-1]
        return last.system, last.tools, [result.text for result in results(last.messages)]

    toolsets = [
        CountedTools("search", "read_file", server="git"),
        CountedTools("search", "read_mail", server="mail"),
        CountedTools("x", "y", "reader", server="zip"),
    ]
    expected = await request_of(toolsets)
    for seed in range(3):
        random.Random(seed).shuffle(toolsets)
        assert await request_of(toolsets) == expected


async def test_history_of_another_agent_offers_what_was_discovered_there() -> None:
    model = ScriptedModel([call("add_tool", tool_names=["write_file", "read_file"]), "ok"])
    async with searching_agent(model, CountedTools("read_file", "write_file")) as agent:
        await agent.ask("go")
        history = agent.messages
    later = ScriptedModel(["yes"])
    async with searching_agent(later, CountedTools("read_file", "list_folder")) as agent:
        from mcpagent.values.messages import user_message

        answer, messages = await agent.ask_with_history([*history, user_message("more?")])
        assert answer == "yes"
        assert len(messages) == len(history) + 2
    # write_file is not configured any more, so it is not offered, whatever the history says.
    assert offered(later.requests[0]) == [*VIRTUAL, "read_file"]


@each_row(
    "options",
    [
        {"strategy": "embedding"},
        {"load": "now"},
        {"scope": "local"},
        {"max_results": 0},
        {"extra_tools": ("call_tool",)},
        {"enabled": "yes"},
        {"on_direct_call": "ask"},
    ],
)
def test_an_option_that_is_not_one_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"ToolSearch.{next(iter(options))}"):
        ToolSearch(**options)


async def test_weak_matches_are_shown_and_marked_for_the_model() -> None:
    model = ScriptedModel([call("search_tools", query="who painted the ceiling of that book by Orwell"), "ok"])
    things = ("file", "issue", "message", "event", "user", "invoice", "image", "table", "book", "branch", "ticket")
    names = [f"{verb}_{thing}" for verb in ("get", "list", "create", "delete", "send", "share") for thing in things]
    async with searching_agent(model, CountedTools(*names)) as agent:
        await agent.ask("go")
    (found,) = results(model.requests[1].messages)
    answer = json.loads(found.text)
    assert "get_book" in [tool["name"] for tool in answer["tools"]]
    assert answer["found"] == 0
    assert {tool["match"] for tool in answer["tools"]} == {"weak"}
    assert "Only weak matches" in answer["message"]


async def test_a_pattern_that_matches_nothing_says_so_and_shows_the_closest_marked() -> None:
    model = ScriptedModel([call("search_tools", query="invoice.*read"), "ok"])
    async with searching_agent(model, CountedTools("read_invoice", "send_invoice")) as agent:
        await agent.ask("go")
    answer = json.loads(results(model.requests[1].messages)[0].text)
    assert answer["found"] == 0
    assert answer["message"].startswith("no tool matches the pattern; closest by words:")
    assert [tool["match"] for tool in answer["tools"]] == ["weak", "weak"]


SHOP = [f"{verb}_{thing}" for verb in ("send", "pay", "cancel", "print") for thing in ("invoice", "order", "label")]


@each_row("query", ["invoice", "send the order", "print", "send.*", "label and order"])
async def test_pages_hold_what_was_found_and_then_end(query: str) -> None:
    pages = [call("search_tools", str(at), query=query, limit=2, offset=at) for at in range(0, 14, 2)]
    model = ScriptedModel([*pages, "ok"])
    async with searching_agent(model, CountedTools(*SHOP)) as agent:
        await agent.ask("go")
    answers = [json.loads(item.text) for item in results(model.requests[-1].messages)]
    [found] = {answer["found"] for answer in answers}
    unmarked = [tool["name"] for answer in answers for tool in answer["tools"] if tool["match"] != "weak"]
    assert (len(unmarked), len(set(unmarked))) == (found, found)
    assert not any(answer["tools"] for answer in answers[-(-found // 2) or 1 :])
    assert answers[-1]["message"].startswith("There are no more")


async def test_each_entry_says_how_likely_it_is_and_the_message_what_to_do() -> None:
    model = ScriptedModel([call("search_tools", query="invoice"), call("search_tools", query="pay_order"), "ok"])
    async with searching_agent(model, CountedTools(*SHOP)) as agent:
        await agent.ask("go")
    several, named = (json.loads(item.text) for item in results(model.requests[2].messages))
    assert {tool["match"] for tool in several["tools"]} <= {"likely", "possible", "weak"}
    for odds in {tool["match"] for tool in several["tools"]}:
        assert f"{odds}: " in several["message"].lower()
    assert ([tool["name"] for tool in named["tools"]], named["found"]) == (["pay_order"], 1)
    assert named["tools"][0]["match"] == "likely"


async def test_load_search_loads_one_tool_if_all_are_weak() -> None:
    model = ScriptedModel([call("search_tools", query="who painted the ceiling of that book by Orwell"), "ok"])
    things = ("file", "issue", "message", "event", "user", "invoice", "image", "table", "book", "branch", "ticket")
    names = [f"{verb}_{thing}" for verb in ("get", "list", "create", "delete", "send", "share") for thing in things]
    async with searching_agent(model, CountedTools(*names), load="search") as agent:
        await agent.ask("go")
    answer = json.loads(results(model.requests[1].messages)[0].text)
    assert {tool["match"] for tool in answer["tools"]} == {"weak"}
    assert offered(model.requests[1]) == ["search_tools", answer["tools"][0]["name"]]


@each_row(
    "pins, offered_first",
    [
        (["read_*"], ["read_file", "read_note"]),
        (["(read|write)_file"], ["read_file", "write_file"]),
        (["files.w*", "read_note"], ["read_note", "write_file"]),
        (["^read_.*e$"], ["read_file", "read_note"]),
    ],
)
async def test_pre_discovered_tools_takes_patterns(pins: list[str], offered_first: list[str]) -> None:
    model = ScriptedModel(["ok"])
    async with searching_agent(model, CountedTools("read_file", "read_note", "write_file", "rm"), pinned=pins) as agent:
        await agent.ask("go")
    assert offered(model.requests[0]) == [*VIRTUAL, *offered_first]


async def test_a_pattern_that_pins_nothing_is_told() -> None:
    events = list[Event]()
    async with searching_agent(
        ScriptedModel(["ok"]), CountedTools("read_file"), events=events, pinned=["x_*"]
    ) as agent:
        await agent.ask("go")
    assert any('pre_discovered_tools: no tool "x_*"' in event.text for event in events if isinstance(event, Notice))


@each_row(
    "query, loaded",
    [
        ("read_file", ["read_file"]),
        ("use read_file", ["read_file"]),
        ("read_file, write_file", ["read_file", "write_file"]),
        ("(read|write)_file", ["read_file", "write_file"]),
        ("read_file and then tell me what the weather will be tomorrow", ["read_file", "get_weather"]),
    ],
)
async def test_load_search_loads_what_fits_and_what_else_it_shows_runs_when_it_is_called(
    query: str, loaded: list[str]
) -> None:
    tools = CountedTools("read_file", "write_file", "delete_file", "list_files", "get_weather", *OTHERS)
    model = ScriptedModel([call("search_tools", query=query), call("write_file", path="x"), "ok"])
    async with searching_agent(model, tools, load="search") as agent:
        await agent.ask("go")
    assert sorted(offered(model.requests[1])) == sorted(["search_tools", *loaded])
    answer = json.loads(results(model.requests[1].messages)[0].text)
    shown = {one["name"]: one.get("loaded", False) for one in answer["tools"]}
    if set(shown) == set(loaded):
        assert "They are loaded: call them." in answer["message"]
    else:
        assert {name for name, is_loaded in shown.items() if is_loaded} == set(loaded)
        assert (
            'Those with "loaded" can be called at once; to load another one, search for its name.' in answer["message"]
        )
    if "write_file" in shown:
        assert tools.ran == [("files.write_file", {"path": "x"})]


OTHERS = [f"{verb}_{noun}" for verb in ("open", "close", "move") for noun in ("door", "window", "account", "ticket")]
