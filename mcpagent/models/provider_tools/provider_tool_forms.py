"""Write provider tools into requests, by a table of the tools of each model at each address.

Each row has its source. Unsupported tools are omitted with the reason, and so is a tool whose domain limits cannot be
enforced; if only the number of uses cannot be limited, a notice reports it. A tool that a provider refuses after all is
not sent again (`HttpModel.learns`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcpagent.models.endpoints.model_identity import (
    OWN_SERVERS,
    claude_version,
    identity_of,
)
from mcpagent.models.profiles import UNKNOWN, host_at, profile_of
from mcpagent.models.provider_tools.provider_tool_values import (
    CODE_NAMES,
    CodeExecution,
    FileSearch,
    Location,
    ProviderMcp,
    ProviderTool,
    WebFetch,
    WebSearch,
)
from mcpagent.utilities.text.secrets import revealed
from mcpagent.values.messages import Origin

MCP_BETA = "mcp-client-2026-09-15"
"""The beta header of Anthropic's MCP connector."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The provider tools of a model: the `type` in requests for each kind of tool; `source` is the source of these
    facts.
    """

    source: str
    types: Mapping[str, str]


_SERVER_TOOLS = (
    "Anthropic docs, pages of the tools, supported models (Nov 2026); types of its SDK"
)
_CLAUDES: tuple[tuple[tuple[int, int], Offer], ...] = (
    # the first version; the first matching row counts. From 4.6 on, code filters results before Claude reads them.
    (
        (4, 6),
        Offer(
            _SERVER_TOOLS,
            {
                "web_search": "web_search_20260318",
                "web_fetch": "web_fetch_20260318",
                "code_execution": "code_execution_20260521",
                "mcp": "mcp_toolset",
            },
        ),
    ),
    (
        (4, 5),
        Offer(
            _SERVER_TOOLS,
            {
                "web_search": "web_search_20250305",
                "web_fetch": "web_fetch_20250910",
                "code_execution": "code_execution_20260521",
                "mcp": "mcp_toolset",
            },
        ),
    ),
    (
        (3, 7),
        Offer(
            "the same pages in 2025, when these models were supported",
            {
                "web_search": "web_search_20250305",
                "web_fetch": "web_fetch_20250910",
                "code_execution": "code_execution_20250825",
            },
        ),
    ),
)
_CLOUDS: tuple[tuple[str, Offer | None], ...] = (
    # the end of a cloud's host, and the maximum that it offers of Claude's tools; None: nothing
    (
        "amazonaws.com",
        None,
    ),  # the same pages list the supported platforms, and Bedrock is never among them
    (
        "googleapis.com",
        Offer(
            "the same pages: basic web search only",
            {"web_search": "web_search_20250305"},
        ),
    ),
    (
        "azure.com",
        Offer(
            "the same pages: basic web search, code execution, MCP connector",
            {
                "web_search": "web_search_20250305",
                "code_execution": "code_execution_20260521",
                "mcp": "mcp_toolset",
            },
        ),
    ),
)

_GPTS = Offer(
    "OpenAI docs, guides of the tools and model pages (Nov 2026); types of its SDK",
    {
        "web_search": "web_search",
        "code_execution": "code_interpreter",
        "file_search": "file_search",
        "mcp": "mcp",
    },
)
_NO_WEB = re.compile(
    r"gpt-4\.1-nano.*|o1.*|o3-mini.*|gpt-3\.5.*|gpt-4(-\d.*|-turbo.*)?|gpt-oss.*"
)
"""Models of OpenAI without web search, by its documentation."""

_SEARCHES_BY_CHAT = re.compile(r"gpt-.*-search.*")
"""Models of OpenAI that search the web through Chat Completions; all others do so only through Responses."""

_ROUTED = Offer(
    "OpenRouter docs, server tools (Nov 2026)",
    {"web_search": "openrouter:web_search", "web_fetch": "openrouter:web_fetch"},
)


@dataclass(slots=True)
class WrittenTools:
    """Provider tools in the form of a request: entries of `tools`, fields of the body, and the reason for each omitted
    tool, by name.

    `choices` are the forms of each tool in a tool choice, `words` its names in errors; both by name.
    """

    tools: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    choices: dict[str, dict[str, Any]] = field(
        default_factory=dict[str, dict[str, Any]]
    )
    words: dict[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]]
    )


def offer_of(to: Origin) -> tuple[Offer | None, str]:
    """Return the provider tools of the model at its address; None, and the reason, if it has none."""
    if to.provider in OWN_SERVERS:
        return None, "a server of one's own runs no tools"
    match to.protocol:
        case "messages":
            return _offer_of_claude(to)
        case "responses":
            host = host_at(to)  # deployments at Azure have names of their own
            if (
                profile_of(to) == UNKNOWN
                and host != "api.openai.com"
                and not host.endswith(".azure.com")
            ):
                return None, "nothing is known of this model"
            return _GPTS, ""
        case _:
            return _offer_by_chat(to)


def _offer_of_claude(to: Origin) -> tuple[Offer | None, str]:
    if (claude := claude_version(to.model)) is None:
        return None, "nothing is known of this model"
    offer = next((offer for since, offer in _CLAUDES if claude[1] >= since), None)
    if claude == ("haiku", (3, 5)):
        offer = _CLAUDES[-1][1]
    host = host_at(to)
    for end, at_most in _CLOUDS:
        if offer is not None and (host == end or host.endswith(f".{end}")):
            if at_most is None:
                return None, "this cloud has none"
            return Offer(
                at_most.source,
                {
                    kind: at_most.types[kind]
                    for kind in offer.types
                    if kind in at_most.types
                },
            ), ""
    return offer, "" if offer else "the model has none"


def _offer_by_chat(to: Origin) -> tuple[Offer | None, str]:
    host = host_at(to)
    if host == "openrouter.ai" or host.endswith(".openrouter.ai"):
        return _ROUTED, ""
    if host in ("api.openai.com", ""):
        if searches_by_chat(to.model):
            return Offer(
                "OpenAI's SDK, web_search_options", {"web_search": "web_search_options"}
            ), ""
        return (
            None,
            "Chat Completions has none; openai:NAME asks the Responses API, which has",
        )
    return None, "its API has none that is documented"


def searches_by_chat(model: str) -> bool:
    """Return whether the model is one of OpenAI's that search the web for each answer."""
    return _SEARCHES_BY_CHAT.fullmatch(identity_of(model).name) is not None


