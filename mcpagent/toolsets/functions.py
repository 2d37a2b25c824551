"""Plain Python functions as tools: the schema comes from the signature, the description from the docstring."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from types import CodeType, NoneType
from typing import (
    TYPE_CHECKING,
    Any,
    Protocol,
    TypeAlias,
    cast,
    get_origin,
    get_type_hints,
)

from mcpagent.errors import ConfigError
from mcpagent.history.intake.budget import MAX_LISTED_BYTES
from mcpagent.permissions.approval_policy import ApprovalPredicate
from mcpagent.run.agent_run import RunContext, run_context
from mcpagent.tool_search.unique_names import expect_legal_name
from mcpagent.toolsets.function_results import first_items, tool_output
from mcpagent.toolsets.listed_tools import listed_place, put_together, with_approval
from mcpagent.toolsets.unmatched_names import Completeness
from mcpagent.utilities.json_schema.parts import untitled
from mcpagent.utilities.python.argument_checks import (
    checked,
    expect,
    expect_arguments,
    expect_options,
)
from mcpagent.utilities.python.garbage_collection import uncollected
from mcpagent.utilities.python.worker_threads import is_large
from mcpagent.values.messages import ToolDefinition
from mcpagent.values.tools import (
    ALL_CALLERS,
    Run,
    Tool,
    ToolCaller,
    ToolOutput,
    ToolReturn,
    Toolset,
    expect_callers,
    expect_timeout,
    usable_tool,
)

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
    read_only: bool | None = None,
    safe_to_repeat: bool | None = None,
    large_result_tokens: int | None = None,
    allowed_callers: Sequence[ToolCaller] = ALL_CALLERS,
) -> Tool:
    """Create a tool that calls `function`, sync (in a thread) or async.

    Parameters need type annotations that pydantic understands; Google, NumPy and reST docstrings provide the
    descriptions. A first parameter annotated `RunContext` receives the run's context and is not shown to the model.

    - `defer_loading`: True hides the tool until it is found, False never does, None leaves it to the agent's tool
      search.
    - `approval`: True if each call needs approval, or a predicate `(context, definition, arguments) -> bool`.
    - `read_only`: True if a call changes nothing, like a server's `readOnlyHint`. The command line then does not ask
      before a call, and the offline model may make it.
    - `safe_to_repeat`: a call may be repeated if the process ended and it is unknown whether the call ran; None: if it
      is `read_only`.
    - `large_result_tokens`: a larger result (estimated) is offloaded; 0: never, None: the agent's threshold.
    - `allowed_callers`: in code mode, "direct" lets the model call the tool, "code" lets its programs.

    Raises `ConfigError` if the name is illegal, or a parameter cannot be described or passed by name.
    """
    given = locals()
    expect("tools", function, Callable, "functions and tools")
    expect_arguments("function_tool", function_tool, given)
    expect_timeout("function_tool", timeout_seconds)
    expect_callers("function_tool", allowed_callers)
    what, line = "a whole number of tokens, 0 or None", large_result_tokens
    expect(
        "function_tool: large_result_tokens",
        line,
        (int, NoneType),
        what,
        holds=lambda it: it is None or it >= 0,
    )
    said = _underlying(function)
    tool_name: str = name or str(getattr(said, "__name__", type(said).__name__))
    expect_legal_name(tool_name)
    summary, parameter_texts = _docstring(said)
    hints = _hints(said, tool_name)
    takes_context = _takes_context(function, hints, tool_name)
    model = _arguments_model(function, tool_name, hints, parameter_texts)
    definition = ToolDefinition(
        tool_name,
        description if description is not None else summary,
        _schema(model),
        original_name=tool_name,
        category=category,
        read_only=read_only,
    )
    tool = Tool(
        definition,
        _function_call(function, model, takes_context),
        timeout_seconds,
        deferred=defer_loading,
        safe_to_repeat=bool(read_only) if safe_to_repeat is None else safe_to_repeat,
        large_result_tokens=large_result_tokens,
        returns=hints.get("return"),
        allowed_callers=tuple(allowed_callers),
    )
    if approval is False:
        return tool
    return with_approval([tool], None if approval is True else approval)[0]


def _underlying(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that has the name, annotations and docstring; for a `partial`, the wrapped one."""
    if isinstance(function, partial):
        return _underlying(function.func)
    return function


