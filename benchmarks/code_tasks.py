"""The tasks of `benchmarks/code.py`: a small shop's functions, and programs of 3 to 30 calls over them."""

from __future__ import annotations

import ast
import asyncio
from dataclasses import dataclass
from functools import cached_property
from typing import Any

COUNTRIES = ("FR", "DE", "JP", "BR", "IN")
CUSTOMERS = [
    {
        "id": n,
        "name": f"Customer {n}",
        "country": COUNTRIES[n % 5],
        "email": f"c{n}@example.org",
        "since": 2010 + n % 12,
    }
    for n in range(1, 41)
]
PRODUCTS = [
    {"sku": f"SKU-{n}", "title": f"Product {n}", "price": 5 + 3 * n, "stock": n * 7 % 11, "supplier": f"S{n % 4}"}
    for n in range(1, 26)
]
ORDERS = [
    {
        "id": 1000 + n,
        "customer": 1 + n * 3 % 40,
        "items": [{"sku": f"SKU-{1 + n % 25}", "count": 1 + n % 3}, {"sku": f"SKU-{1 + n * 2 % 25}", "count": 1}],
        "state": ("open", "paid", "sent", "returned")[n % 4],
        "note": "Handle with care, and call before delivery. " * (n % 3),
    }
    for n in range(120)
]


async def list_customers(country: str = "") -> list[dict[str, Any]]:
    """List customers, all or those of a country (two letters)."""
    return [one for one in CUSTOMERS if country in ("", one["country"])]


async def get_customer(id: int) -> dict[str, Any]:  # noqa: A002
    """One customer by number."""
    return next(one for one in CUSTOMERS if one["id"] == id)


