"""The options that commands share: declared once for the command line, carried as one value."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

PLAIN: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
}
"""For every `typer.Typer`: no markup, no boxes, no tracebacks of its own."""


class ToolSearchMode(StrEnum):
    """When tools are searched for instead of all being offered."""

    auto = "auto"
    on = "on"
    off = "off"


class SearchStrategy(StrEnum):
    """How tool search ranks: see `mcpagent.ToolSearch.strategy`."""

    auto = "auto"
    bm25 = "bm25"
    hybrid = "hybrid"
    regex = "regex"


class ApproveMode(StrEnum):
    """What becomes of calls that no rule decides: see `mcpagent.cli.approvals`."""

    ask = "ask"
    safe = "safe"
    all = "all"
    none = "none"


class WriteScope(StrEnum):
    """Whose file is changed: the user's own `mcp.json`, or the project's `.mcp.json`."""

    user = "user"
    project = "project"


CLIENTS = ("claude-desktop", "claude-code", "cursor", "vscode", "codex", "gemini", "goose")
"""The other MCP clients whose servers `mcp import` knows where to find."""


class TokensBy(StrEnum):
    """What `tools tokens` sums up."""

    server = "server"
    tool = "tool"


class Shell(StrEnum):
    """Shells that a completion script is written for."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"
    pwsh = "pwsh"


class OutputFormat(StrEnum):
    text = "text"
    json = "json"
    stream_json = "stream-json"


class ColorMode(StrEnum):
    auto = "auto"
    always = "always"
    never = "never"


