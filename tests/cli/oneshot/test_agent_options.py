"""What the options of the command line make of an agent: its model, its settings, its tool search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpagent.cli.common.configuration import Configuration
from mcpagent.cli.common.options import Options
from mcpagent.cli.oneshot.agent_options import _settings, enabled_search, model_of, offline_here
from mcpagent.config import ServersConfig
from mcpagent.config.secret_store import key_store
from mcpagent.errors import ConfigError
from mcpagent.models.base import ModelRequest
from mcpagent.models.local.offline_model import OfflineModel
from mcpagent.values.messages import ToolDefinition, user_message

PUSH = ToolDefinition(
    "push_branch",
    "Push a branch to the remote",
    {"type": "object", "properties": {"branch": {"type": "string"}}, "required": ["branch"]},
    "git",
)


async def test_commands_of_the_offline_model_reach_the_same_servers() -> None:
    options = Options(config=(Path("my servers.json"),), server=("git=uvx x",))
    model = offline_here(options, list)
    assert isinstance(model, OfflineModel)
    request = ModelRequest("", (user_message("push the branch 'main'"),), (PUSH,))
    response = await model.respond(request, lambda _: None)
    command = "mcpagent tools call --server 'git=uvx x' --config 'my servers.json' push_branch branch=main"
    assert command in response.message.text
    response = await offline_here(Options(), list).respond(request, lambda _: None)
    assert "run:\n\n    mcpagent tools call push_branch branch=main" in response.message.text


def test_a_stored_key_chooses_the_model_like_a_variable(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "MCPAGENT_HOME": str(tmp_path), "PATH": ""}
    assert model_of(Options(environ=environ)) == "offline"
    key_store(environ).set("ANTHROPIC_API_KEY", "sk-ant-api03-0123456789abcdef")
    assert model_of(Options(environ=environ)).startswith("anthropic:")
    assert model_of(Options(environ={**environ, "MCPAGENT_MODEL": "offline"})) == "offline"
    assert model_of(Options(environ={**environ, "OPENAI_API_KEY": "sk-0123456789abcdef"})).startswith("openai")


def test_an_unknown_setting_is_answered_with_the_nearest_name() -> None:
    for typed, words in (
        ("max_call=3", 'error: --set "max_call" is not known; did you mean max_calls?'),
        ("temprature=1", "did you mean temperature?"),
        ("zzz=1", "mcpagent config show -v lists the names"),
    ):
        with pytest.raises(ConfigError) as error:
            _settings(Options(set=(typed,)))
        assert words.removeprefix("error: ") in str(error.value)
    assert _settings(Options(set=("temperature=0", "extra.top_k=4", "header.X=y"))).temperature == 0


def test_tool_search_is_on_with_the_bundled_server_and_where_it_is_chosen() -> None:
    own = Configuration(ServersConfig())
    bundled = replace(own, is_demo=True)
    cases: list[tuple[Any, Configuration, bool | str]] = [
        ("auto", bundled, True),
        ("auto", own, "auto"),
        ("on", own, True),
        ("off", bundled, False),
    ]
    for chosen, configuration, expected in cases:
        assert enabled_search(Options(tool_search=chosen), configuration) == expected, chosen