async def list_orders(page: int = 1, state: str = "") -> dict[str, Any]:
    """A page of 20 orders, of one state (open, paid, sent, returned) or all, and the number of pages."""
    found = [one for one in ORDERS if state in ("", one["state"])]
    return {"orders": found[20 * (page - 1) : 20 * page], "page": page, "pages": -(-len(found) // 20)}


async def get_order(id: int) -> dict[str, Any]:  # noqa: A002
    """One order by number."""
    return next(one for one in ORDERS if one["id"] == id)


async def get_product(sku: str) -> dict[str, Any]:
    """One product by its code."""
    return next(one for one in PRODUCTS if one["sku"] == sku)


async def list_products(supplier: str = "") -> list[dict[str, Any]]:
    """List products, all or those of a supplier."""
    return [one for one in PRODUCTS if supplier in ("", one["supplier"])]


async def set_price(sku: str, price: float) -> dict[str, Any]:
    """Change the price of a product."""
    return {"sku": sku, "price": price}


async def send_mail(to: str, subject: str, text: str = "") -> dict[str, Any]:
    """Send a mail."""
    return {"to": to, "sent": True, "subject": subject, "length": len(text)}


async def exchange_rate(currency: str) -> float:
    """What a euro is in another currency."""
    return {"USD": 1.1, "JPY": 160.0, "BRL": 5.5, "INR": 90.0}.get(currency, 1.0)


async def convert_units(value: float, from_unit: str, to_unit: str) -> float:
    """Convert between kg and lb."""
    return value * (2.2 if (from_unit, to_unit) == ("kg", "lb") else 1 / 2.2)


FUNCTIONS = (
    list_customers,
    get_customer,
    list_orders,
    get_order,
    get_product,
    list_products,
    set_price,
    send_mail,
    exchange_rate,
    convert_units,
)


@dataclass(frozen=True)
class Task:
    """What is asked, and the program that answers it; its first line imports what it calls."""

    question: str
    body: str

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """What it calls, in the order of `FUNCTIONS`."""
        named = {node.id for node in ast.walk(ast.parse(self.body)) if isinstance(node, ast.Name)}
        return tuple(one.__name__ for one in FUNCTIONS if one.__name__ in named)

    @cached_property
    def program(self) -> str:
        """As mcpagent runs it."""
        return f"from tools.functions import {', '.join(self.functions)}\n{self.body}"

    @cached_property
    def _run_here(self) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
        """Its value and its calls, by Python itself."""
        made: list[tuple[str, dict[str, Any]]] = []

        def recorded(function: Any) -> Any:
            async def call(**arguments: Any) -> Any:
                made.append((function.__name__, arguments))
                return await function(**arguments)

            return call

        tree = ast.parse(self.body)
        last = tree.body[-1]
        assert isinstance(last, ast.Expr)
        tree.body[-1] = ast.Return(last.value)
        main = ast.AsyncFunctionDef("main", ast.arguments([], [], None, [], [], None, []), tree.body, [], None)
        module = ast.fix_missing_locations(ast.Module([main], []))
        names = {function.__name__: recorded(function) for function in FUNCTIONS}
        exec(compile(module, "task", "exec"), names)
        value = asyncio.run(names["main"]())
        return (value if isinstance(value, str) else repr(value)), made

    def reference(self) -> Task:
        """Itself, after Python has run it."""
        assert self._run_here
        return self

    @property
    def answer(self) -> str:
        """What it should come to."""
        return self._run_here[0]

    async def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """The calls that it makes."""
        return self._run_here[1]


ALL_PAGES = """orders, page, pages = [], 1, 1
while page <= pages:
    found = await list_orders(page=page{state})
    orders += found["orders"]
    pages, page = found["pages"], page + 1
"""

TASKS = tuple(
    Task(question, body).reference()
    for question, body in (
        (
            "How many orders does each state have?",
            ALL_PAGES.replace("{state}", "")
            + "states = ('open', 'paid', 'sent', 'returned')\n"
            + "{state: sum(1 for one in orders if one['state'] == state) for state in states}",
        ),
        (
            "What are the open orders worth?",
            ALL_PAGES.replace("{state}", ', state="open"')
            + "prices = {one['sku']: one['price'] for one in await list_products()}\n"
            "sum(prices[item['sku']] * item['count'] for one in orders for item in one['items'])",
        ),
        (
            "Which countries return most?",
            ALL_PAGES.replace("{state}", ', state="returned"')
            + "counts = {}\nfor one in orders:\n    country = (await get_customer(id=one['customer']))['country']\n"
            "    counts[country] = counts.get(country, 0) + 1\nsorted(counts.items())",
        ),
        (
            "Mail the customers in Japan.",
            "sent = 0\nfor one in await list_customers(country='JP'):\n"
            "    if (await send_mail(to=one['email'], subject='Hello ' + one['name']))['sent']:\n"
            "        sent += 1\nsent",
        ),
        (
            "Raise prices of supplier S1 by ten percent.",
            "changed = []\nfor one in await list_products(supplier='S1'):\n"
            "    done = await set_price(sku=one['sku'], price=one['price'] * 1.1)\n"
            "    changed.append(done['sku'])\nchanged",
        ),
        (
            "Which products of the first ten orders are sold out?",
            "skus = set()\nfor number in range(1000, 1010):\n"
            "    for item in (await get_order(id=number))['items']:\n        skus.add(item['sku'])\n"
            "out = []\nfor sku in sorted(skus):\n"
            "    if (await get_product(sku=sku))['stock'] == 0:\n        out.append(sku)\nout",
        ),
        (
            "The dearest product in four currencies?",
            "dearest = max(await list_products(), key=lambda one: one['price'])\n"
            "[dearest['price'] * await exchange_rate(currency=c) for c in ['USD', 'JPY', 'BRL', 'INR']]",
        ),
        (
            "Who ordered most often?",
            ALL_PAGES.replace("{state}", "")
            + "counts = {}\nfor one in orders:\n    counts[one['customer']] = counts.get(one['customer'], 0) + 1\n"
            "best = max(counts, key=lambda one: (counts[one], -one))\n(await get_customer(id=best))['name']",
        ),
        (
            "Find the first order over 100 euros.",
            "number, found = 1000, 0\nwhile not found:\n"
            "    order, total = await get_order(id=number), 0\n    for item in order['items']:\n"
            "        total += (await get_product(sku=item['sku']))['price'] * item['count']\n"
            "    found, number = (number if total > 100 else 0), number + 1\nfound",
        ),
        (
            "How long are customers in Brazil with us, and what do they weigh in at?",
            "people = await list_customers(country='BR')\ncount = len(people)\n"
            "[count, min(one['since'] for one in people), round(await convert_units(value=count, from_unit='kg', "
            "to_unit='lb')), round(await convert_units(value=1, from_unit='lb', to_unit='kg'), 3)]",
        ),
    )
)
