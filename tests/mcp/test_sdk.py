"""The adapter to the MCP SDK is the only module that knows the parts that the SDK does not document."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from mcp.client import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from mcpagent.mcp import sdk
from mcpagent.mcp.auth.device import DeviceSignIn
from mcpagent.mcp.auth.grants import ConfiguredSignIn
from tests.package import MODULES, nodes

ADAPTER = "mcpagent.mcp.sdk"
PUBLIC = ("mcp", "mcp.client", "mcp.client.auth", "mcp.server", "mcp.server.subscriptions")
"""The packages of the SDK whose `__all__` is their documented interface."""

DOCUMENTED = frozenset({"mcp.server.auth.provider.AccessToken", "mcp.server.stdio.stdio_server"})
"""Names of modules without `__all__` that the SDK's documentation uses."""

OF_HTTP_SERVERS = "mcpagent.gateway.http_gateway"
"""The one module that builds an HTTP server from the SDK's parts."""

CLASSES = (ClientSession, JSONRPCDispatcher, OAuthClientProvider)
"""The classes of the SDK that mcpagent creates or extends."""


def others() -> Iterator[tuple[str, Path]]:
    """All modules but the adapter, and the bundled server: a program of its own, over the SDK's server."""
    return ((name, path) for name, path in MODULES.items() if name != ADAPTER and ".demo." not in f"{name}.")


@cache
def names_of(package: str) -> frozenset[str]:
    return frozenset(import_module(package).__all__)


def undocumented(node: ast.AST) -> Iterator[str]:
    """The names that an import takes from inside the SDK."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.partition(".")[0] == "mcp")
    if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "mcp":
        known = names_of(node.module or "") if node.module in PUBLIC else frozenset()
        names = (f"{node.module}.{alias.name}" for alias in node.names if alias.name not in known)
        yield from (name for name in names if name not in DOCUMENTED)


def private(names: Iterator[str]) -> set[str]:
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def test_an_import_from_inside_the_sdk_is_recognised() -> None:
    source = "import mcp.types\nfrom mcp import MCPError, types\nfrom mcp.shared.message import SessionMessage"
    found = [name for node in ast.walk(ast.parse(source)) for name in undocumented(node)]
    assert found == ["mcp.types", "mcp.types", "mcp.shared.message.SessionMessage"]


@pytest.mark.slow
def test_only_the_adapter_imports_what_the_sdk_does_not_document() -> None:
    wrong = {
        name: found for name, path in others() if (found := [one for node in nodes(path) for one in undocumented(node)])
    }
    of_server = wrong.pop(OF_HTTP_SERVERS)
    assert all(name.startswith("mcp.server.") for name in of_server)
    assert wrong == {}


def test_only_the_adapter_uses_private_attributes_of_the_sdk() -> None:
    """Neither by name nor by a method of a subclass that replaces a private one."""
    of_sdk = private(name for kind in CLASSES for name in (*vars(kind), *kind.__annotations__))
    assert {"_auth_flow", "_get_token_endpoint", "_perform_authorization"} <= of_sdk
    used: dict[str, set[str]] = {}
    own: set[str] = set()
    for module, path in others():
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                own.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                own.add(node.attr)
            elif isinstance(node, ast.Attribute):
                used.setdefault(node.attr, set()).add(module)
    replaced = {
        name for kind in (ConfiguredSignIn, DeviceSignIn) for name in vars(kind).keys() & (of_sdk - {"_abc_impl"})
    }
    assert {name: used[name] for name in (of_sdk - own) & used.keys()} == {}
    assert replaced == set()


def test_the_adapter_has_no_name_that_nothing_uses_and_hides_no_step_that_the_sdk_has_lost() -> None:
    imported = {
        alias.name
        for _, path in others()
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module == ADAPTER
        for alias in node.names
    }
    assert imported == set(sdk.__all__)
    steps = private(name for name, value in vars(sdk.SdkSignIn).items() if inspect.isfunction(value))
    assert steps
    assert [step for step in steps if not inspect.isfunction(getattr(OAuthClientProvider, step, None))] == []
