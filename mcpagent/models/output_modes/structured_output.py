"""The modes of structured output: the provider's native format, a tool to submit the answer, or instructions.

In each mode, the loop and the history get the same: an answer whose text is the JSON. A submitted answer is converted
to that text before other code sees the call, so a conversation can continue with another model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from mcpagent.models.base import Model, ModelRequest, ModelResponse, OutputFormat
from mcpagent.models.exchange import RequestVariant
from mcpagent.models.failures_and_retries import Failure
from mcpagent.models.output_modes.strict_schemas import ANTHROPIC, OPENAI, strict_schema
from mcpagent.models.profiles import is_structured, server_of
from mcpagent.models.stream_rollback import CallDelta
from mcpagent.models.tool_changes_in_history import SUBMIT_TOOL
from mcpagent.models.wire_values import json_text
from mcpagent.values.events import Emit, Event, TextDelta
from mcpagent.values.messages import (
    Origin,
    Part,
    Text,
    ToolCall,
    ToolDefinition,
    WireProtocol,
)

OutputWay: TypeAlias = Literal["native", "tool", "text"]

_WORDS = """Give your answer to the user as one JSON document and nothing else: no words around it, no code fence. It \
must fit this JSON Schema:
"""

_SUBMIT = """Gives the answer to the user. Call it when you have all that it needs, alone and once, in place of \
answering in words: nobody reads those."""


def takes_output(model: Model) -> bool:
    """Return whether the model itself handles `ModelRequest.output`, as models with a provider do.

    A model may have a method `takes_output()`; without it, the format is described in the prompt.
    """
    own = getattr(model, "takes_output", None)
    return own is not None and bool(own())


def told_form(model: Model, request: ModelRequest) -> ModelRequest:
    """Return the request to send to this model. If the model does not handle `output`, the system prompt describes the
    format.
    """
    if request.output is None or takes_output(model):
        return request
    return told_in_words(request)


def told_in_words(request: ModelRequest) -> ModelRequest:
    """Return the request with a description of its output format in the system prompt."""
    if request.output is None:
        return request
    words = _WORDS + json_text(request.output.schema)
    return replace(
        request,
        system="\n\n".join(text for text in (request.system, words) if text.strip()),
    )


def usual_way(
    request: ModelRequest, to: Origin, *, most_tools: int | None, can_call: bool = True
) -> OutputWay:
    """Return the usual output mode of the model at its server. `can_call`: the model supports tools."""
    if request.output is None:
        return "text"
    has_tools = bool(request.tools or request.deferred_tools)
    if _is_native(request.output, to, alone=not has_tools or not can_call):
        return "native"
    if can_call and (most_tools is None or len(request.tools) < most_tools):
        return "tool"
    return "text"


def _is_native(output: OutputFormat, to: Origin, *, alone: bool) -> bool:
    known, server = is_structured(to), server_of(to)
    if to.protocol == "messages":
        return (
            known is not False and strict_schema(output.schema, ANTHROPIC) is not None
        )
    if known is False:
        return False
    return (
        server.structured == "always"
        or bool(known)
        or (server.structured == "alone" and alone)
    )


def native_fields(
    output: OutputFormat, protocol: WireProtocol, *, subset: bool
) -> dict[str, Any]:
    """Return the body's fields for the format. `subset`: the server requires OpenAI's strict subset of JSON Schema."""
    if protocol == "messages":
        schema = strict_schema(output.schema, ANTHROPIC) or output.schema
        return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    if subset:
        strict = strict_schema(output.schema, OPENAI)
    else:
        strict = output.schema
    described = {}
    if output.description:
        described = {"description": output.description}
    named: dict[str, Any] = {"name": output.name, **described}
    named |= {
        "schema": strict or output.schema,
        **({"strict": strict is not None} if subset else {}),
    }
    if protocol == "responses":
        return {"text": {"format": {"type": "json_schema", **named}}}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def with_fields(body: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body with these fields merged into existing ones, such as a setting's `output_config.effort`."""
    beside = {name: body[name] for name in fields if isinstance(body.get(name), dict)}
    return {
        **body,
        **{name: {**beside.get(name, {}), **value} for name, value in fields.items()},
    }


# -- The tool to submit an answer with ---------------------------------------------------------------------------------


def with_submit_tool(request: ModelRequest, output: OutputFormat) -> ModelRequest:
    """Return the request with the submit tool as its last tool, so that the tool's position stays the same during a
    run.
    """
    description = f"{_SUBMIT} {output.description}".strip()
    tool = ToolDefinition(
        SUBMIT_TOOL, description, output.schema, original_name=SUBMIT_TOOL
    )
    return replace(
        request, tools=(*request.tools, tool), output=replace(output, way="tool")
    )


def is_submitted(request: ModelRequest) -> bool:
    """Return whether the request has the submit tool."""
    return request.output is not None and request.output.way == "tool"


def callable_in(request: ModelRequest) -> ModelRequest:
    """Return the request for reading its answer: the answer may contain calls if submitting it is one."""
    if is_submitted(request):
        return replace(request, tool_choice="auto")
    return request