def written_tools(
    wanted: Iterable[ProviderTool],
    to: Origin,
    *,
    offered: Collection[str] = (),
    refused: Mapping[str, str] | None = None,
    tokens: Mapping[ProviderTool, str] | None = None,
) -> WrittenTools:
    """Return the provider tools in the form that this model accepts.

    `offered` are names of client tools in the same request. `refused` are tools that the provider refused, with the
    reason. `tokens` are the tokens of MCP servers.
    """
    made = WrittenTools()
    offer, why = offer_of(to)
    for tool in wanted:
        if offer is not None:
            kind = offer.types.get(tool.kind)
        else:
            kind = None
        if (
            tool.kind == "web_search"
            and to.protocol == "responses"
            and _NO_WEB.fullmatch(identity_of(to.model).name)
        ):
            kind = None
        if refused and tool.name in refused:
            made.left_out[tool.name] = refused[tool.name]
        elif kind is None:
            made.left_out[tool.name] = why or "the model has none"
        elif taken := sorted(_called(tool) & set(offered)):
            made.left_out[tool.name] = (
                f'a tool "{taken[0]}" of this conversation has its name'
            )
        else:
            _write(tool, kind, to, made, (tokens or {}).get(tool, ""))
    return made


def _called(tool: ProviderTool) -> frozenset[str]:
    """Return the names that the tool has in a request."""
    if isinstance(tool, ProviderMcp):
        return frozenset()
    if isinstance(tool, CodeExecution):
        return CODE_NAMES
    return frozenset({tool.name})