# typer reads these at run time.
def _number(value: float | None) -> float | None:
    """The value, which "nan" is none of, though no range leaves it out."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is no number")
    return value


Card = Annotated[
    Path | None,
    typer.Option(
        "--card",
        metavar="FILE|FOLDER",
        envvar="MCPAGENT_CARD",
        help="An agent card, or a folder of them: its model, servers and instruction instead of those found here.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        envvar="MCPAGENT_MODEL",
        help="provider:model, such as anthropic:claude-sonnet-5-5, openai:gpt-5.5, ollama:qwen3; or offline. "
        "Default: the first provider whose key is set, else offline.",
    ),
]
Config = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="MCPAGENT_CONFIG",
        help="Servers to use (mcpServers JSON) instead of those found in .mcp.json or mcp_servers.json from here up to "
        "the git root and in the user's mcp.json. Repeatable.",
    ),
]
Server = Annotated[
    list[str] | None,
    typer.Option(
        "--server",
        metavar="NAME='COMMAND'|NAME=URL",
        help="One more server: a command that is started, or an address. Repeatable. [MCPAGENT_SERVER]",
    ),
]
ToolSearchOption = Annotated[
    ToolSearchMode,
    typer.Option(
        "--tool-search",
        envvar="MCPAGENT_TOOL_SEARCH",
        help="Let the model search for tools instead of offering all; auto: where that costs less.",
    ),
]
SearchStrategyOption = Annotated[
    SearchStrategy,
    typer.Option(
        "--search-strategy",
        envvar="MCPAGENT_SEARCH_STRATEGY",
        help="How a search ranks: by words (bm25), with word vectors besides (hybrid), or regex; auto: hybrid where "
        "the vectors are installed.",
    ),
]
AlwaysLoad = Annotated[
    list[str] | None,
    typer.Option(
        "--always-load",
        metavar="NAME|GLOB",
        envvar="MCPAGENT_ALWAYS_LOAD",
        help="Offer these tools from the first request on: a tool's name, a glob, or SERVER.GLOB. Repeatable.",
    ),
]
Approve = Annotated[
    ApproveMode,
    typer.Option(
        "--approve",
        envvar="MCPAGENT_APPROVE",
        help="Calls that no rule decides: ask about them (where nobody can be asked: deny), safe: deny them, all: run "
        "them. Tools that only read run in ask and safe, of servers that you trust. none: deny also these.",
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="SERVER.TOOL",
        envvar="MCPAGENT_ALLOW",
        help="Run these tools without asking; a glob such as 'github.*' too. Repeatable.",
    ),
]
Deny = Annotated[
    list[str] | None,
    typer.Option(
        "--deny",
        metavar="SERVER.TOOL",
        envvar="MCPAGENT_DENY",
        help="Never run these tools, whatever else is said; a glob too. Repeatable.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", envvar="MCPAGENT_YES", help="The same as --approve all.")]
DeniedOk = Annotated[
    bool,
    typer.Option("--denied-ok", envvar="MCPAGENT_DENIED_OK", help="Exit code 0, not 6, where a call was denied."),
]
TrustProject = Annotated[
    bool,
    typer.Option(
        "--trust-project",
        envvar="MCPAGENT_TRUST_PROJECT",
        help="Start the servers of the project's .mcp.json without a question; else each needs one yes as it is.",
    ),
]
Learn = Annotated[
    bool,
    typer.Option(
        "--learn",
        envvar="MCPAGENT_LEARN",
        help="Keep what was searched, added and called on this machine, and rank by it; see mcpagent tools learned.",
    ),
]
TrustChanges = Annotated[
    bool,
    typer.Option(
        "--trust-changes",
        envvar="MCPAGENT_TRUST_CHANGES",
        help="Call tools also where their server changed what it says about them since they were first used.",
    ),
]
MaxTurns = Annotated[
    int,
    typer.Option(
        "--max-turns",
        metavar="N",
        min=1,
        envvar="MCPAGENT_MAX_TURNS",
        help="Answers of the model per question; then one last answer without tools, and exit code 7.",
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        metavar="N",
        min=1,
        envvar="MCPAGENT_MAX_TOKENS",
        help="No further request once the answer took so many tokens, in and out; exit code 7.",
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        metavar="DOLLARS",
        min=0,
        envvar="MCPAGENT_MAX_COST",
        callback=_number,
        help="No further request once the answer cost so much (US); exit code 7.",
    ),
]
JsonSchema = Annotated[
    Path | None,
    typer.Option(
        "--json-schema",
        metavar="FILE",
        envvar="MCPAGENT_JSON_SCHEMA",
        help="The answer is one JSON document that fits this JSON Schema; the model gets three attempts.",
    ),
]
EstimateOnly = Annotated[
    bool,
    typer.Option(
        "--estimate",
        envvar="MCPAGENT_ESTIMATE",
        help="Say what the first request would be and what it costs, and do not make it.",
    ),
]
Record = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="FILE",
        envvar="MCPAGENT_RECORD",
        help="Write down what the model is sent and says and what the tools give, without secrets; for --replay.",
    ),
]
Replay = Annotated[
    Path | None,
    typer.Option(
        "--replay",
        metavar="FILE",
        envvar="MCPAGENT_REPLAY",
        help="Take all answers of the model and the tools from a recording: no network, no key, no server.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        envvar="MCPAGENT_TIMEOUT",
        callback=_number,
        help="Stop after so many seconds, with exit code 124; in chat, for each question.",
    ),
]
StatusLine = Annotated[
    str,
    typer.Option(
        "--status-line",
        metavar="COMMAND",
        envvar="MCPAGENT_STATUS_LINE",
        help="A command that makes the status line: it gets JSON on stdin and prints one line.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", envvar="MCPAGENT_QUIET", help="On stderr only what went wrong.")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", envvar="MCPAGENT_VERBOSE", help="Tell every step on stderr, also in a pipe."),
]
Debug = Annotated[
    bool, typer.Option("--debug", envvar="MCPAGENT_DEBUG", help="Tracebacks and the log of the libraries on stderr.")
]
Color = Annotated[
    ColorMode,
    typer.Option(
        "--color", envvar="MCPAGENT_COLOR", help="Default: on a terminal, unless NO_COLOR is set or TERM is dumb."
    ),
]
Refresh = Annotated[
    bool,
    typer.Option("--refresh", help="Ask the servers again; else lists of the last seven days are read from the cache."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line and the environment ask for."""

    model: str | None = None
    card: Path | None = None
    config: tuple[Path, ...] = ()
    server: tuple[str, ...] = ()
    tool_search: ToolSearchMode = ToolSearchMode.auto
    search_strategy: SearchStrategy = SearchStrategy.auto
    always_load: tuple[str, ...] = ()
    learn: bool = False
    approve: ApproveMode = ApproveMode.ask
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    denied_ok: bool = False
    trust_changes: bool = False
    trust_project: bool = False
    refresh: bool = False
    max_turns: int = 100
    max_tokens: int | None = None
    max_cost: float | None = None
    json_schema: Path | None = None
    estimate: bool = False
    record: Path | None = None
    replay: Path | None = None
    timeout: float | None = None
    output: OutputFormat = OutputFormat.text
    quiet: bool = False
    verbose: bool = False
    debug: bool = False
    color: ColorMode = ColorMode.auto
    status_line: str = ""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    folder: Path = field(default_factory=Path.cwd)


