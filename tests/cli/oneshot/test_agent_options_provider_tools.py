"""Tools that the provider runs, on the command line, in cards and in recordings: asked for, shown, written down."""

from __future__ import annotations

import io
import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mcpagent import Agent, AgentCard, CodeExecution, Location, ProviderMcp, Recorder, Replay, RunOptions, WebSearch
from mcpagent.agents.cards.agent_cards import agent_from_card
from mcpagent.agents.cards.card import CardError
from mcpagent.agents.cards.card_trust import describe_cards
from mcpagent.agents.cards.reading import load_card
from mcpagent.agents.cards.teams import Team, read_team
from mcpagent.agents.cards.writing import dump_card
from mcpagent.cli.common.options import Options
from mcpagent.cli.oneshot.agent_options import make_agent
from mcpagent.cli.oneshot.headless import ask_once
from mcpagent.cli.screen.rendering import TurnView
from mcpagent.cli.screen.terminal import ASCII_GLYPHS, Glyphs, Terminal, make_console
from mcpagent.config import ServersConfig
from mcpagent.errors import ConfigError, McpAgentError
from mcpagent.journal.sessions import exported
from mcpagent.models import AnthropicModel
from mcpagent.values.events import (
    Event,
    ProviderCall,
    ProviderCallFinished,
    ProviderCallStarted,
    ResponseReceived,
    TextDelta,
)
from mcpagent.values.messages import Citation, Usage, dump_messages
from tests.cli.oneshot.test_json_report import STRICT
from tests.simulator.server import Simulator
from tests.simulator.values import CITED, PAGE, PROVIDER_RUN, Said, View
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, sse

MCP = ProviderMcp("linear", "https://mcp.example.com/mcp", "${LINEAR_TOKEN}", ["list"])
SEARCHED: list[Said] = [(PROVIDER_RUN, {"tool": "web_search", "input": {"query": "rain"}}), (CITED, {"text": "Rain."})]


def options(tmp_path: Path, *provider_tool: str, **changes: Any) -> Options:
    environ = {"MCPAGENT_HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    chosen = Options(model="offline", environ=environ, folder=tmp_path, provider_tool=provider_tool, approve="all")
    return replace(chosen, **changes)


def agent_of(chosen: Options) -> Agent:
    from mcpagent.cli.common.configuration import Configuration

    return make_agent(chosen, Configuration(ServersConfig((), ())), lambda _event: None)


def test_the_option_names_a_tool_with_or_without_options(tmp_path: Path) -> None:
    written = (
        'web_search={"max_uses": 3, "location": {"city": "Paris"}}',
        "code_execution",
        'mcp={"name": "linear", "url": "https://mcp.example.com/mcp", "authorization": "${LINEAR_TOKEN}", '
        '"allowed_tools": ["list"]}',
    )
    agent = agent_of(options(tmp_path, *written))
    assert agent._runtime.definition.provider_tools == (WebSearch(3, location=Location("Paris")), CodeExecution(), MCP)


@each_row(
    "written, said",
    [
        (
            "websearch",
            'provider_tool websearch: no tool of a provider is called "websearch"; write one of web_search',
        ),
        ("web_search={max_uses: 3}", "what stands behind = is no JSON"),
        ('web_search={"uses": 3}', 'no option "uses"'),
        ("file_search", 'file_search needs "stores"'),
    ],
)
def test_what_the_option_cannot_mean_is_told_in_one_line(written: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        agent_of(options(tmp_path, written))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def answered() -> PlayedProvider:
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}}
    page = {"type": "web_search_result", **PAGE, "encrypted_content": "e"}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [page]}
    cited = {"type": "web_search_result_location", **PAGE, "cited_text": "It rains.", "encrypted_index": "e"}
    usage = {"input_tokens": 9, "output_tokens": 3, "server_tool_use": {"web_search_requests": 1}}
    head = {"type": "message", "role": "assistant", "content": [], "usage": usage}
    started: list[dict[str, Any]] = [{"type": "message_start", "message": head}]
    blocks: list[dict[str, Any]] = [call, found, {"type": "text", "text": "", "citations": []}]
    for index, block in enumerate(blocks):
        started.append({"type": "content_block_start", "index": index, "content_block": block})
        pieces = ({"type": "citations_delta", "citation": cited}, {"type": "text_delta", "text": "It rains."})
        delta = {"type": "content_block_delta", "index": index}
        started += [{**delta, "delta": piece} for piece in pieces] if block["type"] == "text" else []
        started.append({"type": "content_block_stop", "index": index})
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    return PlayedProvider(sse(*started, ended, {"type": "message_stop"}))