def _write(
    tool: ProviderTool, kind: str, to: Origin, made: WrittenTools, token: str
) -> None:
    before = len(made.tools)
    match to.protocol:
        case "messages":
            _write_for_claude(tool, kind, made, token)
        case "responses":
            _write_for_responses(tool, kind, made, token)
        case _ if kind == "web_search_options":
            _write_web_search_options(tool, made)
        case _:
            _write_for_openrouter(tool, kind, to, made)
    if len(made.tools) > before or kind in made.fields:
        made.words[tool.name] = (
            kind,
            *(_called(tool) or {"mcp server", "mcp_servers", tool.name}),
        )


def _given(**options: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in options.items()
        if value not in (None, [], "", ())
    }


def _place(location: Location | None, *, inside: str = "") -> dict[str, Any] | None:
    if location is None:
        return None
    known = _given(
        city=location.city,
        region=location.region,
        country=location.country,
        timezone=location.timezone,
    )
    return {"type": "approximate", **({inside: known} if inside else known)}


def _write_for_claude(
    tool: ProviderTool, kind: str, made: WrittenTools, token: str
) -> None:
    if isinstance(tool, ProviderMcp):
        servers = made.fields.setdefault("mcp_servers", [])
        secret = _given(authorization_token=token)
        servers.append(
            {"type": "url", "name": tool.name, "url": revealed(tool.url), **secret}
        )
        toolset: dict[str, Any] = {"type": kind, "mcp_server_name": tool.name}
        if tool.allowed_tools:
            toolset["default_config"] = {"enabled": False}
            toolset["configs"] = {
                name: {"enabled": True} for name in tool.allowed_tools
            }
        made.tools.append(toolset)
        return
    options: dict[str, Any] = {}
    if isinstance(tool, WebSearch | WebFetch):
        domains = {
            "allowed_domains": list(tool.allowed_domains),
            "blocked_domains": list(tool.blocked_domains),
        }
        options = _given(max_uses=tool.max_uses, **domains)
    if isinstance(tool, WebSearch):
        options |= _given(user_location=_place(tool.location))
    if isinstance(tool, WebFetch):
        options |= _given(max_content_tokens=tool.max_content_tokens)
        if tool.citations:
            options |= {"citations": {"enabled": True}}
        else:
            options |= {}
    made.tools.append({"type": kind, "name": tool.name, **options})
    made.choices[tool.name] = {"type": "tool", "name": tool.name}


def _write_for_responses(
    tool: ProviderTool, kind: str, made: WrittenTools, token: str
) -> None:
    written: dict[str, Any] = {"type": kind}
    include = made.fields.get("include", [])
    match tool:
        case WebSearch():
            if tool.blocked_domains:
                made.left_out[tool.name] = (
                    "its API does not keep blocked_domains for sure"
                )
                return
            if tool.max_uses is not None:
                made.left_out[f"max_uses of {tool.name}"] = "its API knows none"
            if tool.allowed_domains:
                written["filters"] = {"allowed_domains": list(tool.allowed_domains)}
            written |= _given(user_location=_place(tool.location))
            include = [*include, "web_search_call.action.sources"]
        case CodeExecution():  # OpenAI itself reuses an existing container of the history
            written["container"] = {"type": "auto"}
            include = [*include, "code_interpreter_call.outputs"]
        case FileSearch():
            written |= {
                "vector_store_ids": list(tool.stores),
                **_given(max_num_results=tool.max_results),
            }
            include = [*include, "file_search_call.results"]
        case ProviderMcp():
            written |= {
                "server_label": tool.name,
                "server_url": revealed(tool.url),
                "require_approval": "never",
            }
            written |= _given(
                authorization=token,
                allowed_tools=list(tool.allowed_tools),
                server_description=tool.description,
            )
        case _:
            return
    if include:
        made.fields["include"] = include
    made.tools.append(written)
    label = {}
    if isinstance(tool, ProviderMcp):
        label = {"server_label": tool.name}
    made.choices[tool.name] = {"type": kind, **label}


