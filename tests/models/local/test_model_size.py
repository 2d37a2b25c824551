"""Small models: which are, and what the agent does otherwise with them, seen from what they are sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from mcpagent import Agent, ModelSettings, RunOptions, ScriptedModel, ToolSearch
from mcpagent.errors import ConfigError
from mcpagent.journal.recording import Recorder, Replay
from mcpagent.models import FallbackModel, OpenAIChatModel, resolve_model
from mcpagent.models.base import is_small
from mcpagent.models.endpoints.learned import LearnedStore, learned_of
from mcpagent.models.http_model import HttpModel
from mcpagent.models.local.model_size import is_of_small_size
from mcpagent.models.model_settings import settings_of
from mcpagent.values.events import Event, Notice
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, chat_stream

THEMES = ("invoice", "flight", "tyre", "oven", "violin", "tulip", "glacier", "passport")


def _tool(theme: str) -> Any:
    def function(count: int = 1) -> str:
        return f"{count} done"

    function.__name__ = f"find_{theme}"
    function.__doc__ = f"Find the {theme} that is asked for."
    return function


TOOLS = [_tool(theme) for theme in THEMES]


def played(name: str, provider: PlayedProvider, cache: Path | None = None, **options: Any) -> OpenAIChatModel:
    traits = LearnedStore(cache) if cache is not None else None
    address = "http://localhost:1/v1"
    return OpenAIChatModel(
        name, provider="vllm", base_url=address, http_client=provider.http_client, traits=traits, **options
    )


async def asked(
    model: Any, prompt: str = "the tulip, please", *, search: ToolSearch | None = None, **options: Any
) -> list[Event]:
    events: list[Event] = []
    tool_search = search or ToolSearch()
    async with Agent(model, tools=TOOLS, tool_search=tool_search, on_event=events.append, **options) as agent:
        await agent.ask(prompt)
    return events


def called(name: str, **arguments: Any) -> Any:
    call = {"index": 0, "id": "call_1", "type": "function"}
    return chat_stream({"tool_calls": [{**call, "function": {"name": name, "arguments": json.dumps(arguments)}}]})


def names(body: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", ())]


def system(body: dict[str, Any]) -> str:
    return str(body["messages"][0]["content"])


# -- which are --------------------------------------------------------------------------------------------------------


@each_row(
    "name, window, parameters, small",
    [
        ("qwen2.5-coder:1.5b", None, None, True),
        ("Qwen2.5-7B-Instruct-Q4_K_M.gguf", None, None, True),
        ("gemma-3-270m-it", None, None, True),
        ("llama3.1:8b-instruct-q4_0", None, None, True),
        ("llama3.1:70b", None, None, False),
        ("qwen3-30b-a3b", None, None, False),
        ("mixtral:8x22b", None, None, False),
        ("gpt-oss:20b", None, None, False),
        ("qwen3", None, None, False),
        ("v2.5beta", None, None, False),
        ("qwen3", None, 4_000_000_000, True),
        ("tiny-1b", None, 70_000_000_000, False),
        ("llama3.1:70b", 8192, None, True),
        ("llama3.1:70b", 8193, None, False),
        ("llama3.1:70b", 4096, 70_000_000_000, True),
    ],
)
def test_a_model_is_small_by_window_size_or_name(
    name: str, window: int | None, parameters: int | None, small: bool
) -> None:
    assert is_of_small_size(name, window, parameters) is small


@each_row(
    "spec, small",
    [
        ("ollama:llama3.2:3b", True),
        ("ollama:llama3.2:3b?profile=large", False),
        ("ollama:llama3.3:70b", False),
        ("ollama:llama3.3:70b?profile=small", True),
        ("openai-chat:llama3.2:3b?base_url=http://localhost:9/v1", True),
        ("anthropic:claude-3b?api_key_env=K", False),
        ("openai:some-3b?api_key_env=K", False),
        ("offline", False),
    ],
)
def test_only_servers_of_ones_own_have_small_models(spec: str, small: bool, tmp_path: Path) -> None:
    model = resolve_model(spec, environ={"K": "key", "XDG_CACHE_HOME": str(tmp_path)})
    assert is_small(model, ModelSettings()) is small
    assert is_small(model, ModelSettings(profile="small")) is True
    assert is_small(model, ModelSettings(profile="large")) is False


def test_a_chain_is_small_where_its_first_model_is() -> None:
    small, large = played("a-3b", PlayedProvider()), played("a-70b", PlayedProvider())
    assert is_small(FallbackModel([small, large]), ModelSettings())
    assert not is_small(FallbackModel([large, small]), ModelSettings())


@each_row("text", ["tiny", "", "Small", "1"])
def test_another_size_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match=r'profile is .*write "small", "large"'):
        settings_of({"profile": text}, "--set")


# -- what its server says ---------------------------------------------------------------------------------------------


@contextmanager
def listing(answer: bytes, status: int = 200) -> Iterator[tuple[str, list[str]]]:
    """A server on this computer with that list of models, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))  # how often it looks whether it is to end
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def of_llamacpp(**meta: Any) -> bytes:
    return json.dumps({"object": "list", "data": [{"id": "weights/some.gguf", "meta": meta}]}).encode()


