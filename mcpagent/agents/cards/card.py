"""`AgentCard`: an agent defined in a file, as Markdown with YAML front matter or as YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from mcpagent.errors import ConfigError
from mcpagent.models.provider_tools.provider_tool_values import ProviderTool
from mcpagent.utilities.python.argument_checks import expect_fields
from mcpagent.values.limits.run_limits import Limits

CardStrategy: TypeAlias = Literal["auto", "bm25", "regex"]
STRATEGIES: tuple[CardStrategy, ...] = ("auto", "bm25", "regex")


class CardError(ConfigError):
    """An unusable card. `message` names the file and the problem, `details` the value found or the fix."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(f"{message}: {details}" if details else message)
        self.message = message
        self.details = details


@dataclass(frozen=True, slots=True)
class ToolSearchConfig:
    """A card's `tool_search`: the MCP tools that the model must search for.

    `eager_tools` are tools that are never hidden: server name -> fnmatch patterns for that server's own tool names,
    case-sensitive.
    """

    enabled: bool = False
    scope: Literal["mcp"] = "mcp"
    strategy: CardStrategy = "auto"
    eager_tools: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]]
    )

    def __post_init__(self) -> None:
        expect_fields(self)


@dataclass(frozen=True, slots=True)
class AgentCard:
    """The fields of a card, with `${VAR}` unexpanded: creating an agent reads the variables.

    - `servers`: names in the server configuration `mcp_config` (a path relative to the card; by default the files found
      from the card's folder upwards).
    - `mcp_servers`: an inline `mcpServers` mapping; `mcp_connect`: a list of `{target, name, ...}`.
    - `tools`: server name -> patterns of the tools that the agent may have; a server without an entry offers all its
      tools.
    - `code_mode`: the model calls tools in Python programs. `provider_tools`: tools that the model's provider runs.
    - `limits`: the limits of each answer. `agents`: the cards whose agents this one may call.
    - `large_result_tokens`: results with more tokens are offloaded; None: the default.
    - `foreign`: fields of other programs that have no meaning here.
    """

    name: str
    instruction: str = ""
    description: str = ""
    default: bool = False
    model: str = ""
    servers: tuple[str, ...] = ()
    tools: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]]
    )
    mcp_config: str = ""
    mcp_servers: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    mcp_connect: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    tool_search: ToolSearchConfig | None = None
    code_mode: bool = False
    provider_tools: tuple[ProviderTool, ...] = ()
    agents: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    large_result_tokens: int | None = None
    child_timeout_sec: int = 0
    request_params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    api_key: str = field(default="", repr=False)
    tool_only: bool = False
    schema_version: int = 1
    foreign: Mapping[str, Any] = field(default_factory=dict[str, Any])
    path: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        expect_fields(self)
