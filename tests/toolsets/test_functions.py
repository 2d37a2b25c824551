"""Python functions as tools: what the model is shown, and what a call gives."""

import dataclasses
import enum
import json
import threading
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from mcpagent import Agent, ConfigError, Image, Text, ToolOutput, function_tool
from tests.tables import each_row


class Unit(enum.Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


class Place(BaseModel):
    """Somewhere on earth."""

    city: str
    title: str = ""


async def test_schema_and_words_come_from_signature_and_docstring() -> None:
    def get_weather(place: Place, unit: Unit = Unit.CELSIUS, days: Annotated[int, Field(ge=1, le=7)] = 1) -> str:
        """Get the weather.

        For up to a week.

        Args:
            place: Where.
            days: How many days.
        """
        return f"{place.city} {unit.value} {days}"

    tool = function_tool(get_weather, category="weather")
    definition = tool.definition
    assert definition.name == "get_weather"
    assert definition.description == "Get the weather.\n\nFor up to a week."
    assert definition.category == "weather"
    schema = definition.parameters
    assert schema["required"] == ["place"]
    assert schema["properties"]["days"] == {
        "default": 1,
        "description": "How many days.",
        "maximum": 7,
        "minimum": 1,
        "type": "integer",
    }
    # A property that is called "title" stays; the titles pydantic makes up go.
    assert schema["$defs"]["Place"]["properties"] == {
        "city": {"type": "string"},
        "title": {"default": "", "type": "string"},
    }
    assert '"title": "' not in json.dumps(schema)
    output = await tool.run({"place": {"city": "Tokyo"}, "unit": "fahrenheit"})
    assert output == ToolOutput.of_text("Tokyo fahrenheit 1")


async def test_a_sync_function_runs_in_a_thread_and_an_async_one_on_the_loop() -> None:
    def where() -> str:
        return threading.current_thread().name

    async def here() -> str:
        return threading.current_thread().name

    assert (await function_tool(where).run({})).content != (Text(threading.current_thread().name),)
    assert (await function_tool(here).run({})).content == (Text(threading.current_thread().name),)


@dataclasses.dataclass
class Point:
    x: int
    y: int


@each_row(
    "value, content",
    [
        ("text", (Text("text"),)),
        (None, ()),
        ({"a": [1, 2.5, None]}, (Text('{"a":[1,2.5,null]}'),)),
        (Point(1, 2), (Text('{"x":1,"y":2}'),)),
        (Image("image/png", "aGk="), (Image("image/png", "aGk="),)),
        ([Text("a"), Image("image/png", "aGk=")], (Text("a"), Image("image/png", "aGk="))),
        ([1, 2], (Text("[1,2]"),)),
        (7, (Text("7"),)),
    ],
)
async def test_what_a_function_returns_becomes_content(value: object, content: tuple[object, ...]) -> None:
    def give() -> Any:
        return value

    assert (await function_tool(give).run({})).content == content


async def test_arguments_that_do_not_fit_are_told_by_path() -> None:
    def double(count: int, mode: Literal["a", "b"] = "a") -> int:
        return count * 2

    output = await function_tool(double).run({"count": "many", "mode": "c", "more": 1})
    assert output.error == "invalid_arguments"
    assert isinstance(output.content[0], Text)
    for path in ("count:", "mode:", "more:"):
        assert path in output.content[0].text


def _variadic(*names: str) -> None: ...


def _private(_x: int) -> None: ...


def _no_schema(lock: threading.Lock) -> None: ...


@each_row("function, words", [(_variadic, "*names"), (_private, '"_x"'), (_no_schema, "_no_schema")])
def test_a_parameter_that_cannot_be_described_is_a_clear_error(function: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        function_tool(function)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_illegal_name_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match="pass name="):
        function_tool(lambda: None)
    assert function_tool(lambda: None, name="nothing").name == "nothing"


def odd_names(json: str, schema: str, copy: int, model_config: int = 1) -> str:
    """Joins."""
    return f"{json}{schema}{copy}{model_config}"


class Doubler:
    """Doubles."""

    async def __call__(self, text: str) -> str:
        return text * 2


def added(first: int, second: int = 2) -> int:
    """Adds."""
    return first + second


@each_row(
    "function, name, arguments, result",
    [
        (odd_names, "odd_names", {"json": "a", "schema": "b", "copy": 3, "model_config": 4}, "ab34"),
        (Doubler(), "Doubler", {"text": "ab"}, "abab"),
        (partial(added, second=5), "added", {"first": 1}, "6"),
        (partial(partial(added, 1), 2), "added", {}, "3"),
    ],
)
async def test_whatever_can_be_called_is_a_tool(
    function: Any, name: str, arguments: dict[str, Any], result: str
) -> None:
    tool = function_tool(function)
    assert tool.name == name
    assert tool.definition.description in ("Joins.", "Doubles.", "Adds.")
    assert arguments.keys() <= tool.definition.parameters["properties"].keys()
    output = await tool.run(arguments)
    assert (output.content, output.error) == ((Text(result),), None)
    refused = await tool.run({**arguments, "argument_0": 1})
    assert refused.error == "invalid_arguments"


def test_an_agent_as_a_tool_has_a_legal_name_too() -> None:
    for name in ("", "a b", "é", "x" * 65):
        with pytest.raises(ConfigError, match="a name has 1 to 64 letters"):
            Agent("offline").as_tool(name, "Helps.")