def _function_call(
    function: Callable[..., Any], model: type[BaseModel], takes_context: bool
) -> Run:
    from pydantic import ValidationError

    async def run(arguments: dict[str, Any]) -> ToolOutput:
        try:
            checked = model.model_validate(arguments)
        except ValidationError as error:
            return ToolOutput.of_text(_misfit(error), error="invalid_arguments")
        values = {
            str(model.model_fields[field].alias): getattr(checked, field)
            for field in checked.model_fields_set
        }
        context = (run_context(),) if takes_context else ()
        call, output = partial(function, *context, **values), None
        if inspect.iscoroutinefunction(function):
            value = await call()
        else:
            value, output = await asyncio.to_thread(_in_thread, call)
        if output is None:
            if inspect.isawaitable(value):
                value = await value
            if isinstance(value, AsyncIterator):
                value = await first_items(value)
            is_small = isinstance(
                value, str | int | float | NoneType | dict | list
            ) and not is_large(value)
            if is_small:
                output = tool_output(value)
            else:
                output = await asyncio.to_thread(_converted, value)
        if isinstance(value, ToolReturn) and value.state:
            run_context().tool_context.update(value.state)
        return output

    return run


def _in_thread(call: Callable[[], Any]) -> tuple[Any, ToolOutput | None]:
    """Run the call in a worker thread and convert its result there, because the conversion may be slow.

    Returns the value and its `ToolOutput`, which is None if the value is awaitable or an async iterator.
    """
    value = call()
    is_async = inspect.isawaitable(value) or isinstance(value, AsyncIterator)
    return value, None if is_async else _converted(value)


def _converted(value: object) -> ToolOutput:
    with uncollected():
        return tool_output(value)


def _misfit(error: ValidationError) -> str:
    problems = (
        f"{'.'.join(str(step) for step in item['loc'])}: {item['msg']}"
        for item in error.errors()
    )
    return f"The arguments do not fit, so the call was not run: {'; '.join(problems)}"


