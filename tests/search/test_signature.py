"""What one search result shows: small, complete where it matters, and safe to print."""

from __future__ import annotations

from mcpagent.search import call_signature, first_sentences
from mcpagent.values.messages import ToolDefinition


def signature(properties: object, required: object = (), name: str = "get_weather") -> str:
    return call_signature(ToolDefinition(name, "", {"type": "object", "properties": properties, "required": required}))


def test_required_first_then_optional_with_their_types() -> None:
    properties = {
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "location": {"type": "string"},
        "days": {"type": ["integer", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "more": {},
    }
    assert signature(properties, ["location"]) == (
        "get_weather(location: str, unit?: celsius|fahrenheit, days?: int, tags?: list[str], when?: str, more?)"
    )


def test_required_arguments_are_always_there_and_optional_ones_are_capped() -> None:
    properties = {f"argument_number_{number}": {"type": "string"} for number in range(100)}
    required = [f"argument_number_{number}" for number in range(90, 100)]
    text = signature(properties, required)
    assert all(f"{name}: str" in text for name in required)
    assert text.endswith("...)")
    assert len(text) < 400


def test_odd_schemas_are_put_up_with() -> None:
    assert signature(None) == "get_weather()"
    assert signature({"a": None, "b": {"type": 7}}, "a") == "get_weather(a?, b?)"
    assert signature({"a": {"const": "x"}}, ["a", "a", 3, "zz"]) == "get_weather(a: x)"


def test_references_within_the_schema_are_followed() -> None:
    schema = {
        "type": "object",
        "properties": {
            "unit": {"$ref": "#/$defs/Unit"},
            "place": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]},
            "days": {"type": "array", "items": {"$ref": "#/$defs/a~1day"}},
            "mode": {"allOf": [{"$ref": "#/$defs/Alias"}]},
            "area": {"$ref": "#/$defs/Area"},
            "round": {"$ref": "#/$defs/round"},
            "away": {"$ref": "https://example.com/schema"},
            "lost": {"$ref": "#/$defs/missing"},
        },
        "$defs": {
            "Unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "Place": {"type": "string"},
            "a/day": {"type": "integer"},
            "Alias": {"$ref": "#/$defs/Unit"},
            "Area": {"type": "object", "properties": {}},
            "round": {"$ref": "#/$defs/round"},
        },
    }
    assert call_signature(ToolDefinition("f", "", schema)) == (
        "f(unit?: celsius|fahrenheit, place?: str, days?: list[int], mode?: celsius|fahrenheit, area?: object,"
        " round?: object, away?: object, lost?: object)"
    )


def test_names_and_values_cannot_carry_control_characters() -> None:
    text = signature({"a\x1b[31m\nb": {"enum": ["x\u202ey\n"]}}, ["a\x1b[31m\nb"])
    assert text.isprintable()


def test_first_sentences_are_whole_where_they_fit() -> None:
    text = "Gets the weather.  It is current. " + "And very long " * 40
    assert first_sentences(text, 60) == "Gets the weather. It is current."
    assert first_sentences("One.\n\nTwo.", 60) == "One. Two."
    assert len(first_sentences("word " * 200, 60)) == 60
    assert first_sentences("", 60) == ""
