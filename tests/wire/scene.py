"""One conversation that has everything in it: the request every adapter's body is checked with."""

from __future__ import annotations

from mcpagent.models.base import ModelRequest
from mcpagent.values.messages import (
    Image,
    Message,
    Origin,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolsShown,
    user_message,
)

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
SVG = "PHN2Zy8+"
SVG_LEFT_OUT = "[image: image/svg+xml, 6 bytes; only png, jpeg, gif and webp can be shown: it cannot be read]"

SEARCH = ToolDefinition(
    "search_tools",
    "Finds tools.",
    {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
)
WEATHER = ToolDefinition(
    "get_weather",
    "Weather of a place.",
    {
        "$defs": {"Unit": {"enum": ["c", "f"]}},
        "type": "object",
        "properties": {"location": {"type": "string"}, "unit": {"$ref": "#/$defs/Unit"}},
        "required": ["location"],
        "additionalProperties": False,
    },
    server="weather",
)
BARE = ToolDefinition("a_tool", "", {})


def whole_request(**changes: object) -> ModelRequest:
    """Two parallel calls, of which one failed and one gave an image, and a question about them with an image."""
    messages = (
        user_message("Weather in Rome and Paris?"),
        Message(
            "assistant",
            (
                Text("Let me look."),
                Text("  "),
                ToolCall("call_1", "get_weather", {"location": "Rome"}),
                ToolCall("call_2", "get_weather", {"location": "Paris"}),
            ),
            origin=Origin("elsewhere"),
        ),
        Message(
            "tool",
            (
                ToolResult("call_1", "get_weather", (Text("21 C"), Text(""), Image("image/png", PNG))),
                ToolsShown(("get_weather",)),
                ToolResult("call_2", "get_weather", (Text("no such place"),), error="failed"),
            ),
        ),
        Message("user", (Text("And this one?"), Image("image/png", PNG), Image("image/svg+xml", SVG))),
    )
    values: dict[str, object] = {
        "system": "You help.",
        "messages": messages,
        "tools": (SEARCH, WEATHER, BARE),
        **changes,
    }
    return ModelRequest(**values)  # type: ignore[arg-type]