def demanded(
    body: Mapping[str, Any], request: ModelRequest, protocol: WireProtocol
) -> dict[str, Any]:
    """Return the body with a `tool_choice` that forces the model to call a tool, because it must submit its answer.

    If the model may call no other tool, the choice names the submit tool. A call that the caller itself forces for the
    first answer has precedence. For Claude with thinking the choice is "auto": its API rejects forced calls then.
    """
    choice = body.get("tool_choice")
    alone = request.tool_choice == "none" or choice in ("none", {"type": "none"})
    thinks = isinstance(body.get("thinking"), Mapping) and body["thinking"].get(
        "type"
    ) in ("enabled", "adaptive")
    if protocol == "messages":
        before = {}
        if isinstance(choice, dict) and not alone:
            before = choice
        if thinks:
            return {**body, "tool_choice": {**before, "type": "auto"}}
        if not alone and before.get("type") in ("any", "tool"):
            return dict(body)
        if alone:
            kind = {"type": "tool", "name": SUBMIT_TOOL}
        else:
            kind = {"type": "any"}
        return {
            **body,
            "tool_choice": {**{k: v for k, v in before.items() if k != "name"}, **kind},
        }
    if alone:
        named = (
            {"name": SUBMIT_TOOL}
            if protocol == "responses"
            else {"function": {"name": SUBMIT_TOOL}}
        )
        return {**body, "tool_choice": {"type": "function", **named}}
    if isinstance(choice, dict):
        is_list = choice.get("type") == "allowed_tools"
        if is_list:
            return {**body, "tool_choice": {**choice, "mode": "required"}}
        return dict(body)
    return {**body, "tool_choice": "required"}


def submitted_way(asked: RequestVariant, emit: Emit) -> RequestVariant:
    """Return the same request form, with the submitted arguments read as the answer.

    Their JSON is emitted as it arrives; other text is emitted only if the model submitted nothing.
    """
    held: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, TextDelta):
            held.append(event.text)
        else:
            emit(event)

    def hear_call(delta: CallDelta) -> None:
        if delta.name == SUBMIT_TOOL and delta.text:
            emit(TextDelta(delta.text))

    def understand(response: ModelResponse) -> ModelResponse:
        if (
            not any(call.name == SUBMIT_TOOL for call in response.message.tool_calls)
            and held
        ):
            emit(TextDelta("".join(held)))
        return read_submitted(response)

    return RequestVariant(asked.request, listen, understand, hear_call)


def read_submitted(response: ModelResponse) -> ModelResponse:
    """Return the response with the submitted JSON as its text. Other calls in the answer stay calls."""
    message = response.message
    submitted = [call for call in message.tool_calls if call.name == SUBMIT_TOOL]
    if not submitted:
        return response
    last = submitted[-1]
    kept: list[Part] = [
        part
        for part in message.parts
        if not isinstance(part, Text) and part not in submitted
    ]
    place = next(
        (at for at, part in enumerate(kept) if isinstance(part, ToolCall)), len(kept)
    )
    signed = message.tool_calls[0].provider_data.get("extra_content")
    if (
        place < len(kept)
        and signed is not None
        and isinstance(call := kept[place], ToolCall)
    ):
        # Gemini signs only the first of several calls. If that was the submit call, which is no longer in the message,
        # the first remaining call gets its signature.
        kept[place] = replace(
            call, provider_data={"extra_content": signed, **call.provider_data}
        )
    kept.insert(place, Text(last.malformed or json_text(last.arguments)))
    made = replace(message, parts=tuple(kept))
    stop = response.stop
    if stop not in ("length", "refusal"):
        stop = "end"
        if made.tool_calls:
            stop = "tool_calls"
    return replace(response, message=made, stop=stop)


# -- Errors about structured output ------------------------------------------------------------------------------------

_ABOUT_OUTPUT = re.compile(
    r"response_?format|json_schema|output_config|output_format|text\.format|structured.?output|response.?mime"
    r"|response_?schema|schema|grammar",
    re.IGNORECASE,
)
_ABOUT_TOOLS = re.compile(r"function\b|tools?\b[.\[ ]", re.IGNORECASE)


def refuses_output(failure: Failure) -> bool:
    """Return whether the failure is about the output format, not about a tool's schema."""
    said = f"{failure.param} {failure.message}"
    found = _ABOUT_OUTPUT.search(said)
    is_plain_schema = found is not None and found[0].lower() in ("schema", "grammar")
    return found is not None and not (is_plain_schema and _ABOUT_TOOLS.search(said))


def refuses_schema(failure: Failure) -> bool:
    """Return whether the failure refuses this particular schema, so that other schemas may work."""
    said = failure.message.lower().replace("json_schema", "")
    return "schema" in said or "grammar" in said


def schema_text(request: ModelRequest) -> str:
    """Return the output schema as text, or ""."""
    if request.output is not None:
        return json_text(request.output.schema)
    return ""


def refuses_demand(failure: Failure) -> bool:
    """Return whether the failure is about the required call."""
    return "tool_choice" in f"{failure.param} {failure.message}"