@each_row("output", ["stream-json", "json", "text"])
def test_what_it_ran_and_cited_is_in_the_documents(
    output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = AnthropicModel("claude-opus-5-5", api_key="k", http_client=answered().http_client)
    (tmp_path / "none.json").write_text('{"mcpServers": {}}', "utf-8")  # not even the bundled server is started
    written, console = io.StringIO(), make_console(io.StringIO(), "auto", {})
    with suppress(McpAgentError):
        chosen = options(tmp_path, "web_search", output=output, config=(tmp_path / "none.json",))
        ask_once(chosen, "Rain?", Terminal(console, console, Glyphs()), model=model)
    written.write(capsys.readouterr().out)
    if output == "text":
        assert written.getvalue() == "It rains.\n"
        return
    found = [json.loads(line) for line in written.getvalue().splitlines()]
    for document in found:
        STRICT.validate(document)
    cited = [{"url": PAGE["url"], "title": PAGE["title"], "cited_text": "It rains."}]
    assert found[-1]["citations"] == cited
    assert found[-1]["usage"]["web_searches"] == 1
    assert found[-1]["cost_usd"] > 0.01
    if output == "stream-json":
        by_type = {document["type"]: document for document in found}
        about = {"name": "web_search", "input": {"query": "rain"}, "server": None}
        assert by_type["provider_tool_use"] == {"type": "provider_tool_use", "id": "srvtoolu_1", **about}
        ended = {"tool_use_id": "srvtoolu_1", **about, "is_error": False, "outcome": "1 result"}
        assert by_type["provider_tool_result"] == {"type": "provider_tool_result", **ended}
        said = [document for document in found if document["type"] == "message" and document["role"] == "assistant"]
        assert said[0]["citations"] == cited


def test_the_terminal_shows_calls_as_lines_and_sources_below_the_answer() -> None:
    written = io.StringIO()
    console = Console(file=written, width=90, legacy_windows=False)
    view = TurnView(console, console, ASCII_GLYPHS)
    hostile = "rain\x1b[2J\nfake line"
    call = ProviderCall("1", "web_search", {"query": hostile})
    mcp = ProviderCall("2", "list_issues", {"team": "A", "state": "open now"}, "linear")
    failed = ProviderCall("3", "code_execution", {"code": "1/0"})
    for event in (
        TextDelta("Let me look."),
        ProviderCallStarted(call),
        ProviderCallFinished(call, "3 results"),
        ProviderCallFinished(mcp, "two issues"),
        ProviderCallFinished(failed, "exit 1: ZeroDivisionError", failed=True),
        TextDelta("It rains."),
    ):
        view(event)
    pages = [Citation(f"https://example.org/{number}", f"Page {number}\x1b[31m") for number in range(10)]
    view(ResponseReceived(1, Usage(), 0.1, citations=(*pages, Citation("", "a.pdf"))))
    view.close()
    lines = [" ".join(line.split()) for line in written.getvalue().splitlines() if line.strip()]
    assert lines[0] == "Let me look."
    assert lines[1].startswith('* web search: "rain')
    assert lines[1].endswith("3 results")
    assert lines[2] == '* linear.list_issues: team=A state="open now" two issues'
    assert lines[3].startswith('x code execution: "1/0"')
    assert lines[4:6] == ["It rains.", "sources"]
    assert lines[6].startswith("1 Page 0")
    assert lines[6].endswith("https://example.org/0")
    assert lines[-1] == "... 3 more"
    assert len(lines) == 15
    assert "\x1b" not in written.getvalue()


# -- Cards ------------------------------------------------------------------------------------------------------------

CARD = """---
name: me
provider_tools:
- web_search: {max_uses: 3, location: {city: Paris}}
- code_execution
- mcp: {name: linear, url: https://mcp.example.com/mcp, authorization: "${LINEAR_TOKEN}", allowed_tools: [list]}
---

Help.
"""


def test_a_card_has_them_and_is_the_same_after_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "me.md"
    file.write_text(CARD)
    card = load_card(file)
    assert card.provider_tools == (WebSearch(3, location=Location("Paris")), CodeExecution(), MCP)
    file.write_text(dump_card(card))
    assert load_card(file) == card
    agent = agent_from_card(Agent, replace(card, model="offline"), tools=[WebSearch(5)])
    # A tool that is given replaces the card's tool of the same name.
    assert agent._runtime.definition.provider_tools == (CodeExecution(), MCP, WebSearch(5))
    assert agent.to_card().provider_tools == card.provider_tools


def test_what_a_card_cannot_mean_is_told(tmp_path: Path) -> None:
    file = tmp_path / "me.md"
    file.write_text("---\nprovider_tools: [web_serch]\n---\nHelp.\n")
    with pytest.raises(CardError, match=r"'provider_tools' cannot be used in .*provider_tools\[0\]: no tool"):
        load_card(file)


def test_what_a_projects_card_has_the_provider_do_is_shown_before_it_counts(tmp_path: Path) -> None:
    folder = tmp_path / "cards"
    folder.mkdir()
    file = folder / "me.md"
    environ = {"MCPAGENT_HOME": str(tmp_path / "home"), "LINEAR_TOKEN": "tok-123456789"}
    file.write_text(CARD)
    [described] = describe_cards(read_team(file), environ)
    told = {(fact.what, fact.text) for fact in described.facts}
    assert ("has its provider run", "code_execution") in told
    assert ("has its provider call", "linear at https://mcp.example.com/mcp") in told
    assert ("allows there", "list") in told
    assert ("sends the token", "${LINEAR_TOKEN}") in told
    assert any(what == "has its provider run" and text.startswith('{"web_search"') for what, text in told)
    digests = {described.digest()}
    for change in (("linear,", "other,"), ("mcp.example", "evil.example"), ("${LINEAR_TOKEN}", "tok-a-literal-1")):
        file.write_text(CARD.replace(*change))
        [other] = describe_cards(read_team(file), environ)
        digests.add(other.digest())
    assert len(digests) == 4  # a yes to one is no yes to another
    assert isinstance(read_team(file), Team)


def test_an_agent_of_code_becomes_a_card_with_them() -> None:
    card = Agent("offline", tools=[WebSearch(2), MCP]).to_card("me")
    assert card == AgentCard("me", model="offline", provider_tools=(WebSearch(2), MCP))


# -- Recordings -------------------------------------------------------------------------------------------------------


def say(view: View) -> list[Said]:
    return SEARCHED if view.answered == 0 else ["Yes."]


async def test_a_recording_has_them_and_comes_again(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    events: list[Event] = []
    async with Simulator(say) as simulator:
        model = AnthropicModel("claude-opus-5-5", api_key="k", base_url=simulator.url)
        async with Agent(model, tools=[WebSearch(3), MCP_OPEN], options=RunOptions(wrappers=[Recorder(file)])) as agent:
            await agent.ask("Rain?")
            await agent.ask("Sure?")
            before = dump_messages(agent.messages)
    async with Agent(options=RunOptions(wrappers=[Replay(file)]), on_event=events.append) as agent:
        assert agent._runtime.definition.provider_tools == (WebSearch(3), MCP_OPEN)
        assert await agent.ask("Rain?") == "Rain."
        assert await agent.ask("Sure?") == "Yes."
        assert dump_messages(agent.messages) == before
    assert [type(event) for event in events if isinstance(event, ProviderCallStarted | ProviderCallFinished)] == [
        ProviderCallStarted,
        ProviderCallFinished,
    ]
    received = next(event for event in events if isinstance(event, ResponseReceived))
    assert received.citations[0].url == PAGE["url"]


MCP_OPEN = ProviderMcp("docs", "https://docs.example.com/mcp")


async def test_a_conversation_that_is_exported_has_what_the_provider_did() -> None:
    async with Simulator(say) as simulator:
        model = AnthropicModel("claude-opus-5-5", api_key="k", base_url=simulator.url)
        async with Agent(model, tools=[WebSearch()]) as agent:
            await agent.ask("Rain?")
            kept = agent._runtime.own_session.snapshot()
    for form in ("md", "html"):
        text = exported(kept, form)
        assert "web_search" in text
        assert PAGE["url"] in text
        assert f"source: {PAGE['title']} {PAGE['url']}" in text
