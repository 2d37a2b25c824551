"""Models whose server takes no tools: tools in the prompt, calls as JSON of a given schema, found out once."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagent import Agent
from mcpagent.errors import ConfigError, ModelError
from mcpagent.models import ModelRequest, ModelSettings, OpenAIChatModel, resolve_model
from mcpagent.models.base import ModelResponse
from mcpagent.models.endpoints.learned import LearnedStore, learned_of
from mcpagent.models.local.prompted_calls import answer_format, prompted, read_prompted
from mcpagent.models.transport.sdk_connection import encoded
from mcpagent.values.events import Event, Notice, TextDelta, ignore
from mcpagent.values.messages import (
    Image,
    Message,
    Origin,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    Usage,
    user_message,
)
from tests.tables import each_row
from tests.wire.bounded import bounded
from tests.wire.life import KINDS, Life
from tests.wire.provider import PlayedProvider, chat_stream, failed
from tests.wire.scene import SEARCH, WEATHER

REFUSALS = {
    "ollama": failed(400, {"error": {"message": "registry.ollama.ai/library/gemma:2b does not support tools"}}),
    "vllm": failed(
        400, {"message": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'}
    ),
    "llamacpp": failed(500, {"error": {"message": "tools param requires --jinja flag", "type": "server_error"}}),
}


def said(value: Any) -> Any:
    return chat_stream({"content": json.dumps(value)})


def model(*answers: Any, **options: Any) -> tuple[OpenAIChatModel, PlayedProvider]:
    played = PlayedProvider(*answers)
    options = {"base_url": "http://localhost:1/v1", "provider": "ollama", "max_retries": 0, **options}
    return OpenAIChatModel("gemma", http_client=played.http_client, **options), played


def double(n: int) -> int:
    """Twice the number."""
    return 2 * n


@each_row("server", list(REFUSALS))
async def test_a_server_that_takes_no_tools_is_asked_once(server: str) -> None:
    made, played = model(
        *(REFUSALS[server], said({"tool": "double", "arguments": {"n": 4}}), said({"answer": "It is 8."})),
        max_retries=2,
    )
    events: list[Event] = []
    async with Agent(made, tools=[double], on_event=events.append) as agent:
        assert await agent.ask("Twice four?") == "It is 8."
        assert await agent.ask("Sure?") == "It is 8."
    first, second, third, fourth = played.bodies
    assert "tools" in first
    assert all("tools" not in body and "response_format" in body for body in (second, third, fourth))
    assert "Twice the number." in second["messages"][0]["content"]
    assert third["messages"][-2:] == [
        {"role": "assistant", "content": '{"tool":"double","arguments":{"n":4}}'},
        {"role": "user", "content": "Result of double:\n8"},
    ]
    told = [event.text for event in events if isinstance(event, Notice)]
    assert told == ["ollama:gemma takes no tools; they are described in the prompt from now on"]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "It is 8." * 2


async def test_found_tools_are_described_where_they_were_found_and_no_earlier_byte_changes() -> None:
    made, played = model(
        said({"tool": "add_tool", "arguments": {"tool_names": ["double"]}}),
        said({"tool": "double", "arguments": {"n": 4}}),
        said({"answer": "8"}),
        calls="prompted",
    )
    async with Agent(made, tools=[double], with_tool_search_mode=True) as agent:
        assert await agent.ask("Twice four?") == "8"
    for before, after in pairwise(played.bodies):
        assert after["messages"][: len(before["messages"])] == before["messages"]
    assert "Twice the number." not in played.bodies[0]["messages"][0]["content"]
    assert "New tool:" in json.dumps(played.bodies[1]["messages"][-1])


async def test_a_server_without_response_format_is_asked_without_it_from_then_on() -> None:
    refusal = failed(400, {"error": {"message": "unknown field response_format"}})
    made, played = model(refusal, said({"answer": "hi"}), calls="prompted")
    request = ModelRequest("", (user_message("hello"),), (SEARCH,))
    for _ in range(2):
        assert (await made.respond(request, ignore)).message.text == "hi"
    assert ["response_format" in body for body in played.bodies] == [True, False, False]


async def test_two_requests_at_once_learn_it_both() -> None:
    both = asyncio.Event()
    bodies: list[dict[str, Any]] = []

    async def answer(request: httpx2.Request) -> httpx2.Response:
        bodies.append(json.loads(request.content))
        if len(bodies) == 2:
            both.set()
        await asyncio.wait_for(both.wait(), 30)
        refused = "response_format" in json.loads(request.content)
        return (
            failed(400, {"error": {"message": "unknown field response_format"}}) if refused else said({"answer": "hi"})
        )

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    address = "http://localhost:1/v1"
    made = OpenAIChatModel("gemma", provider="ollama", base_url=address, http_client=client, calls="prompted")
    answers = await asyncio.gather(made.respond(REQUEST, ignore), made.respond(REQUEST, ignore))
    assert [response.message.text for response in answers] == ["hi", "hi"]
    assert sorted("response_format" in body for body in bodies) == [False, False, True, True]


async def test_a_format_of_the_users_own_that_is_refused_is_an_error() -> None:
    refusal = failed(400, {"error": {"message": "unknown field response_format"}})
    own = ModelSettings(extra={"response_format": {"type": "json_object"}})
    made, played = model(refusal, calls="prompted", settings=own)
    with pytest.raises(ModelError, match="unknown field response_format"):
        await made.respond(REQUEST, ignore)
    assert len(played.requests) == 1


async def test_other_errors_stay_errors_and_a_model_said_to_call_natively_is_believed() -> None:
    made, _ = model(failed(400, {"error": {"message": "bad request"}}))
    with pytest.raises(ModelError, match="bad request"):
        await made.respond(ModelRequest("", (user_message("x"),), (SEARCH,)), ignore)
    made, played = model(REFUSALS["ollama"], calls="native")
    with pytest.raises(ModelError, match="does not support tools"):
        await made.respond(ModelRequest("", (user_message("x"),), (SEARCH,)), ignore)
    assert len(played.requests) == 1


async def test_what_was_found_out_is_kept_on_disk_for_a_day(tmp_path: Path) -> None:
    clock = [1_000_000.0]

    async def ask(*answers: Any, **options: Any) -> tuple[list[str], list[dict[str, Any]]]:
        traits = LearnedStore(tmp_path / "models", now=lambda: clock[0])
        made, played = model(*answers, traits=traits, **options)
        events: list[Event] = []
        for _ in range(2):
            assert (await made.respond(REQUEST, events.append)).message.text == "hi"
        return [event.text for event in events if isinstance(event, Notice)], played.bodies

    def kinds(bodies: list[dict[str, Any]]) -> list[str]:
        """Of each request, which of the two it asks with."""
        return [" ".join(key for key in ("tools", "response_format") if key in body) for body in bodies]

    hi, no_format = said({"answer": "hi"}), failed(400, {"error": {"message": "unknown field response_format"}})
    notice = "ollama:gemma takes no tools; they are described in the prompt from now on"
    told, bodies = await ask(REFUSALS["ollama"], no_format, hi)
    assert (told, kinds(bodies)) == ([notice], ["tools", "response_format", "", ""])
    told, bodies = await ask(hi)
    assert (told, kinds(bodies)) == ([notice], ["", ""])
    told, bodies = await ask(chat_stream({"content": "hi"}), base_url="http://localhost:2/v1")
    assert (told, kinds(bodies)) == ([], ["tools", "tools"])
    told, bodies = await ask(chat_stream({"content": "hi"}), calls="native")
    assert (told, kinds(bodies)) == ([], ["tools", "tools"])
    clock[0] += 25 * 3600
    told, bodies = await ask(chat_stream({"content": "hi"}))
    assert (told, kinds(bodies)) == ([], ["tools", "tools"])


@each_row(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"format": 2, "facts": {}}',
        b'{"format": 2, "facts": [5]}',
        b'{"format": 2, "facts": [{"what": "takes_tools", "value": false, "found": "now"}]}',
        b'{"format": 2, "facts": [{"what": "takes_tools", "value": "no", "found": 5.0}]}',
        b'{"format": 2, "facts": [{"what": "other", "value": false, "found": 5.0}]}',
        b'{"format": 3, "facts": [{"what": "takes_tools", "value": false, "found": 5.0}]}',
        b'{"format": 2, "facts": [{"what": "takes_tools", "value": false, "found": 9.0}]}',
        b'{"format": 1, "found": 5.0, "traits": {"takes_tools": false, "constrains": true}}',
    ],
)
def test_a_kept_file_that_cannot_be_used_counts_as_none(content: bytes, tmp_path: Path) -> None:
    cache = LearnedStore(tmp_path, now=lambda: 6.0)
    cache.save("http://localhost:1/v1", "gemma", learned_of(5.0, takes_tools=False))
    assert cache.load("http://localhost:1/v1/", "gemma") == learned_of(takes_tools=False)
    [file] = tmp_path.iterdir()
    file.write_bytes(content)
    assert cache.load("http://localhost:1/v1", "gemma") is None


def test_a_folder_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    cache = LearnedStore(tmp_path / "file" / "models")
    cache.save("http://localhost:1/v1", "gemma", learned_of())
    assert cache.load("http://localhost:1/v1", "gemma") is None


async def test_a_named_model_keeps_it_in_the_users_cache(tmp_path: Path) -> None:
    played = PlayedProvider(REFUSALS["ollama"], said({"answer": "hi"}))
    made = resolve_model("ollama:gemma", environ={"MCPAGENT_HOME": str(tmp_path)}, http_client=played.http_client)
    await made.respond(REQUEST, ignore)
    assert len(list((tmp_path / "cache" / "models").iterdir())) == 1


REQUEST = ModelRequest("", (user_message("x"),), (SEARCH,))
CALL = '{"tool": "search_tools", "arguments": {"query": "x"}}'


@each_row(
    "text",
    [
        "Just words.",
        CALL[:-3],
        CALL + " and more",
        CALL + CALL,
        '{"tool": " ", "arguments": {}}',
        '{"tool": "search_tools"}',
        '{"tool": "search_tools", "arguments": "x"}',
        '{"tool": "search_tools", "arguments": {}, "answer": "x"}',
        "[" * 100_000,
    ],
)
def test_what_is_not_exactly_a_call_is_never_run(text: str) -> None:
    response = read_prompted(answered(text), REQUEST)
    assert (response.message.tool_calls, response.message.text) == ((), text)


def answered(text: str, stop: Any = "end") -> ModelResponse:
    return ModelResponse(Message("assistant", (Text(text),)), Usage(), stop)


def test_a_cut_off_call_is_never_run_nor_one_where_an_answer_was_asked_for() -> None:
    assert read_prompted(answered(CALL, "length"), REQUEST).message.tool_calls == ()
    assert read_prompted(answered(CALL), replace(REQUEST, tool_choice="none")).message.tool_calls == ()
    [call] = read_prompted(answered(CALL), REQUEST).message.tool_calls
    assert (call.name, call.arguments) == ("search_tools", {"query": "x"})


def test_the_schema_allows_calls_of_the_offered_tools_and_an_answer_alone() -> None:
    schema = answer_format((SEARCH, WEATHER))["json_schema"]["schema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    good = [json.loads(CALL), {"answer": "x"}, {"tool": "get_weather", "arguments": {"location": "Rome"}}]
    bad = [{"tool": "rm", "arguments": {}}, {"tool": "search_tools", "arguments": {"query": 1}}, {}, "x"]
    assert [jsonschema.Draft202012Validator(schema).is_valid(value) for value in (*good, *bad)] == [True] * 3 + [
        False
    ] * 4


@given(life=st.lists(st.tuples(st.sampled_from(KINDS), st.lists(st.integers(0, 4)).map(tuple)), max_size=10))
@bounded
def test_over_a_whole_life_the_messages_only_grow(life: list[tuple[str, tuple[int, ...]]]) -> None:
    lived = Life(Origin("ollama"))
    made, _ = model()
    bodies = [made.request_body(prompted(lived.request(), constrained=True))]
    for step in life:
        lived.live(step)
        bodies.append(made.request_body(prompted(lived.request(), constrained=True)))
    for before, after in pairwise(bodies):
        assert encoded({"m": after["messages"][: len(before["messages"])]}) == encoded({"m": before["messages"]})


def test_an_image_in_a_result_is_kept() -> None:
    result = ToolResult("c", "look", (Image("image/png", "iVBORw0KGgo="),))
    history = (user_message("x"), Message("assistant", (ToolCall("c", "look", {}),)), Message("tool", (result,)))
    made, _ = model()
    tool = ToolDefinition("look", "Looks.", {"type": "object", "properties": {}})
    body = made.request_body(prompted(ModelRequest("", history, (tool,)), constrained=True))
    assert [part["type"] for part in body["messages"][-1]["content"]] == ["text", "image_url"]


def test_the_option_in_a_models_name() -> None:
    made = resolve_model("ollama:gemma?calls=prompted", environ={})
    assert isinstance(made, OpenAIChatModel)
    assert made.calls == "prompted"
    with pytest.raises(ConfigError, match='option calls is "x"; write native or prompted'):
        resolve_model("ollama:gemma?calls=x", environ={})
    with pytest.raises(ConfigError, match="option calls is not for anthropic:"):
        resolve_model("anthropic:claude-x?calls=prompted", environ={"ANTHROPIC_API_KEY": "k"})