@each_row(
    "answer, window, parameters, small",
    [
        (of_llamacpp(n_ctx=32768, n_params=1_777_088_000), 32768, 1_777_088_000, True),
        (of_llamacpp(n_ctx=8192, n_params=70_000_000_000), 8192, 70_000_000_000, True),
        (of_llamacpp(n_ctx=32768, n_params=70_000_000_000), 32768, 70_000_000_000, False),
        (b'{"data": [{"id": "q", "max_model_len": 4096}]}', 4096, None, True),
        (b'{"data": [{"id": "a", "meta": {"n_ctx": 1}}, {"id": "b"}]}', None, None, False),
        (b'{"data": [{"id": "q", "meta": {"n_ctx": "many", "n_params": -1}}]}', None, None, False),
        (b'{"data": []}', None, None, False),
        (b"<html>", None, None, False),
        (b"[" * 100_000, None, None, False),
    ],
)
async def test_a_server_is_asked_once_when_the_agent_starts(
    answer: bytes, window: int | None, parameters: int | None, small: bool, tmp_path: Path
) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    with listing(answer) as (address, paths):
        model = resolve_model(f"llamacpp:some?base_url={address}", environ=environ)
        async with Agent(model):
            assert paths == ["/v1/models"]
    assert isinstance(model, HttpModel)
    assert (model.server().window_tokens, model.server().parameters) == (window, parameters)
    assert is_small(model, ModelSettings()) is small
    later = resolve_model(f"llamacpp:some?base_url={address}", environ=environ)
    async with Agent(later):  # nothing answers there any more: what it said before counts
        assert is_small(later, ModelSettings()) is small


@each_row(
    "name, size, small",
    [
        ("qwen3", "8.2B", True),
        ("qwen3:latest", "494.03M", True),
        ("qwen3", "32.8B", False),
        ("qwen3", "", False),
        ("qwen3", "infB", False),
        ("qwen3", None, False),
        ("other", "1B", False),
    ],
)
async def test_ollamas_own_list_says_the_size(name: str, size: str | None, small: bool, tmp_path: Path) -> None:
    models = [{"name": "big:70b", "details": {"parameter_size": "70B"}}]
    models += [{"name": "qwen3:latest", "details": {"parameter_size": size}}]
    listed = [{"id": model["name"]} for model in models]
    with listing(json.dumps({"data": listed, "models": models}).encode()) as (address, paths):
        model = resolve_model(f"ollama:{name}?base_url={address}", environ={"XDG_CACHE_HOME": str(tmp_path)})
        async with Agent(model):
            assert paths == ["/v1/models", "/api/tags"]
    assert is_small(model, ModelSettings()) is small