SHARED: Mapping[str, Any] = {
    "model": Model,
    "card": Card,
    "config": Config,
    "server": Server,
    "tool_search": ToolSearchOption,
    "search_strategy": SearchStrategyOption,
    "always_load": AlwaysLoad,
    "learn": Learn,
    "approve": Approve,
    "yes": Yes,
    "allow": Allow,
    "deny": Deny,
    "denied_ok": DeniedOk,
    "trust_changes": TrustChanges,
    "trust_project": TrustProject,
    "refresh": Refresh,
    "max_turns": MaxTurns,
    "max_tokens": MaxTokens,
    "max_cost": MaxCost,
    "json_schema": JsonSchema,
    "estimate": EstimateOnly,
    "record": Record,
    "replay": Replay,
    "timeout": Timeout,
    "status_line": StatusLine,
    "quiet": Quiet,
    "verbose": Verbose,
    "json": Json,
    "debug": Debug,
    "color": Color,
}
"""Each shared option's declaration, by the field of `Options` that it sets; `yes` and `json` are short for others."""

REPORT = ("json", "debug", "color")
"""For a command that prints a report."""

OF_SERVERS = ("config", "server", "trust_project", "refresh", *REPORT)
"""For a command that looks at the servers' tools."""

CATALOGUE = ("card", "config", "server", "tool_search", "search_strategy", "always_load", "learn")
RULES = ("approve", "yes", "allow", "deny")

Command: TypeAlias = Callable[..., int]


def taking(*names: str, **others: Any) -> Callable[[Command], Command]:
    """The command has these shared options besides its own parameters, and gets them all as `options`.

    `others` are declared otherwise than usual: the field's name, and an annotation as typer reads it.
    """
    declared = {**others, **{name: SHARED[name] for name in names}}

    def declare(command: Command) -> Command:
        own = [item for item in signature(command, eval_str=True).parameters.values() if item.name != "options"]
        keyword = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=_default(name), annotation=annotation)
            for name, annotation in declared.items()
        ]
        parameters = [*own, *keyword]

        @wraps(command)
        def run(**given: Any) -> int:
            options = options_of({name: given.pop(name) for name in declared})
            return command(options, **given)

        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {item.name: item.annotation for item in parameters}
        return run

    return declare


def _default(name: str) -> Any:
    """The default of the field; a list that is empty is None to typer."""
    value = getattr(_DEFAULTS, name, False)
    return None if value == () else value


_DEFAULTS = Options(environ={}, folder=Path())


def options_of(given: Mapping[str, Any]) -> Options:
    """The value of these options; `--yes` and `--json` are short for others."""
    known = {item.name for item in fields(Options)}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in given.items() if name in known
    }
    values |= {name: () for name in _LISTS & values.keys() if values[name] is None}
    if "server" in values:
        values["server"] = servers_asked_for(values["server"], os.environ)
    if given.get("yes"):
        values["approve"] = ApproveMode.all
    if given.get("json"):
        values["output"] = OutputFormat.json
    return Options(**values)


_LISTS = frozenset(item.name for item in fields(Options) if item.default == ())


def servers_asked_for(server: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """`--server` values, else the lines of MCPAGENT_SERVER (a command has spaces, so they cannot divide servers)."""
    lines = server or environ.get("MCPAGENT_SERVER", "").splitlines()
    return tuple(line.strip() for line in lines if line.strip())
