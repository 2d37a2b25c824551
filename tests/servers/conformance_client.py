"""The client that the MCP conformance suite drives: an agent with the server at the URL that is its last argument.

It goes the way of every user: a configuration, `mcpagent mcp login` where it is told to, and an `Agent` whose scripted
model calls each tool once with values that its schema allows. `MCP_CONFORMANCE_SCENARIO` and `MCP_CONFORMANCE_CONTEXT`
say what more is known.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from mcpagent import Agent, RunOptions, ScriptedModel, ServerOptions, ToolCall
from mcpagent.config import load_servers
from mcpagent.mcp.handlers import Handlers
from mcpagent.models.base import ModelRequest
from mcpagent.values.events import Event, ServerFailed

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
TOLD = "mcpagent mcp login"
MOST_SIGN_INS = 4
METADATA_URL = "https://conformance-test.local/client-metadata.json"
BROWSER = f"{sys.executable} -c 'import sys, httpx2; httpx2.get(sys.argv[1], follow_redirects=True)' %s"
EXAMPLES = {"string": "x", "number": 5, "integer": 5, "boolean": True, "array": [], "object": {}, "null": None}


def example(schema: Any) -> Any:
    """Some value that the schema allows, as far as a glance tells."""
    if not isinstance(schema, dict):
        return "x"
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: example(rule) for name, rule in (schema.get("properties") or {}).items()}
    return EXAMPLES.get(kind, "x")


async def accept_defaults(server: str, message: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {}


async def issuer_of(url: str) -> str:
    """The authorization server that a protected resource names (RFC 9728); who writes a configuration knows."""
    parts = urlsplit(url)
    async with httpx2.AsyncClient() as client:
        found = await client.get(f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}")
    return str(found.json()["authorization_servers"][0])


async def entry(url: str) -> dict[str, Any]:
    """The server's entry, with what the scenario's context says of signing in."""
    if not SCENARIO.startswith("auth/"):
        return {"url": url, "transport": "http", "timeout_seconds": 20}
    way: dict[str, Any] = {"client_metadata_url": METADATA_URL}
    if "client-credentials" in SCENARIO:
        proof = "private_key" if "private_key_pem" in CONTEXT else "client_secret"
        secret = CONTEXT.get("private_key_pem") or CONTEXT.get("client_secret")
        way = {"grant": "client_credentials", "client_id": CONTEXT["client_id"], proof: secret}
    elif "idp_id_token" in CONTEXT:
        way = {"grant": "jwt-bearer", "token": CONTEXT["idp_id_token"]}
        way |= {name: CONTEXT[name] for name in ("client_id", "client_secret", "idp_client_id", "idp_token_endpoint")}
    elif "valid_jwt" in CONTEXT:
        way = {"grant": "jwt-bearer", "client_id": CONTEXT["client_id"], "token": CONTEXT["valid_jwt"]}
    elif CONTEXT.get("client_id"):
        way = {"client_id": CONTEXT["client_id"], "client_secret": CONTEXT.get("client_secret", "")}
    if way.get("grant"):
        way["issuer"] = await issuer_of(url)
    return {"url": url, "transport": "http", "timeout_seconds": 20, "sign_in": way}


def log_in(environ: dict[str, str]) -> bool:
    """What a person does who is told to: `mcpagent mcp login`, with a browser that follows the page's redirect."""
    command = [sys.executable, "-m", "mcpagent", "mcp", "login", "conformance"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    print(done.stdout, done.stderr, file=sys.stderr)
    return done.returncode == 0 or TOLD in done.stderr


def scripted(request: ModelRequest) -> list[ToolCall] | str:
    """The next call that the scenario wants, one a turn, then an end."""
    made = sum(len(message.tool_calls) for message in request.messages)
    offered = {tool.key[1]: tool for tool in request.tools}
    wanted = [(call["name"], call.get("arguments")) for call in CONTEXT.get("toolCalls") or ()]
    calls = [(name, given) for name, given in wanted or [(name, None) for name in offered] if name in offered]
    if made >= len(calls):
        return "done"
    name, given = calls[made]
    arguments = example(offered[name].parameters) if given is None else given
    if name == "json_schema_echo":
        arguments = {"schema": offered["json_schema_2020_12_tool"].parameters}
    return [ToolCall(str(made), offered[name].name, arguments)]


async def ask(config: Path, environ: dict[str, str]) -> tuple[list[str], list[str]]:
    """One question to an agent with the configuration's server, as any script has it; why the server failed, and what
    was told of its tools."""
    options = ServerOptions.stored(environ, handlers=Handlers(elicit=accept_defaults), cache=None)
    failed, told = list[str](), list[str]()

    def hear(event: Event) -> None:
        print(event)
        if isinstance(event, ServerFailed):
            failed.append(event.reason)

    model, servers = ScriptedModel([scripted] * 200), load_servers(config, environ=environ).servers
    async with Agent(model, tools=[*servers], options=RunOptions(servers=options), on_event=hear) as agent:
        result = await agent.run("Call each tool.")
    for message in result.messages:
        told += [part.text for part in message.tool_results if part.error]
    return failed, told


async def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "config" / "mcp.json"
        config.parent.mkdir(parents=True)
        config.write_text(json.dumps({"mcpServers": {"conformance": await entry(sys.argv[-1])}}))
        environ = {**os.environ, "HOME": name, "MCPAGENT_HOME": name, "BROWSER": BROWSER}
        environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
        for _ in range(MOST_SIGN_INS):
            failed, told = await ask(config, environ)
            if not any(TOLD in text for text in (*failed, *told)) or not log_in(environ):
                break
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