async def test_a_window_that_a_server_tells_is_the_window(tmp_path: Path) -> None:
    with listing(of_llamacpp(n_ctx=16384, n_params=10**12)) as (address, _):
        model = resolve_model(f"llamacpp:some?base_url={address}", environ={"XDG_CACHE_HOME": str(tmp_path)})
        async with Agent(model) as agent:
            assert isinstance(model, HttpModel)
            assert model.tool_limits().window_tokens == 16384
            assert not agent.discovered_tools


def test_what_was_kept_of_a_size_is_read_only_if_it_is_one(tmp_path: Path) -> None:
    cache = LearnedStore(tmp_path)
    cache.save("http://localhost:1/v1", "m", learned_of(parameters=5))
    assert cache.load("http://localhost:1/v1", "m") == learned_of(parameters=5)
    [path] = tmp_path.iterdir()
    path.write_text(path.read_text().replace('"value": 5', '"value": "5"'))
    assert cache.load("http://localhost:1/v1", "m") is None


# -- what is done otherwise -------------------------------------------------------------------------------------------


async def test_a_small_model_is_given_what_its_question_finds() -> None:
    provider = PlayedProvider(called("find_tulip", count=2), chat_stream({"content": "Two."}))
    await asked(played("a-3b", provider))
    first, second = provider.bodies
    assert names(first)[:2] == ["search_tools", "find_tulip"]
    assert "add_tool" not in names(first)
    assert names(second) == names(first)
    assert (first["temperature"], first["max_tokens"]) == (0.1, 1024)
    assert second["messages"][-1]["content"] == "2 done"
    large = PlayedProvider(chat_stream({"content": "No."}))
    await asked(played("a-70b", large))
    assert names(large.bodies[0]) == ["search_tools", "add_tool"]
    assert not large.bodies[0].keys() & {"temperature", "max_tokens"}
    assert len(system(first)) < 0.6 * len(system(large.bodies[0]))


async def test_what_is_set_goes_before_what_suits_its_size() -> None:
    provider = PlayedProvider(chat_stream({"content": "No."}))
    model = played("a-3b", provider, settings=ModelSettings(temperature=0.7))
    search = ToolSearch(load="add_tool", prefetch=0, on_direct_call="refuse")
    await asked(model, search=search, options=RunOptions(settings=ModelSettings(max_output_tokens=50)))
    [body] = provider.bodies
    assert names(body) == ["search_tools", "add_tool"]
    assert (body["temperature"], body["max_tokens"]) == (0.7, 50)
    assert "Workflow" in system(body)


async def test_the_settings_of_a_run_say_how_small_a_model_is() -> None:
    for profile, offered in (("small", ["search_tools", "find_tulip"]), ("large", ["search_tools", "add_tool"])):
        for name in ("a-3b", "a-70b"):
            provider = PlayedProvider(chat_stream({"content": "No."}))
            settings = settings_of({"profile": profile}, "--set")
            await asked(played(name, provider), options=RunOptions(settings=settings))
            assert names(provider.bodies[0])[:2] == offered
            assert ("temperature" in provider.bodies[0]) is (profile == "small")
            assert "profile" not in provider.bodies[0]


async def test_weak_matches_are_loaded_for_it_but_not_what_fits_nothing() -> None:
    for prompt, more in (
        ("Find me some oven for the winter in my new house in Norway", True),
        ("Thanks a lot!", False),
    ):
        provider = PlayedProvider(chat_stream({"content": "No."}))
        await asked(played("a-3b", provider), prompt)
        assert (len(names(provider.bodies[0])) > 1) is more


async def test_a_tool_that_it_knows_by_name_runs_at_once() -> None:
    provider = PlayedProvider(called("find_oven", count=3), chat_stream({"content": "Three."}))
    await asked(played("a-3b", provider), "Thanks a lot!")
    assert provider.bodies[1]["messages"][-1]["content"] == "3 done"


