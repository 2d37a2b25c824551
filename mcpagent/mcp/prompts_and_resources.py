"""Request a server's prompts, resources, and completions of arguments, over its link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpagent.mcp.lists.server_lists import PromptInfo, ResourceInfo
from mcpagent.mcp.request_failures import REQUEST_FAILURES
from mcpagent.mcp.server_link import ServerLink
from mcpagent.utilities.python.worker_threads import imported
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.tools import ToolOutput

MAX_VALUES = 100
"""Maximum number of completions that are used, as in the protocol."""


async def get_prompt(
    link: ServerLink, name: str, arguments: Mapping[str, str]
) -> ToolOutput:
    """Return one prompt with its arguments filled in; on failure, an output with the error."""
    await imported("mcp_types")
    import mcp_types as types

    from mcpagent.mcp.result_content import output_of_prompt

    params = types.GetPromptRequestParams(name=name, arguments=dict(arguments))
    return await link.output(
        types.GetPromptRequest(params=params), name, output_of_prompt
    )


async def get_resource(link: ServerLink, uri: str) -> ToolOutput:
    """Return the content at a URI, which need not be listed; on failure, an output with the error."""
    await imported("mcp_types")
    import mcp_types as types

    from mcpagent.mcp.result_content import output_of_resource

    params = types.ReadResourceRequestParams(uri=uri)
    return await link.output(
        types.ReadResourceRequest(params=params), uri, output_of_resource
    )


async def complete(
    link: ServerLink,
    of: PromptInfo | ResourceInfo,
    argument: str,
    value: str,
    known: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Return the server's completions of `value` for an argument of a prompt or of a template.

    `known` are the arguments already entered. Returns () if the server has no completions, or fails.
    """
    await imported("mcp_types")
    import mcp_types as types

    ref: types.PromptReference | types.ResourceTemplateReference
    if isinstance(of, PromptInfo):
        ref = types.PromptReference(type="ref/prompt", name=of.name)
    else:
        ref = types.ResourceTemplateReference(type="ref/resource", uri=of.uri)
    context = None
    if known:
        context = types.CompletionContext(arguments=dict(known))
    params = types.CompleteRequestParams(
        ref=ref,
        argument=types.CompletionArgument(name=argument, value=value),
        context=context,
    )
    try:
        connection = await link.connected()
        if (
            can := connection.session.server_capabilities
        ) is None or can.completions is None:
            return ()
        return _values(
            await connection.request(
                types.CompleteRequest(params=params), limits=link.limits
            )
        )
    except REQUEST_FAILURES:
        return ()


def _values(result: dict[str, Any]) -> tuple[str, ...]:
    """Return the completions that can be displayed unchanged."""
    completion = result.get("completion")
    values = None
    if isinstance(completion, dict):
        values = completion.get("values")
    shown = []
    if isinstance(values, list):
        shown = [value for value in values if isinstance(value, str)]
    return tuple(
        value
        for value in shown[:MAX_VALUES]
        if value and safe_line(value, len(value)) == value
    )
