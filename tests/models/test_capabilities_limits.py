"""How many tools fit a model: what each provider takes, what a server tells, the smallest of a chain, a recording's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, ConfigError, RunOptions
from mcpagent.errors import ContextOverflowError
from mcpagent.journal.recording.recorder import Recorder
from mcpagent.journal.recording.replay import Replay
from mcpagent.models import AnthropicModel, FallbackModel, ModelRequest, OpenAIChatModel, ScriptedModel, resolve_model
from mcpagent.models.base import Model, ToolLimits, tool_limits
from mcpagent.models.capabilities import Capabilities
from mcpagent.models.endpoints.endpoint import endpoint_of
from mcpagent.models.endpoints.learned import LearnedStore, learned_of
from mcpagent.models.sendable_history import address_of
from mcpagent.values.events import ignore
from mcpagent.values.messages import Origin, user_message
from tests.tables import each_row
from tests.wire.provider import PlayedProvider, chat_stream, failed

KEYS = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "KEY"), "k")
HELLO = ModelRequest("", (user_message("hello"),))


@each_row(
    "model, max_tools, window_tokens",
    [
        ("anthropic:claude-opus-5", None, 1_000_000),
        ("anthropic:claude-nobody-0", None, None),
        ("openai:gpt-4o", 128, 128_000),
        ("openai-chat:gpt-4o", 128, 128_000),
        ("openai-chat:gpt-4o?base_url=https://mine.openai.azure.com/openai/v1&api_key_env=KEY", 128, 128_000),
        ("gemini:gemini-2.5-flash", 512, 1_048_576),
        ("openai-chat:openai/gpt-oss-120b?base_url=https://api.groq.com/openai/v1&api_key_env=KEY", 128, 131_072),
        ("openai-chat:grok-4?base_url=https://api.x.ai/v1&api_key_env=KEY", 200, 256_000),
        ("openai-chat:mistral-large-latest?base_url=https://api.mistral.ai/v1&api_key_env=KEY", None, 256_000),
        ("openrouter:openai/gpt-5.5", 128, 1_050_000),
        ("openrouter:x-ai/nobody", 200, None),
        ("openrouter:anthropic/nobody", None, None),
        ("ollama:llama3.2:3b", 32, 4096),
        ("llamacpp:qwen3", 32, 4096),
        ("lmstudio:qwen3", 32, 4096),
        ("vllm:qwen3", 32, None),
        ("openai-chat:mine?base_url=http://localhost:9/v1", None, None),
        ("offline", None, None),
    ],
)
def test_what_fits_a_model(model: str, max_tools: int | None, window_tokens: int | None, tmp_path: Path) -> None:
    keys = {**KEYS, "MCPAGENT_HOME": str(tmp_path)}
    assert tool_limits(resolve_model(model, environ=keys)) == ToolLimits(max_tools, window_tokens)


@each_row("host", ["api.openai.com.example", "notapi.openai.com", "api.x.ai@example.com", "[::1", ""])
def test_another_address_is_not_taken_for_a_providers(host: str) -> None:
    asked = Origin("openai-chat", "chat", address_of(f"https://{host}/v1"), "nobody")
    assert endpoint_of(asked).limits == ToolLimits()


def test_a_chain_takes_what_the_smallest_of_its_members_takes(tmp_path: Path) -> None:
    def limits(*models: str | Model) -> ToolLimits:
        return tool_limits(resolve_model(list(models), environ={**KEYS, "MCPAGENT_HOME": str(tmp_path)}))

    assert limits("openai:gpt-4o", "gemini:gemini-2.5-flash") == ToolLimits(128, 128_000)
    assert limits("anthropic:claude-opus-5", ScriptedModel([])) == ToolLimits(None, 1_000_000)
    assert limits("anthropic:claude-opus-5", "openai:gpt-4o", "ollama:qwen3") == ToolLimits(32, 4096)
    assert limits(ScriptedModel([]), ScriptedModel([])) == ToolLimits()
    missing_key = resolve_model(["openai:gpt-4o", "ollama:qwen3"], environ={"MCPAGENT_HOME": str(tmp_path)})
    assert tool_limits(missing_key) == ToolLimits(32, 4096)


def test_capabilities_overrule_what_is_known() -> None:
    given = Capabilities("append", limits=ToolLimits(window_tokens=65_536))
    local = OpenAIChatModel("qwen3", provider="ollama", base_url="http://localhost:1/v1", capabilities=given)
    assert tool_limits(local) == ToolLimits(32, 65_536)
    wide = AnthropicModel("claude-opus-5", capabilities=Capabilities(limits=ToolLimits(max_tools=500)))
    assert tool_limits(FallbackModel([wide])) == ToolLimits(500, 1_000_000)


OVERFLOWS: dict[str, Any] = {
    "llamacpp": {
        "code": 400,
        "message": "the request exceeds the available context size. try increasing the context size",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 14429,
        "n_ctx": 8192,
    },
    "vllm": {"message": "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."},
    "lmstudio": {
        "message": "The number of tokens to keep from the initial prompt is greater than the context length "
        "(n_keep: 10247 >= n_ctx: 8192). Try to load the model with a larger context length."
    },
    "lmstudio, before": {
        "message": "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded "
        "with context length of only 8192 tokens, which is not enough."
    },
}


@each_row("server", list(OVERFLOWS))
async def test_a_server_that_tells_its_window_is_believed_also_by_the_next_process(server: str, tmp_path: Path) -> None:
    def made(*answers: Any) -> OpenAIChatModel:
        return OpenAIChatModel(
            "qwen3",
            provider=server.partition(",")[0],
            base_url="http://localhost:1/v1",
            http_client=PlayedProvider(*answers).http_client,
            traits=LearnedStore(tmp_path),
        )

    model = made(failed(400, {"error": OVERFLOWS[server]}), chat_stream({"content": "hi"}))
    assert tool_limits(model).window_tokens != 8192
    with pytest.raises(ContextOverflowError):
        await model.respond(HELLO, ignore)
    assert tool_limits(model) == ToolLimits(32, 8192)
    assert tool_limits(made()) == ToolLimits(32, 8192)
    assert (await model.respond(HELLO, ignore)).message.text == "hi"


@each_row("window", ["8192", True, -1, 0, [], 1.5])
def test_a_kept_window_that_is_none_counts_for_nothing(window: object, tmp_path: Path) -> None:
    cache = LearnedStore(tmp_path)
    cache.save("http://localhost:1/v1", "qwen3", learned_of(window_tokens=8192))
    [file] = tmp_path.iterdir()
    kept = json.loads(file.read_text())
    file.write_text(json.dumps({**kept, "facts": [{**kept["facts"][0], "value": window}]}))
    assert cache.load("http://localhost:1/v1", "qwen3") is None


class _Limited(ScriptedModel):
    def tool_limits(self) -> ToolLimits:
        return ToolLimits(7, 5000)


async def test_a_recording_keeps_the_limits_of_its_model(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    async with Agent(_Limited(["hi"]), options=RunOptions(wrappers=[Recorder(path)])) as recorded:
        assert await recorded.ask("hello") == "hi"
        assert tool_limits(recorded._runtime.model) == ToolLimits(7, 5000)
    async with Agent(options=RunOptions(wrappers=[Replay(path)])) as replayed:
        assert tool_limits(replayed._runtime.model) == ToolLimits(7, 5000)


async def _recorded_with(told: dict[str, Any], path: Path) -> None:
    async with Agent(_Limited(["hi"]), options=RunOptions(wrappers=[Recorder(path)])) as recorded:
        assert await recorded.ask("hello") == "hi"
    first, rest = path.read_text().split("\n", 1)
    start = {key: value for key, value in json.loads(first).items() if key != "tool_limits"}
    path.write_text(f"{json.dumps({**start, **told})}\n{rest}")


async def test_a_recording_without_limits_knows_none(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    await _recorded_with({}, path)
    async with Agent(options=RunOptions(wrappers=[Replay(path)])) as replayed:
        assert tool_limits(replayed._runtime.model) == ToolLimits()
        assert await replayed.ask("hello") == "hi"


@each_row("told", [{"tool_limits": 5}, {"tool_limits": {"max_tools": "many"}}])
async def test_limits_that_are_none_are_told_with_their_line(told: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    await _recorded_with(told, path)
    with pytest.raises(ConfigError, match=r"run\.jsonl:1: not a line of a recording .*tool_limits"):
        await Agent(options=RunOptions(wrappers=[Replay(path)])).__aenter__()
