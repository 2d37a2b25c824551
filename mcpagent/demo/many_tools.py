"""Servers with hundreds of narrow tools, to demonstrate tool search: `python -m mcpagent.demo.many_tools THEME`.

They resemble a large real catalogue, whose tools often differ in one word. Each tool works.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from zoneinfo import available_timezones

from mcpagent.demo import DemoToolError, module_server
from mcpagent.demo import clock_tools as clock
from mcpagent.demo import place_tools as places
from mcpagent.demo import unit_tools as units

AREAS = frozenset(
    [
        "Africa",
        "America",
        "Antarctica",
        "Arctic",
        "Asia",
        "Atlantic",
        "Australia",
        "Europe",
        "Indian",
        "Pacific",
    ]
)


@dataclass(frozen=True, slots=True)
class GeneratedTool:
    """A tool with one narrow task; `properties` are the JSON Schemas of its arguments, which are all required."""

    name: str
    description: str
    run: Callable[..., Any]
    properties: dict[str, Any] = field(default_factory=dict[str, Any])


def world_clock() -> Iterator[GeneratedTool]:
    """Yield a tool for the time in each time zone whose name contains a city."""
    zones = sorted(
        name for name in available_timezones() if name.partition("/")[0] in AREAS
    )
    cities = [name.rpartition("/")[2] for name in zones]
    for name, city in zip(zones, cities, strict=True):
        if cities.count(city) == 1:
            own = city
        else:
            own = name
        shown = city.replace("_", " ")
        yield GeneratedTool(
            f"time_in_{_plain(own)}",
            f"Get the current time in {shown}.",
            lambda name=name: clock.get_current_time(name),
        )


def converter() -> Iterator[GeneratedTool]:
    """Yield a tool for each conversion between two units of the same quantity."""
    for quantity, names in units.UNIT_NAMES.items():
        for source in names:
            for target in names:
                if source == target:
                    continue
                about = {
                    "type": "number",
                    "description": f"The {quantity} in {plural(source)}",
                }
                yield GeneratedTool(
                    f"convert_{_plain(plural(source))}_to_{_plain(plural(target))}",
                    f"Convert a {quantity} from {plural(source)} to {plural(target)}.",
                    lambda value, source=source, target=target: units.convert_units(
                        value, source, target
                    ),
                    {"value": about},
                )


def atlas() -> Iterator[GeneratedTool]:
    """Yield tools for facts about each country, and for the distances between its capital and others."""
    for country in places.COUNTRIES:
        yield GeneratedTool(
            f"facts_about_{_plain(country.name)}",
            f"Get the capital, population, currency and continent of {country.name}.",
            lambda name=country.name: places.country_facts(name),
        )
        yield GeneratedTool(
            f"distance_from_{_plain(country.capital)}",
            f"Calculate how far {country.capital}, the capital of {country.name}, is from another capital city.",
            lambda city, capital=country.capital: places.distance_between_capitals(
                capital, city
            ),
            {"city": {"type": "string", "description": "The other capital city"}},
        )


def plural(name: str) -> str:
    """Return the plural of a unit: `miles per hour` for `mile per hour`."""
    first, _, rest = name.partition(" per ")
    if first in ("foot", "square foot"):
        first = first.replace("foot", "feet")
    elif first not in ("celsius", "fahrenheit", "kelvin", "psi"):
        if first.endswith("ch"):
            first += "es"
        else:
            first += "s"
    if rest:
        return f"{first} per {rest}"
    return first


THEMES: dict[str, tuple[Callable[[], Iterator[GeneratedTool]], str]] = {
    "world-clock": (world_clock, "the current time in any city"),
    "converter": (
        converter,
        "units of length, mass, volume, area, speed, time, data, energy, pressure",
    ),
    "atlas": (atlas, "facts about countries, distances between capitals"),
}
"""The servers by name, each with its tools and its purpose."""


def catalog_config() -> dict[str, Any]:
    """Return the servers as an `mcpServers` mapping, run by the current Python."""
    return {
        "mcpServers": {
            name: module_server("mcpagent.demo.many_tools", about, name)
            for name, (_, about) in THEMES.items()
        }
    }


async def serve(theme: str) -> None:
    """Run the server of one theme, over standard input and output."""
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    known = {tool.name: tool for tool in THEMES[theme][0]()}
    listed = [
        types.Tool(
            name=tool.name,
            description=tool.description,
            input_schema={
                "type": "object",
                "properties": tool.properties,
                "required": list(tool.properties),
            },
            annotations=types.ToolAnnotations(
                read_only_hint=True, open_world_hint=False
            ),
        )
        for tool in known.values()
    ]

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(
        _context: Any, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = known.get(params.name)
        try:
            if tool is None:
                raise DemoToolError(f"there is no tool {params.name!r}")
            given = tool.run(**(params.arguments or {}))
        except (DemoToolError, TypeError) as problem:
            return types.CallToolResult(
                content=[types.TextContent(type="text", text=str(problem))],
                is_error=True,
            )
        if isinstance(given, str):
            text = given
        else:
            text = json.dumps(given, ensure_ascii=False)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    server: Any = Server(
        f"mcpagent-{theme}", on_list_tools=list_tools, on_call_tool=call_tool
    )
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def _plain(text: str) -> str:
    """Return the text as part of a tool's name: lower case letters, digits and underscores."""
    import unicodedata

    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return "_".join(
        "".join(char if char.isalnum() else " " for char in plain.lower()).split()
    )


if __name__ == "__main__":
    import anyio

    anyio.run(serve, sys.argv[1])
