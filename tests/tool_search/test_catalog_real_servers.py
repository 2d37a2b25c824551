"""Many real MCP servers at once: every tool is reached, on its own server, and the first request stays small.

The catalogues are what 41 published servers answered where they lie beside the repository, and ones made here
(with shared names, long names, references in schemas) everywhere else.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mcpagent import Agent, RunOptions, ToolDefinition
from mcpagent.history.conversation import Conversation
from mcpagent.mcp.server_options import ServerOptions
from mcpagent.models.anthropic.messages_model import AnthropicModel
from mcpagent.models.base import ModelRequest
from mcpagent.models.scripted import ScriptedModel
from mcpagent.prompt.builder import category_lines, system_prompt, tool_search_section
from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.tool_search.search_tools import tool_search_tools
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.values.messages import ToolCall, ToolsChanged, user_message
from mcpagent.values.tools import Tool, ToolOutput
from tests.scenes import offered, results, session_tools

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "mcp-catalogs"
SERVER = Path(__file__).resolve().parents[1] / "servers" / "catalog_server.py"
FIRST_REQUEST_TOKENS = 2_000
BATCH = 50


def made_catalogues() -> dict[str, dict[str, Any]]:
    """40 servers of 31 tools: names shared by all, by two, illegal, too long; schemas with $defs, enums, anyOf."""
    catalogues: dict[str, dict[str, Any]] = {}
    for number in range(40):
        server = f"server-{number:02}"
        names = ["search", f"pair_{number // 2}", f"dotted.name/{number}", f"very_{'long_' * 13}{number}"]
        names += [f"tool_{number:02}_{item:02}" for item in range(27)]
        schema = {
            "type": "object",
            "properties": {
                "target": {"$ref": "#/$defs/target"},
                "mode": {"enum": ["fast", "safe"]},
                "limit": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
            },
            "required": ["target", "mode"],
            "$defs": {"target": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}},
        }
        tools = [
            {"name": name, "description": f"{name} of {server}. " + "More words about it. " * 20, "inputSchema": schema}
            for name in names
        ]
        catalogues[server] = {"server": server, "tools": tools}
    return catalogues


@pytest.fixture(scope="module")
def catalogues() -> dict[str, dict[str, Any]]:
    if REAL.is_dir():
        loaded = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(REAL.glob("*.json")))
        return {item["server"]: item for item in loaded}
    return made_catalogues()


@pytest.fixture
def config(catalogues: dict[str, dict[str, Any]], tmp_path: Path) -> dict[str, Any]:
    servers = {}
    for name, catalogue in catalogues.items():
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(catalogue), encoding="utf-8")
        servers[name] = {"command": sys.executable, "args": [str(SERVER), str(file)]}
    return {"mcpServers": servers}


pytestmark = pytest.mark.timeout(600)  # a thousand orders take minutes while coverage is traced

SAMPLES = (
    "0123456789abcdef01234567",
    "SAMPLE",
    "SAMPLE-1",
    "=1",
    "example.com",
    "192.0.2.1",
    "192.0.2.0/24",
    "2026-01-31T12:00:00Z",
    "SlicerStyleLight1",
    "11111111-1111-4111-8111-111111111111",
)
"""Texts that the patterns of real servers ask for."""


def sample(schema: Any, root: dict[str, Any], depth: int = 0) -> Any:
    """Some value that fits the schema: the required parts only."""
    if not isinstance(schema, dict) or depth > 12:
        return "x"
    for key, inner in (("const", schema.get("const")), ("enum", (schema.get("enum") or [None])[0])):
        if key in schema:
            return inner
    if "$ref" in schema:
        node: Any = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            node = node[step]
        return sample(node, root, depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return sample(schema[key][0], root, depth + 1)
    return sample_of_type(schema, root, depth)


def sample_of_type(schema: dict[str, Any], root: dict[str, Any], depth: int) -> Any:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            properties = schema.get("properties", {})
            return {name: sample(properties.get(name, {}), root, depth + 1) for name in schema.get("required", ())}
        case "array":
            return [sample(schema.get("items", {}), root, depth + 1)] * schema.get("minItems", 0)
        case "integer" | "number":
            return max(schema.get("minimum", 1), schema.get("exclusiveMinimum", 0) + 1)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            usual = "sample".ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength", 10_000)]
            return next(text for text in (usual, *SAMPLES) if re.search(schema.get("pattern", ""), text))


@pytest.mark.slow
async def test_every_tool_is_found_added_and_called_on_its_own_server(
    catalogues: dict[str, dict[str, Any]], config: dict[str, Any]
) -> None:
    expected = {(server, tool["name"]) for server, item in catalogues.items() for tool in item["tools"]}
    async with Agent(
        ScriptedModel([]),
        mcp_config=config,
        with_tool_search_mode=True,
        options=RunOptions(servers=ServerOptions(startup_seconds=None)),
    ) as agent:
        failed = {name: status.reason for name, status in agent.servers.items() if status.state != "ready"}
        assert not failed
        known = agent.known_tools
        for name in known:
            found = await agent.search(name, limit=1)
            assert found.matches[0].tool.name == name, f"searching {name} gave {found.matches[0].tool.name}"
    assert {(tool.server, tool.original_name) for tool in known.values()} == expected
    shared = Counter(tool.original_name for tool in known.values())
    assert all(tool.parameters == _schema_of(catalogues, tool) for tool in known.values())
    assert all(shared[tool.original_name] == 1 for name, tool in known.items() if name == tool.original_name)

    names = list(known)
    script: list[Any] = []
    for start in range(0, len(names), BATCH):
        batch = names[start : start + BATCH]
        script.append(ToolCall(f"add{start}", "add_tool", {"tool_names": batch}))
        script.append([ToolCall(name, name, sample(known[name].parameters, known[name].parameters)) for name in batch])
    model = ScriptedModel([*script, "done"])
    async with Agent(model, mcp_config=config, with_tool_search_mode=True) as agent:
        assert await agent.ask("call everything") == "done"
        assert tokens_of(model.requests[0]) < FIRST_REQUEST_TOKENS < agent._runtime.tools.tokens(known) / 50
    assert offered(model.requests[-1])[2:] == names
    answers = {result.call_id: result for result in results(model.requests[-1].messages)}
    for name, tool in known.items():
        assert answers[name].error is None, f"{name}: {answers[name].text}"
        # The stand-ins promise what the real servers do, and give less, which the model is told behind the result.
        told, _ = json.JSONDecoder().raw_decode(answers[name].text)
        assert (told["server"], told["tool"]) == (tool.server, tool.original_name)


def _schema_of(catalogues: dict[str, dict[str, Any]], tool: ToolDefinition) -> Any:
    listed = catalogues[tool.server or ""]["tools"]
    return next(item["inputSchema"] for item in listed if item["name"] == tool.original_name)


def tokens_of(request: ModelRequest) -> float:
    shown = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in request.tools
    ]
    return (len(json.dumps(shown)) + len(request.system)) / 4


def test_the_first_request_is_small(catalogues: dict[str, dict[str, Any]]) -> None:
    """Of a session over the catalogues themselves: the servers are started where every tool of them is called."""
    catalog, request = offer(tools_in(catalogues), catalogues)
    known = catalog.tokens(catalog.names.values())
    assert tokens_of(request) < FIRST_REQUEST_TOKENS < known / 50


def tools_in(catalogues: dict[str, dict[str, Any]]) -> list[Tool]:
    async def run(arguments: dict[str, Any]) -> ToolOutput:
        return ToolOutput(())

    return [
        Tool(ToolDefinition(tool["name"], tool.get("description", ""), tool["inputSchema"], server, tool["name"]), run)
        for server, item in catalogues.items()
        for tool in item["tools"]
    ]


def offer(
    tools: list[Tool], catalogues: dict[str, dict[str, Any]], pinned: Sequence[str] = (), adds: bool = False
) -> tuple[SessionTools, ModelRequest]:
    """A session's tools and its first request; with `adds`, after ten of the tools were added."""
    descriptions = {server: str(item.get("instructions") or "") for server, item in catalogues.items()}
    conversation = Conversation()
    catalog = session_tools(tools, ToolSearch(), pinned=pinned, descriptions=descriptions, conversation=conversation)
    catalog.virtual = tool_search_tools(catalog)
    lines = category_lines(catalog.categories())
    if adds:
        conversation.note([ToolsChanged(added=catalog.definitions(tuple(catalog.deferred)[::120]))])
    return catalog, ModelRequest(
        system_prompt("", tool_search_section(lines)),
        (user_message("hello"),),
        tuple(tool.definition for tool in catalog.offer()),
    )


@pytest.mark.slow
@pytest.mark.parametrize("orders", [50, pytest.param(1_000, marks=pytest.mark.heavy)])
def test_any_order_of_connecting_gives_the_same_bytes(catalogues: dict[str, dict[str, Any]], orders: int) -> None:
    tools = tools_in(catalogues)

    def request() -> tuple[bytes, dict[Any, str]]:
        """The request after ten tools were added, as bytes; and all names."""
        catalog, first = offer(tools, catalogues, pinned=["search"], adds=True)
        return json.dumps(AnthropicModel("claude-sonnet-4-6").request_body(first)).encode(), dict(catalog.names)

    expected = request()
    order = random.Random(7)
    for _ in range(orders):
        order.shuffle(tools)
        assert request() == expected