def _code(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function itself, or the `__call__` of a callable object."""
    is_itself = inspect.isroutine(function) or isinstance(function, type)
    if is_itself:
        return function
    return type(function).__call__


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    from docstring_parser import parse

    text = _code(function).__doc__ or inspect.getdoc(function) or ""
    if len(text) > MAX_LISTED_BYTES:
        return (
            text,
            {},
        )  # a larger definition would be omitted, and parsing it would take seconds
    parsed = parse(text)
    paragraphs = (parsed.short_description, parsed.long_description)
    texts = {item.arg_name: item.description or "" for item in parsed.params}
    return "\n\n".join(text for text in paragraphs if text), texts


def _hints(function: Callable[..., Any], tool_name: str) -> dict[str, Any]:
    try:
        return get_type_hints(_code(function), include_extras=True)
    except NameError as error:
        raise ConfigError(
            f'tool "{tool_name}": annotation {error}; import the type beside the function'
        ) from None


def _is_context(hint: object) -> bool:
    return hint is RunContext or get_origin(hint) is RunContext


def _takes_context(
    function: Callable[..., Any], hints: dict[str, Any], tool_name: str
) -> bool:
    contexts = [
        name
        for name in inspect.signature(function).parameters
        if _is_context(hints.get(name))
    ]
    first = next(iter(inspect.signature(function).parameters), None)
    if contexts and contexts != [first]:
        raise ConfigError(
            f'tool "{tool_name}": RunContext must be the first parameter, once; move "{contexts[-1]}"'
        )
    return bool(contexts)


def _arguments_model(
    function: Callable[..., Any],
    tool_name: str,
    hints: dict[str, Any],
    texts: dict[str, str],
) -> type[BaseModel]:
    from pydantic import ConfigDict, Field, create_model
    from pydantic.errors import PydanticUserError

    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if _is_context(hints.get(parameter.name)):
            continue
        if parameter.kind not in (
            parameter.POSITIONAL_OR_KEYWORD,
            parameter.KEYWORD_ONLY,
        ):
            raise ConfigError(
                f'tool "{tool_name}": parameter "{parameter}" cannot be passed by name; use plain named parameters'
            )
        if parameter.default is parameter.empty:
            default = ...
        else:
            default = parameter.default
        # Pydantic treats a leading underscore as private, so such a parameter could never be passed.
        if parameter.name.startswith("_"):
            raise ConfigError(
                f'tool "{tool_name}": parameter "{parameter.name}" starts with "_"; rename it'
            )
        text = texts.get(parameter.name) or None
        # Use an internal name, because some names have a meaning in pydantic (`model_config`, `json`, `copy`).
        field = Field(default, alias=parameter.name, description=text)
        fields[f"argument_{len(fields)}"] = (hints.get(parameter.name, Any), field)
    try:
        model: type[BaseModel] = create_model(
            tool_name,
            __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False),
            **fields,
        )
        model.model_json_schema()
    except (PydanticUserError, NameError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f'tool "{tool_name}": {reason}; use types that JSON Schema can describe'
        ) from None
    return model


class PythonFunction(Protocol):
    """A protocol for functions in a list. Without it, the type that mypy infers for a list of different functions is
    not callable.
    """

    @property
    def __code__(self) -> CodeType: ...


FunctionLike: TypeAlias = Callable[..., Any] | PythonFunction
"""A function, with or without annotations."""


class FunctionToolset(Toolset):
    """Functions, and tools made from functions, as a toolset.

    `defer_loading`, `approval`, `read_only` and `allowed_callers` apply to every function (see `function_tool`); a
    `Tool` keeps its own values. `id` identifies its tools, also after a rename. `label` names the toolset in errors.
    Raises `ConfigError` if a name appears twice.
    """

    known = Completeness.ALL

    @checked()
    def __init__(
        self,
        functions: Iterable[FunctionLike | Tool] = (),
        *,
        defer_loading: bool | None = None,
        approval: bool | ApprovalPredicate = False,
        read_only: bool | None = None,
        category: str = "",
        allowed_callers: Sequence[ToolCaller] = ALL_CALLERS,
        label: str = "",
        id: str = "",  # noqa: A002 - the word for it
    ) -> None:
        expect_callers("FunctionToolset", allowed_callers)
        self.id = id
        self._defaults: dict[str, Any] = {
            "defer_loading": defer_loading,
            "approval": approval,
            "read_only": read_only,
            "category": category,
            "allowed_callers": allowed_callers,
        }
        self._label = label
        self._tools: dict[tuple[str, str], Tool] = {}
        for function in functions:
            self.add(function)

    @property
    def label(self) -> str:
        """The name of the toolset in errors: `label`, or a name made from its first functions."""
        names = ", ".join(name for _, name in islice(self._tools, 3))
        return (
            self._label
            or f"FunctionToolset({names}{', ...' if len(self._tools) > 3 else ''})"
        )

    @property
    def defers(self) -> bool:
        """Return whether one of the tools is hidden until it is found."""
        return any(tool.deferred for tool in self._tools.values())

    def add(self, function: FunctionLike | Tool, **options: Any) -> None:
        """Add a function or tool; `options` are those of `function_tool` and take precedence over the toolset's own."""
        expect_options("FunctionToolset.add", function_tool, options)
        if isinstance(function, Tool):
            tool = usable_tool(function)
        else:
            tool = function_tool(
                cast("Callable[..., Any]", function), **{**self._defaults, **options}
            )
        place = listed_place(tool.definition)
        if place in self._tools:
            put_together(
                [(self.label, [tool, tool])]
            )  # raises the usual error for two tools of the same name
        self._tools[place] = tool

    async def tools(self) -> list[Tool]:
        """Return the tools in the order in which they were added."""
        return list(self._tools.values())


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the model's JSON Schema without the titles that pydantic generates, which cost tokens."""
    schema = untitled(model.model_json_schema())
    schema.pop("additionalProperties", None)
    schema.setdefault("properties", {})
    return schema
