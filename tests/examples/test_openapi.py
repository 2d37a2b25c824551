"""`examples/openapi`: an agent finishes ten tasks with the operations that it finds in the service of the example."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from examples.openapi.service import Shop, make_app

from mcpagent import Agent, ScriptedModel, openapi_toolset
from mcpagent.values.messages import ToolCall
from tests.servers.everyday import serving
from tests.terminal.process import ROOT
from tests.terminal.warm import run

ORDER = {"customer": 1, "lines": [{"product": 2, "count": 3}]}
TASKS: list[tuple[str, str, dict[str, Any], Callable[[Shop, str], bool]]] = [
    ("products running out", "low_stock", {}, lambda _, told: "notebook" in told and "lamp" not in told),
    ("add pieces to the warehouse", "change_stock", {"number": 2, "by": 40}, lambda shop, _: pieces_of(shop, 2) == 42),
    ("send an order off", "ship_order", {"number": 1}, lambda shop, _: shop.get("order", 1).state == "shipped"),
    ("cancel an order", "cancel_order", {"number": 1}, lambda _, told: "409 Conflict: order 1 is shipped" in told),
    ("invoice is paid", "pay_invoice", {"number": 1}, lambda shop, _: shop.get("invoice", 1).is_paid),
    ("add a customer", "create_customer", {"name": "Bo", "email": "b@x.org"}, lambda shop, _: name_of(shop, 2) == "Bo"),
    ("show one review", "get_review", {"number": 1}, lambda _, told: "Bright." in told),
    ("delete a coupon", "delete_coupon", {"number": 1}, lambda shop, _: not shop.items["coupon"]),
    ("replace a supplier", "replace_supplier", {"number": 1, "name": "Ink"}, lambda shop, _: has_supplier(shop, "Ink")),
    ("add an order", "create_order", ORDER, lambda shop, _: shop.get("order", 2).lines[0].count == 3),
]  # fmt: skip


def pieces_of(shop: Shop, number: int) -> int:
    pieces: int = shop.get("product", number).stock
    return pieces


def name_of(shop: Shop, customer: int) -> str:
    name: str = shop.get("customer", customer).name
    return name


def has_supplier(shop: Shop, name: str) -> bool:
    return any(supplier.name == name for supplier in shop.items["supplier"].values())


def turns_of(query: str, tool: str, given: dict[str, Any]) -> list[Any]:
    """The turns of a model that searches, adds the tool that it knows to be right, and calls it."""
    search, add = ToolCall("1", "search_tools", {"query": query}), ToolCall("2", "add_tool", {"tool_names": [tool]})
    return [[search], [add], [ToolCall("3", tool, given)], "Done."]


@pytest.mark.slow
@pytest.mark.anyio
async def test_an_agent_finishes_ten_tasks() -> None:
    app = make_app()
    model = ScriptedModel([turn for query, tool, given, _ in TASKS for turn in turns_of(query, tool, given)])
    unfinished: list[str] = []
    async with serving(lambda _: app) as address:
        source = openapi_toolset(f"{address}/openapi.json", name="shop")
        async with Agent(model, tools=[source], with_tool_search_mode=True) as agent:
            assert len(agent.known_tools) == 40
            for query, tool, _, holds in TASKS:
                before = len(model.requests)
                await agent.ask(query)
                found, result = (str(model.requests[before + turn].messages[-1]) for turn in (1, 3))
                if tool not in found or not holds(app.state.shop, result):
                    unfinished.append(query)
    assert unfinished == []


@pytest.mark.slow
def test_the_commands_of_the_page_find_and_call_its_operations(tmp_path: Path) -> None:
    """As docs/openapi.md has them, on a free port; the chat answers one question that is piped in."""
    command = [sys.executable, "-m", "uvicorn", "examples.openapi.service:app", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            place = next(found[0] for line in server.stderr if (found := re.search(r"http://[\d.:]+", line)))
            of_the_service = ["--openapi", f"shop={place}/openapi.json"]
            searched = run(["tools", "search", "what is in stock", *of_the_service], tmp_path)
            asked = run(
                ["chat", "-m", "offline", "--allow", "shop.list_*", *of_the_service], tmp_path, stdin="list products\n"
            )
        finally:
            server.terminate()
    assert "low_stock" in searched.stdout, searched.stderr
    assert "notebook" in asked.stdout, asked.stderr