def _write_web_search_options(tool: ProviderTool, made: WrittenTools) -> None:
    if not isinstance(tool, WebSearch):
        return
    if tool.allowed_domains or tool.blocked_domains:
        made.left_out[tool.name] = "Chat Completions cannot keep it to domains"
        return
    if tool.max_uses is not None:
        made.left_out[f"max_uses of {tool.name}"] = "its API knows none"
    made.fields["web_search_options"] = _given(
        user_location=_place(tool.location, inside="approximate")
    )


def _write_for_openrouter(
    tool: ProviderTool, kind: str, to: Origin, made: WrittenTools
) -> None:
    if isinstance(tool, WebSearch):
        vendor = to.model.partition("/")[0]
        lost = ""
        if tool.blocked_domains and vendor in ("openai", "perplexity"):
            lost = "blocked_domains"
        if tool.allowed_domains and vendor == "perplexity":
            lost = "allowed_domains"
        if lost:
            made.left_out[tool.name] = (
                f"{lost} are not kept for {vendor}'s models there"
            )
            return
        if tool.max_uses is not None:
            made.left_out[f"max_uses of {tool.name}"] = "its API knows none"
        parameters = _given(
            allowed_domains=list(tool.allowed_domains),
            excluded_domains=list(tool.blocked_domains),
            user_location=_place(tool.location),
        )
    elif isinstance(tool, WebFetch):
        parameters = _given(
            allowed_domains=list(tool.allowed_domains),
            blocked_domains=list(tool.blocked_domains),
            max_uses=tool.max_uses,
            max_content_tokens=tool.max_content_tokens,
        )
    else:
        return
    made.tools.append(
        {"type": kind, **({"parameters": parameters} if parameters else {})}
    )


# -- Provider tools in a request ---------------------------------------------------------------------------------------


def beside_ours(
    body: Mapping[str, Any], run: WrittenTools, to: Origin, *, may_call: bool
) -> dict[str, Any]:
    """Return the body with provider tools before the client tools, so that tools found later are at the end.

    `may_call`: the answer may contain calls. If the body lists the callable tools, provider tools are added to that
    list.
    """
    made = dict(body)
    if run.tools:
        made["tools"] = [*run.tools, *made.get("tools", ())]
    for name, value in run.fields.items():
        if isinstance(value, list):
            made[name] = [*made.get(name, ()), *value]
        else:
            made[name] = value
    if not run.tools:
        return made
    if not may_call:
        if to.protocol == "messages":
            made["tool_choice"] = {"type": "none"}
        else:
            made["tool_choice"] = "none"
    elif made.get("tool_choice") == "none":  # no tool of mcpagent may be called
        made["tool_choice"] = {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [*run.choices.values()],
        }
    elif (
        isinstance(choice := made.get("tool_choice"), dict)
        and choice.get("type") == "allowed_tools"
    ):
        made["tool_choice"] = {
            **choice,
            "tools": [*choice["tools"], *run.choices.values()],
        }
    return made


def refused_tools(message: str, run: WrittenTools) -> dict[str, str]:
    """Return the tools that an error refuses, with the reason for the notice; {} if the error is about the history.

    Of several MCP servers, those that are named; if none is named, all tools that the error may mean.
    """
    if re.match(r"(messages|input)[.\[]", message):
        return {}
    named = [name for name in run.words if _names(message, name)]
    spoken_of = [
        name
        for name, words in run.words.items()
        if any(_names(message, word) for word in words)
    ]
    return dict.fromkeys(named or spoken_of, "it was refused")


def _names(message: str, word: str) -> bool:
    """Return whether the message contains the name, with `_`, spaces or hyphens between its parts."""
    written = re.escape(word.lower()).replace("_", "[_ -]")
    return (
        re.search(rf"(?<![a-z0-9]){written}(?![a-z0-9])", message.lower()) is not None
    )