@each_row(
    "said, nudge",
    [
        ("To find it, use find_tulip.", '"find_tulip"'),
        ("You can use the `tulip` function with count 1.", "a tool"),
        ("I would call search_tools(query).", '"search_tools"'),
        ("There are two tulips.", ""),
        ("You can use the `print` function:\n```python\nprint(1)\n```", ""),
    ],
)
async def test_who_only_talks_about_a_call_is_reminded_once(said: str, nudge: str) -> None:
    talk = chat_stream({"content": said})
    provider = PlayedProvider(talk, talk)
    await asked(played("a-3b", provider))
    assert len(provider.bodies) == (2 if nudge else 1)
    if nudge:
        assert provider.bodies[1]["messages"][-1]["content"].startswith(f"You wrote about {nudge} but did not call it.")
    large = PlayedProvider(talk)
    await asked(played("a-70b", large))
    assert len(large.bodies) == 1


async def test_who_has_no_tools_is_not_reminded_of_one() -> None:
    provider = PlayedProvider(chat_stream({"content": "Use the `len` function."}))
    async with Agent(played("a-3b", provider)) as agent:
        await agent.ask("How long is a list?")
    assert len(provider.bodies) == 1


async def test_who_called_is_not_reminded() -> None:
    provider = PlayedProvider(called("find_tulip"), chat_stream({"content": "find_tulip found one."}))
    await asked(played("a-3b", provider))
    assert len(provider.bodies) == 2


async def test_it_is_told_of_repeats_after_two() -> None:
    call = called("find_tulip")
    provider = PlayedProvider(call, call, call, chat_stream({"content": "Done."}))
    await asked(played("a-3b", provider))
    told = [str(message["content"]) for message in provider.bodies[-2]["messages"] if message["role"] == "user"]
    assert any("was made 2 times in a row" in text for text in told)
    assert len(provider.bodies) == 4
    assert "tool_choice" not in provider.bodies[2] or provider.bodies[2]["tool_choice"] == "auto"


async def test_one_that_is_cut_off_in_its_thoughts_says_what_helps() -> None:
    provider = PlayedProvider(chat_stream({"reasoning_content": "Hm."}, finish="length"))
    events = await asked(played("tiny-1b", provider))
    [text] = [event.text for event in events if isinstance(event, Notice)]
    assert text == "the model was cut off before it answered: set a larger max_output_tokens, or less thinking"


async def test_another_model_of_another_size_is_met_by_its_own_ways() -> None:
    small, large = (PlayedProvider(chat_stream({"content": "No."})) for _ in range(2))
    async with Agent(played("a-3b", small), tools=TOOLS, with_tool_search_mode=True) as agent:
        await agent.ask("the tulip, please")
        await agent.use_model(played("a-70b", large))
        await agent.ask("the oven, please")
    assert names(small.bodies[0])[:2] == ["search_tools", "find_tulip"]
    assert names(large.bodies[0])[:2] == ["search_tools", "add_tool"]
    assert "find_tulip" in names(large.bodies[0])
    assert "Workflow" in system(large.bodies[0])


async def test_a_recording_of_a_small_model_is_replayed(tmp_path: Path) -> None:
    provider = PlayedProvider(called("find_tulip"), chat_stream({"content": "One."}))
    path = tmp_path / "run.jsonl"
    settings = RunOptions(settings=ModelSettings(profile="small"))
    model = played("a-70b", provider)
    async with Agent(
        model, tools=TOOLS, tool_search=ToolSearch(), options=replace(settings, wrappers=[Recorder(path)])
    ) as agent:
        first = await agent.run("the tulip, please")
    async with Agent("offline", options=RunOptions(wrappers=[Replay(path)])) as agent:
        again = await agent.run("the tulip, please")
    assert again.answer == first.answer == "One."
    assert [message.text for message in again.messages] == [message.text for message in first.messages]


async def test_other_models_need_not_know_how_small_they_are() -> None:
    model = ScriptedModel(["No."])
    async with Agent(model, tools=TOOLS, with_tool_search_mode=True) as agent:
        await agent.ask("the tulip, please")
    assert [tool.name for tool in model.requests[0].tools] == ["search_tools", "add_tool"]
    assert model.requests[0].settings == ModelSettings()
