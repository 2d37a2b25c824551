"""Plain Python functions as tools: the schema comes from the signature, the words from the docstring."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_type_hints

from mcpagent.errors import ConfigError
from mcpagent.messages import Image, Text, ToolDefinition
from mcpagent.names import MAX_NAME_LENGTH, legal_name
from mcpagent.tools import Tool, ToolOutput

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError


def function_tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    category: str = "",
    timeout_seconds: float | None = None,
    defer_loading: bool = True,
) -> Tool:
    """A tool that calls `function`, sync (in a thread) or async.

    Parameters need type annotations that pydantic understands; Google, NumPy and reST docstrings give the texts.
    Raises `ConfigError` where the name is illegal, or a parameter cannot be described or passed by name.
    """
    tool_name = name or function.__name__
    if legal_name(tool_name) != tool_name or not 0 < len(tool_name) <= MAX_NAME_LENGTH:
        raise ConfigError(f'tool "{tool_name}": a name has 1 to {MAX_NAME_LENGTH} letters, digits, _ or -; pass name=')
    summary, parameter_texts = _docstring(function)
    model = _arguments_model(function, tool_name, parameter_texts)

    from pydantic import ValidationError

    async def run(arguments: dict[str, Any]) -> ToolOutput:
        try:
            checked = model.model_validate(arguments)
        except ValidationError as error:
            return ToolOutput.of_text(_misfit(error), error="invalid_arguments")
        values = {field: getattr(checked, field) for field in checked.model_fields_set}
        if inspect.iscoroutinefunction(function):
            return tool_output(await function(**values))
        return tool_output(await asyncio.to_thread(function, **values))

    definition = ToolDefinition(
        tool_name,
        description if description is not None else summary,
        _schema(model),
        original_name=tool_name,
        category=category,
    )
    return Tool(definition, run, timeout_seconds, deferred=defer_loading)


def _misfit(error: ValidationError) -> str:
    problems = (f"{'.'.join(str(step) for step in item['loc'])}: {item['msg']}" for item in error.errors())
    return f"The arguments do not fit, so the call was not run: {'; '.join(problems)}"


def tool_output(value: object) -> ToolOutput:
    """What a function returned, as content: text as it is, images and parts kept, all else as JSON."""
    if isinstance(value, ToolOutput):
        return value
    if isinstance(value, str):
        return ToolOutput.of_text(value)
    if value is None:
        return ToolOutput(())
    if isinstance(value, Text | Image):
        return ToolOutput((value,))
    if isinstance(value, list | tuple) and value and all(isinstance(item, Text | Image) for item in value):
        return ToolOutput(tuple(value))
    from pydantic_core import to_json

    return ToolOutput.of_text(to_json(value, fallback=str).decode())


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    from docstring_parser import parse

    parsed = parse(inspect.getdoc(function) or "")
    paragraphs = (parsed.short_description, parsed.long_description)
    texts = {item.arg_name: item.description or "" for item in parsed.params}
    return "\n\n".join(text for text in paragraphs if text), texts


def _arguments_model(function: Callable[..., Any], tool_name: str, texts: dict[str, str]) -> type[BaseModel]:
    from pydantic import ConfigDict, Field, create_model
    from pydantic.errors import PydanticUserError

    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ConfigError(f'tool "{tool_name}": annotation {error}; import the type where the function is') from None
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigError(
                f'tool "{tool_name}": parameter "{parameter}" cannot be passed by name; use plain named parameters'
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        # Pydantic takes a leading underscore as private; such a parameter could never be passed.
        if parameter.name.startswith("_"):
            raise ConfigError(f'tool "{tool_name}": parameter "{parameter.name}" starts with "_"; rename it')
        text = texts.get(parameter.name) or None
        fields[parameter.name] = (hints.get(parameter.name, Any), Field(default, description=text))
    try:
        model: type[BaseModel] = create_model(
            tool_name,
            __config__=ConfigDict(extra="forbid", protected_namespaces=(), arbitrary_types_allowed=False),
            **fields,
        )
        model.model_json_schema()
    except (PydanticUserError, NameError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f'tool "{tool_name}": {reason}; use types that JSON Schema can describe') from None
    return model


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """The model's JSON Schema without the titles pydantic makes up, which cost tokens and say nothing."""
    schema = _without_titles(model.model_json_schema())
    assert isinstance(schema, dict)
    schema.pop("additionalProperties", None)
    schema.setdefault("properties", {})
    return schema


def _without_titles(node: object, *, names: bool = False) -> Any:
    """Drops the key "title" everywhere but among property and definition names (`names`)."""
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_titles(value, names=key in ("properties", "$defs") and not names)
        for key, value in node.items()
        if names or key != "title"
    }
