"""The options that commands share: declared once for the command line, carried as one value."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import click

Declaration: TypeAlias = Callable[[Any], Any]
"""A decorator that adds an option to a command."""


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


class Member(click.Choice[Any]):
    """A member of an enumeration of texts, given by its value."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:  # noqa: ARG002 - the interface's own
        return str(choice)


class Amount(click.FloatRange):
    """A number in a range; "nan" is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail("nan is no number", param, ctx)
        return number


FILE = click.Path(path_type=Path)

card = click.option(
    "--card",
    metavar="FILE|FOLDER",
    envvar="MCPAGENT_CARD",
    help="An agent card, or a folder of them: its model, servers and instruction instead of those found here.",
    type=FILE,
)
model = click.option(
    "--model",
    "-m",
    metavar="NAME",
    envvar="MCPAGENT_MODEL",
    help="provider:model, such as anthropic:claude-sonnet-5-5, openai:gpt-5.5, ollama:qwen3; or offline. "
    "Default: the first provider whose key is set, else offline.",
)
config = click.option(
    "--config",
    metavar="FILE",
    envvar="MCPAGENT_CONFIG",
    help="Servers to use (mcpServers JSON) instead of those found in .mcp.json or mcp_servers.json from here up to "
    "the git root and in the user's mcp.json. Repeatable.",
    type=FILE,
    multiple=True,
)
server = click.option(
    "--server",
    metavar="NAME='COMMAND'|NAME=URL",
    help="One more server: a command that is started, or an address. Repeatable. [MCPAGENT_SERVER]",
    multiple=True,
)
tool_search = click.option(
    "--tool-search",
    envvar="MCPAGENT_TOOL_SEARCH",
    help="Let the model search for tools instead of offering all; auto: where that costs less.",
    type=Member(ToolSearchMode),
    default=ToolSearchMode.auto,
)
search_strategy = click.option(
    "--search-strategy",
    envvar="MCPAGENT_SEARCH_STRATEGY",
    help="How a search ranks: by words (bm25), with word vectors besides (hybrid), or regex; auto: hybrid where the "
    "vectors are installed.",
    type=Member(SearchStrategy),
    default=SearchStrategy.auto,
)
always_load = click.option(
    "--always-load",
    metavar="NAME|GLOB",
    envvar="MCPAGENT_ALWAYS_LOAD",
    help="Offer these tools from the first request on: a tool's name, a glob, or SERVER.GLOB. Repeatable.",
    multiple=True,
)
approve = click.option(
    "--approve",
    envvar="MCPAGENT_APPROVE",
    help="Calls that no rule decides: ask about them (where nobody can be asked: deny), safe: deny them, all: run "
    "them. Tools that only read run in ask and safe, of servers that you trust. none: deny also these.",
    type=Member(ApproveMode),
    default=ApproveMode.ask,
)
allow = click.option(
    "--allow",
    metavar="SERVER.TOOL",
    envvar="MCPAGENT_ALLOW",
    help="Run these tools without asking; a glob such as 'github.*' too. Repeatable.",
    multiple=True,
)
deny = click.option(
    "--deny",
    metavar="SERVER.TOOL",
    envvar="MCPAGENT_DENY",
    help="Never run these tools, whatever else is said; a glob too. Repeatable.",
    multiple=True,
)
yes = click.option(
    "--yes",
    envvar="MCPAGENT_YES",
    help="The same as --approve all.",
    is_flag=True,
)
denied_ok = click.option(
    "--denied-ok",
    envvar="MCPAGENT_DENIED_OK",
    help="Exit code 0, not 6, where a call was denied.",
    is_flag=True,
)
trust_project = click.option(
    "--trust-project",
    envvar="MCPAGENT_TRUST_PROJECT",
    help="Start the servers of the project's .mcp.json without a question; else each needs one yes as it is.",
    is_flag=True,
)
learn = click.option(
    "--learn",
    envvar="MCPAGENT_LEARN",
    help="Keep what was searched, added and called on this machine, and rank by it; see mcpagent tools learned.",
    is_flag=True,
)
trust_changes = click.option(
    "--trust-changes",
    envvar="MCPAGENT_TRUST_CHANGES",
    help="Call tools also where their server changed what it says about them since they were first used.",
    is_flag=True,
)
max_turns = click.option(
    "--max-turns",
    metavar="N",
    envvar="MCPAGENT_MAX_TURNS",
    help="Answers of the model per question; then one last answer without tools, and exit code 7.",
    type=click.IntRange(min=1),
    default=100,
)
max_tokens = click.option(
    "--max-tokens",
    metavar="N",
    envvar="MCPAGENT_MAX_TOKENS",
    help="No further request once the answer took so many tokens, in and out; exit code 7.",
    type=click.IntRange(min=1),
)
max_cost = click.option(
    "--max-cost",
    metavar="DOLLARS",
    envvar="MCPAGENT_MAX_COST",
    help="No further request once the answer cost so much (US); exit code 7.",
    type=Amount(min=0),
)
json_schema = click.option(
    "--json-schema",
    metavar="FILE",
    envvar="MCPAGENT_JSON_SCHEMA",
    help="The answer is one JSON document that fits this JSON Schema; the model gets three attempts.",
    type=FILE,
)
estimate = click.option(
    "--estimate",
    envvar="MCPAGENT_ESTIMATE",
    help="Say what the first request would be and what it costs, and do not make it.",
    is_flag=True,
)
record = click.option(
    "--record",
    metavar="FILE",
    envvar="MCPAGENT_RECORD",
    help="Write down what the model is sent and says and what the tools give, without secrets; for --replay.",
    type=FILE,
)
replay = click.option(
    "--replay",
    metavar="FILE",
    envvar="MCPAGENT_REPLAY",
    help="Take all answers of the model and the tools from a recording: no network, no key, no server.",
    type=FILE,
)
timeout = click.option(
    "--timeout",
    metavar="SECONDS",
    envvar="MCPAGENT_TIMEOUT",
    help="Stop after so many seconds, with exit code 124; in chat, for each question.",
    type=Amount(min=0.1),
)
status_line = click.option(
    "--status-line",
    metavar="COMMAND",
    envvar="MCPAGENT_STATUS_LINE",
    help="A command that makes the status line: it gets JSON on stdin and prints one line.",
    default="",
)
quiet = click.option(
    "--quiet",
    "-q",
    envvar="MCPAGENT_QUIET",
    help="On stderr only what went wrong.",
    is_flag=True,
)
verbose = click.option(
    "--verbose",
    "-v",
    envvar="MCPAGENT_VERBOSE",
    help="Tell every step on stderr, also in a pipe.",
    is_flag=True,
)
debug = click.option(
    "--debug",
    envvar="MCPAGENT_DEBUG",
    help="Tracebacks and the log of the libraries on stderr.",
    is_flag=True,
)
color = click.option(
    "--color",
    envvar="MCPAGENT_COLOR",
    help="Default: on a terminal, unless NO_COLOR is set or TERM is dumb.",
    type=Member(ColorMode),
    default=ColorMode.auto,
)
refresh = click.option(
    "--refresh",
    help="Ask the servers again; else lists of the last seven days are read from the cache.",
    is_flag=True,
)
json = click.option("--json", help="One JSON document on stdout.", is_flag=True)


def together(*declarations: Declaration) -> Declaration:
    """Several options as one decorator; on the help page they stand in this order."""

    def declare(command: Any) -> Any:
        for declaration in reversed(declarations):
            command = declaration(command)
        return command

    return declare


report = together(json, debug, color)
"""For a command that prints a report."""

of_servers = together(config, server, trust_project, refresh, report)
"""For a command that looks at the servers' tools."""


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


def options_of(given: Mapping[str, Any]) -> Options:
    """The options among the values that a command was given; `--yes` and `--json` are short for others."""
    values = {item.name: given[item.name] for item in fields(Options) if item.name in given}
    if "server" in values:
        values["server"] = servers_asked_for(values["server"], os.environ)
    if given.get("yes"):
        values["approve"] = ApproveMode.all
    if given.get("json"):
        values["output"] = OutputFormat.json
    return Options(**values)


def servers_asked_for(server: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """`--server` values, else the lines of MCPAGENT_SERVER (a command has spaces, so they cannot divide servers)."""
    lines = server or environ.get("MCPAGENT_SERVER", "").splitlines()
    return tuple(line.strip() for line in lines if line.strip())
