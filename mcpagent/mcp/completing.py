"""Values that a server proposes for an argument of a prompt or of a resource template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types

from mcpagent.mcp.lists import PromptInfo, ResourceInfo
from mcpagent.safe_text import safe_line

MAX_VALUES = 100


def completion_request(
    of: PromptInfo | ResourceInfo, argument: str, value: str, known: Mapping[str, str]
) -> types.CompleteRequest:
    ref: types.PromptReference | types.ResourceTemplateReference
    if isinstance(of, PromptInfo):
        ref = types.PromptReference(type="ref/prompt", name=of.name)
    else:
        ref = types.ResourceTemplateReference(type="ref/resource", uri=of.uri)
    context = types.CompletionContext(arguments=dict(known)) if known else None
    params = types.CompleteRequestParams(
        ref=ref, argument=types.CompletionArgument(name=argument, value=value), context=context
    )
    return types.CompleteRequest(params=params)


def values_of(result: dict[str, Any]) -> tuple[str, ...]:
    """The proposed values that can be shown as they are; a hundred at most, as the protocol says."""
    completion = result.get("completion")
    values = completion.get("values") if isinstance(completion, dict) else None
    shown = [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
    return tuple(value for value in shown[:MAX_VALUES] if value and safe_line(value, len(value)) == value)
