"""What a server repeats of its secrets: nothing for people and files, and for models what is no random value."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, RunOptions
from mcpagent.config import ServerConfig
from mcpagent.journal.recording import Recorder
from mcpagent.mcp.handlers import Handlers
from mcpagent.mcp.lists.list_cache import ListCache
from mcpagent.mcp.lists.pins import PinStore
from mcpagent.mcp.prompts_and_resources import get_prompt, get_resource
from mcpagent.mcp.server_link import ServerLink
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models import ScriptedModel
from mcpagent.values.events import Event
from mcpagent.values.messages import Text, ToolCall, dump_messages
from mcpagent.values.tools import ToolOutput
from tests.servers.leftovers import nothing_left
from tests.tables import each_row

SERVER = Path(__file__).resolve().parents[1] / "servers" / "leaky.py"
SECRETS = {
    "API_TOKEN": "tok-4f9a8b7c6d5e4f3a",
    "DB_PASSWORD": "opensesame-and-more",
    "MCP_API_KEY": "a/b+c=d e&f%g",
    "PRIVATE_KEY": "-----BEGIN-----\nq8w7e6r5t4y3u2i1\n-----END-----",
    "CREDENTIALS": '{"key": "j5k4l3h2g1f0"}',
    "DATABASE_AUTH": "postgres://me:swordfish99@db/x",
}
ENV = SECRETS | {"LEAKS": ",".join(SECRETS)}
RANDOM = SECRETS["API_TOKEN"]


def leaks(where: str, texts: Iterable[str]) -> list[str]:
    values = [*SECRETS.values(), "q8w7e6r5t4y3u2i1", "swordfish99"]
    wanted = {spelling for value in values for spelling in (value, json.dumps(value)[1:-1])}
    wanted |= {base64.b64encode(value.encode()).decode().rstrip("=") for value in SECRETS.values()}
    return [f"{where}: {part}" for text in texts for part in wanted if part in text]


def texts_of(folder: Path) -> Iterable[str]:
    return [path.read_text("utf-8", "replace") for path in folder.rglob("*") if path.is_file()]


def texts_in_output(output: ToolOutput) -> list[Text]:
    return [part for part in output.content if isinstance(part, Text)]


def config(place: str = "env", **settings: Any) -> ServerConfig:
    if place == "args":
        words = [word for name, value in SECRETS.items() for word in (f"--{name.lower()}", value)]
        return ServerConfig("leaky", command=sys.executable, args=(str(SERVER), *words), era="legacy", **settings)
    return ServerConfig("leaky", command=sys.executable, args=(str(SERVER),), env=ENV, era="legacy", **settings)


@each_row("place", ["env", "args"])
async def test_what_a_server_says_is_without_its_secrets_wherever_it_says_it(place: str, tmp_path: Path) -> None:
    events: list[Event] = []
    asked: list[Any] = []

    async def elicit(*question: Any) -> None:
        asked.append(question)

    found: list[str] = []
    cache, logs = ListCache(tmp_path / "cache"), tmp_path / "logs"
    handlers, pins = Handlers(elicit=elicit), PinStore(tmp_path / "pins")
    toolset = ServerLink(config(place), pins=pins, emit=events.append, handlers=handlers, cache=cache, log_folder=logs)
    async with nothing_left(), toolset:
        for tool in toolset.bound_tools():
            shown = [tool.definition.description, *(part.text for part in texts_in_output(await tool.run({})))]
            found += [f"{tool.name}: {text}" for text in shown if RANDOM in text.split()]
        for read in (get_prompt(toolset, "p", {}), get_resource(toolset, "x://")):
            found += [text.text for text in texts_in_output(await read) if RANDOM in text.text.split()]
        with pytest.raises(Exception, match="takes no subscription") as refused:
            await toolset.subscription("x://y", wanted=True)
        found += leaks("subscription", [str(refused.value)])
        found += leaks("status", [repr((toolset.log, toolset.status.reason))])
    found += leaks("events", map(repr, events))
    found += leaks("logs", texts_of(logs))
    assert found == [], "\n".join(found)
    [(server, message, schema)] = asked
    assert (server, RANDOM in message, RANDOM in schema["properties"]["name"]["default"]) == ("leaky", True, True)
    kinds = {type(event).__name__ for event in events}
    assert {"ToolProgress", "ServerLogged", "Notice"} <= kinds


@each_row("place", ["env", "args"])
async def test_no_random_one_reaches_the_model_and_none_the_recording(place: str, tmp_path: Path) -> None:
    calls = [ToolCall("", f"leaky__{name}", {}) for name in ("tell", "fail", "refuse", "structure", "garble", "die")]
    model = ScriptedModel([*calls, "done"])
    events: list[Event] = []
    path = tmp_path / "run.jsonl"
    agent = Agent(
        model,
        mcp_config=[config(place)],
        options=RunOptions(servers=ServerOptions(log_folder=tmp_path / "logs"), wrappers=[Recorder(path)]),
        on_event=events.append,
    )
    async with agent:
        await agent.ask("tell me")
        history = json.dumps(dump_messages(agent.messages))
    assert len(model.requests) == len(calls) + 1
    results = [part.text for message in model.requests[-1].messages for part in message.tool_results]
    assert len(results) == len(calls)
    assert all(RANDOM not in text.split() for text in results)
    assert f"'{RANDOM}'" not in history
    assert leaks("files", texts_of(tmp_path)) == []


@pytest.mark.slow
def test_nothing_of_them_is_on_the_terminal_or_in_a_file_of_ours(tmp_path: Path, changing_model: str) -> None:
    entry = {"command": sys.executable, "args": [str(SERVER)], "env": {name: f"${{{name}}}" for name in ENV}}
    (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"leaky": entry}}))
    environ = {"PATH": os.environ["PATH"], "MCPAGENT_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)} | ENV
    environ["MCPAGENT_TRUST_PROJECT"] = "1"
    commands = [
        ["mcp", "test", "--json"],
        ["mcp", "test"],
        ["mcp", "list", "--json"],
        ["mcp", "logs", "leaky"],
        ["doctor", "--json"],
        ["tools", "list", "--json"],
        ["tools", "show", "tell", "--json"],
        ["tools", "call", "leaky.tell", "--debug"],
        ["tools", "call", "leaky.refuse", "--debug"],
        ["tools", "call", "leaky.garble", "--debug"],
        ["tools", "call", "leaky.die", "--debug"],
        [
            "-p",
            "say it tell",
            "-m",
            changing_model,
            "--allow",
            "*",
            "--debug",
            *("--record", "run.jsonl", "-o", "stream-json"),
        ],
    ]
    found: list[str] = []
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "mcpagent", *command, "--config", "servers.json"],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "no such option" not in done.stderr, (command, done.stderr)
        assert "Traceback" not in done.stderr, (command, done.stderr)
        found += leaks(" ".join(command), [done.stdout, done.stderr])
    found += leaks("files", texts_of(tmp_path))
    assert found == [], "\n".join(found)
    assert list((tmp_path / "home").rglob("leaky.log"))


async def test_a_password_that_is_a_word_changes_nothing_that_is_sent(tmp_path: Path) -> None:
    """`POSTGRES_PASSWORD=postgres`: the tool, its enum, its arguments and its results stay as the server has them."""
    env = {"POSTGRES_PASSWORD": "postgres", "LEAKS": "POSTGRES_PASSWORD"}
    server = ServerConfig("db", command=sys.executable, args=(str(SERVER),), env=env, era="legacy")
    model = ScriptedModel([ToolCall("1", "tell", {"text": "postgres"}), ToolCall("2", "structure", {}), "done"])
    async with Agent(model, mcp_config=[server], tool_search=False) as agent:
        await agent.ask("tell me")
        requests = model.requests
    offered = {tool.name: tool.parameters for tool in requests[0].tools}
    assert offered["tell"]["properties"]["text"]["enum"] == ["", "postgres"]
    assert "named_postgres" in offered
    results = [part.text for message in requests[-1].messages for part in message.tool_results]
    assert results[0].startswith("postgres cG9zdGdyZXM=")
    assert "x://postgres" in results[0]
    assert json.loads(results[1]) == {"secrets": ["postgres"], "postgres cG9zdGdyZXM=": 1}
