"""Plain Python functions as tools: the schema comes from the signature, the words from the docstring."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

from mcpagent.errors import ConfigError
from mcpagent.messages import Image, Text, ToolDefinition
from mcpagent.names import MAX_NAME_LENGTH, legal_name
from mcpagent.run_context import RunContext, run_context
from mcpagent.tool_algebra import ApprovalPredicate, approval_required, combined
from mcpagent.tools import Tool, ToolOutput, ToolReturn

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError


def function_tool(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    category: str = "",
    timeout_seconds: float | None = None,
    defer_loading: bool | None = None,
    approval: bool | ApprovalPredicate = False,
) -> Tool:
    """A tool that calls `function`, sync (in a thread) or async.

    Parameters need type annotations that pydantic understands; Google, NumPy and reST docstrings give the texts. A
    first parameter annotated `RunContext` gets the run's context and is not shown to the model. `defer_loading` True
    hides the tool until it is found, False never does, None leaves it to the agent's tool search. `approval`: each
    call needs approval, or each for which `(context, definition, arguments) -> bool` says so.
    Raises `ConfigError` where the name is illegal, or a parameter cannot be described or passed by name.
    """
    tool_name = name or function.__name__
    if legal_name(tool_name) != tool_name or not 0 < len(tool_name) <= MAX_NAME_LENGTH:
        raise ConfigError(f'tool "{tool_name}": a name has 1 to {MAX_NAME_LENGTH} letters, digits, _ or -; pass name=')
    summary, parameter_texts = _docstring(function)
    hints = _hints(function, tool_name)
    takes_context = _takes_context(function, hints, tool_name)
    model = _arguments_model(function, tool_name, hints, parameter_texts)

    from pydantic import ValidationError

    async def run(arguments: dict[str, Any]) -> ToolOutput:
        try:
            checked = model.model_validate(arguments)
        except ValidationError as error:
            return ToolOutput.of_text(_misfit(error), error="invalid_arguments")
        values = {field: getattr(checked, field) for field in checked.model_fields_set}
        context = (run_context(),) if takes_context else ()
        if inspect.iscoroutinefunction(function):
            value = await function(*context, **values)
        else:
            value = await asyncio.to_thread(function, *context, **values)
        if isinstance(value, ToolReturn) and value.state:
            run_context().tool_context.update(value.state)
        return tool_output(value)

    definition = ToolDefinition(
        tool_name,
        description if description is not None else summary,
        _schema(model),
        original_name=tool_name,
        category=category,
    )
    tool = Tool(definition, run, timeout_seconds, deferred=defer_loading)
    if approval is False:
        return tool
    return approval_required([tool], None if approval is True else approval)[0]


def _misfit(error: ValidationError) -> str:
    problems = (f"{'.'.join(str(step) for step in item['loc'])}: {item['msg']}" for item in error.errors())
    return f"The arguments do not fit, so the call was not run: {'; '.join(problems)}"


def tool_output(value: object) -> ToolOutput:
    """What a function returned, as content: text as it is, images and parts kept, all else as JSON."""
    if isinstance(value, ToolOutput):
        return value
    if isinstance(value, ToolReturn):
        return replace(tool_output(value.value), events=value.events, metadata=value.metadata)
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


def _hints(function: Callable[..., Any], tool_name: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ConfigError(f'tool "{tool_name}": annotation {error}; import the type where the function is') from None


def _is_context(hint: object) -> bool:
    return hint is RunContext or get_origin(hint) is RunContext


def _takes_context(function: Callable[..., Any], hints: dict[str, Any], tool_name: str) -> bool:
    contexts = [name for name in inspect.signature(function).parameters if _is_context(hints.get(name))]
    first = next(iter(inspect.signature(function).parameters), None)
    if contexts and contexts != [first]:
        raise ConfigError(f'tool "{tool_name}": RunContext must be the first parameter, once; move "{contexts[-1]}"')
    return bool(contexts)


def _arguments_model(
    function: Callable[..., Any], tool_name: str, hints: dict[str, Any], texts: dict[str, str]
) -> type[BaseModel]:
    from pydantic import ConfigDict, Field, create_model
    from pydantic.errors import PydanticUserError

    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if _is_context(hints.get(parameter.name)):
            continue
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


class FunctionToolset:
    """Functions, and tools already made of them, as a toolset.

    `defer_loading` and `approval` apply to every function in it (see `function_tool`); a `Tool` keeps its own.
    `label` names it in errors. Raises `ConfigError` for a name that comes twice.
    """

    def __init__(
        self,
        functions: Iterable[Callable[..., Any] | Tool] = (),
        *,
        defer_loading: bool | None = None,
        approval: bool | ApprovalPredicate = False,
        category: str = "",
        label: str = "",
    ) -> None:
        self._defaults: dict[str, Any] = {"defer_loading": defer_loading, "approval": approval, "category": category}
        self._label = label
        self._tools: list[Tool] = []
        for function in functions:
            self.add(function)

    @property
    def label(self) -> str:
        names = ", ".join(tool.name for tool in self._tools[:3])
        return self._label or f"FunctionToolset({names}{', ...' if len(self._tools) > 3 else ''})"

    def add(self, function: Callable[..., Any] | Tool, **options: Any) -> None:
        """One more; `options` are those of `function_tool` and go before the toolset's own."""
        tool = function if isinstance(function, Tool) else function_tool(function, **{**self._defaults, **options})
        combined([(self.label, self._tools), (self.label, [tool])])
        self._tools.append(tool)

    async def tools(self) -> list[Tool]:
        return list(self._tools)

    async def __aenter__(self) -> FunctionToolset:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


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
