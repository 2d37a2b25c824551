"""The options that commands share: each declared once, for the command line and as a field of one value."""

# ruff: noqa: RUF009 - `_option` makes a field
from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
)

import typer

from mcpagent.utilities.text.safe_text import safe_line

PLAIN: dict[str, Any] = {
    "add_completion": False,
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
}
"""For every `typer.Typer`: no markup, no boxes, no tracebacks of its own; help pages of at most 100 columns."""

SETTING = "--set "
"""The beginning of the name of an option that only `--set NAME=VALUE` sets."""

LARGEST = 10**12
"""The largest number that an option accepts. Help pages show it."""


ToolSearchMode: TypeAlias = Literal["auto", "on", "off"]
"""When tools are searched for instead of all being offered."""

SearchStrategy: TypeAlias = Literal[
    "auto", "bm25", "hybrid", "sentences", "multilingual", "regex"
]
"""How tool search ranks: see `mcpagent.ToolSearch.strategy`."""

ModelSize: TypeAlias = Literal["small", "large"]
ApproveMode: TypeAlias = Literal["ask", "safe", "all", "none"]
"""What becomes of calls that no rule decides: see `mcpagent.cli.approvals.approver`."""

WriteScope: TypeAlias = Literal["user", "project"]
"""Whose file is changed: the user's own `mcp.json`, or the project's `.mcp.json`."""

Client: TypeAlias = Literal[
    "claude-desktop",
    "claude-code",
    "cursor",
    "vscode",
    "codex",
    "gemini",
    "goose",
    "windsurf",
    "zed",
]
"""Other MCP clients whose servers `mcp import` can take over, in the order in which a name is looked for."""

TokensBy: TypeAlias = Literal["server", "tool"]
"""What `tools tokens` sums up."""

Shell: TypeAlias = Literal["bash", "zsh", "fish", "pwsh"]
"""Shells that a completion script is written for."""

OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]
"""What stdout holds: the answer, one document, or one document per event."""

ColorMode: TypeAlias = Literal["auto", "always", "never"]
"""When colours are used; auto: on a terminal that has them."""


def one_of(choices: Any) -> str:
    """Return the values of a `Literal` as an option's metavar, which help and completion read: `auto|on|off`."""
    return "|".join(get_args(choices))


def _option(default: Any, *short: str, **declared: Any) -> Any:
    """Return a field of `Options` that is an option: `--its-name` and `short`, also set by MCPAGENT_ITS_NAME.

    `declared` is for `typer.Option`; `envvar=None`: no variable sets it. `named`: the spelling of the option if it
    differs from the field. `usual`: the effective default if neither the user nor a card sets the option; the field is
    then None.
    """
    return field(default=default, metadata={"short": short, **declared})


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a command, from the command line, its variables and the settings files."""

    model: str | None = _option(
        None,
        "-m",
        metavar="NAME",
        help="provider:model, such as anthropic:claude-sonnet-5-5, openai:gpt-5.5, ollama:qwen3; or offline. "
        "Default: the first provider whose key is set, else offline.",
    )
    thinking: str | None = _option(
        None,
        is_setting=True,
        metavar="LEVEL|TOKENS",
        help="How much the model thinks: off, minimal, low, medium, high, xhigh, max, or the most tokens for it.",
    )
    profile: ModelSize | None = _option(
        None,
        is_setting=True,
        metavar="small|large",
        help="Whether to work as suits a small model: it is given what its question finds, reads a short prompt and "
        "calls what it sees. Default: by the model's window, its size, and its name where it runs on your own server.",
    )
    set: tuple[str, ...] = _option(
        (),
        envvar=None,
        metavar="NAME=VALUE",
        help="A setting of the model: temperature=0, top_p=.9, stop=END, seed=1, cache_ttl=1h, header.X-Name=v, ... "
        "Repeatable. Behind a model's name it is for that one: -m 'NAME?temperature=0'. [MCPAGENT_SET]",
    )
    system: str = _option(
        "",
        "-s",
        metavar="TEXT",
        help="The model's instructions, in place of the built-in ones and those of a card.",
    )
    append_system: str = _option(
        "", metavar="TEXT", help="Instructions that are added to the others."
    )
    instruction: Path | None = _option(
        None, metavar="FILE", help="The same as --system with the text of a file."
    )
    card: Path | None = _option(
        None,
        metavar="FILE|FOLDER",
        help="An agent card, or a folder of them: its model, servers and instruction instead of those found here.",
    )
    config: tuple[Path, ...] = _option(
        (),
        metavar="FILE",
        help="Servers to use (mcpServers JSON) instead of those found in .mcp.json or mcp_servers.json from here up to "
        "the git root and in the user's mcp.json. Repeatable.",
    )
    server: tuple[str, ...] = _option(
        (),
        envvar=None,
        metavar="NAME='COMMAND'|NAME=URL",
        help="One more server: a command that is started, or an address. Repeatable. [MCPAGENT_SERVER]",
    )
    openapi: tuple[str, ...] = _option(
        (),
        metavar="[NAME=]FILE|URL",
        help="One more server: an HTTP API, by its OpenAPI document. Repeatable.",
    )
    tool_search: ToolSearchMode = _option(
        "auto",
        help="Let the model search for tools instead of offering all; auto: if that costs less.",
    )
    code: bool = _option(
        False,
        help="Code mode: the model calls the tools it finds as functions in Python programs, which run in a sandbox "
        "and are checked before; needs mcpagent[code].",
    )
    search_strategy: SearchStrategy = _option(
        "auto",
        is_setting=True,
        help="How a search ranks: by words (bm25), with word vectors besides (hybrid), with an English sentence "
        "encoder (sentences), in 16 languages (multilingual), or regex; auto: the best that is installed.",
    )
    always_load: tuple[str, ...] = _option(
        (),
        is_setting=True,
        metavar="NAME|GLOB",
        help="Offer these tools from the first request on: a tool's name, a glob, or SERVER.GLOB. Repeatable.",
    )
    provider_tool: tuple[str, ...] = _option(
        (),
        is_setting=True,
        envvar=None,
        metavar="NAME|NAME=JSON",
        help="A tool that the model's provider runs by itself: web_search, web_fetch, code_execution, file_search, or "
        "mcp; with options 'web_search={\"max_uses\": 3}'. Repeatable. [MCPAGENT_PROVIDER_TOOL]",
    )
    learn: bool = _option(
        False,
        is_setting=True,
        help="Keep what was searched, added and called on this machine, and rank by it; see mcpagent tools learned.",
    )
    approve: ApproveMode = _option(
        "ask",
        help="Calls that no rule decides: ask about them (deny them if nobody can be asked), safe: deny them, all: run "
        "them. Tools that only read run in ask and safe, of servers that you trust. none: deny also these.",
    )
    allow: tuple[str, ...] = _option(
        (),
        metavar="SERVER.TOOL",
        help="Run these without asking: 'github.get_*' are tools, @github:URI is a resource, /github:NAME a prompt, "
        "'github.*' all of the server. Repeatable.",
    )
    deny: tuple[str, ...] = _option(
        (),
        metavar="SERVER.TOOL",
        help="Never run these, whatever else is said, nor what is spelled alike. A name alone is for every server. "
        "Repeatable.",
    )
    denied_ok: bool = _option(
        False, is_setting=True, help="Exit code 0, not 6, when a call was denied."
    )
    trust_changes: bool = _option(
        False,
        help="Call tools also if their server changed what it says about them since they were first used.",
    )
    trust_project: bool = _option(
        False,
        help="Use what the project's .mcp.json, its .mcpagent.toml or a card asks for without a question; else each "
        "needs your consent once.",
    )
    refresh: bool = _option(
        False,
        envvar=None,
        help="Ask the servers again; else lists of the last seven days are read from the cache.",
    )
    max_turns: int | None = _option(
        None,
        usual=100,
        metavar="N",
        min=1,
        max=LARGEST,
        help="Answers of the model per question; then one last answer without tools, and exit code 7.",
    )
    max_calls: int | None = _option(
        None,
        is_setting=True,
        metavar="N",
        min=1,
        max=LARGEST,
        help="Calls of tools per question, of search_tools and the like not; then one last answer, and exit code 7.",
    )
    context_window: int | None = _option(
        None,
        is_setting=True,
        metavar="TOKENS",
        min=1_000,
        max=LARGEST,
        help="What the model takes, where it is not known or is to be less: from 80 % of it on, a conversation is made "
        "shorter.",
    )
    large_result_tokens: int | None = _option(
        None,
        is_setting=True,
        usual=10_000,
        metavar="TOKENS",
        min=0,
        max=LARGEST,
        help="A tool's result of more is kept beside the conversation, and read by the model in pieces; 0: never.",
    )
    max_tokens: int | None = _option(
        None,
        is_setting=True,
        metavar="N",
        min=1,
        max=LARGEST,
        help="No further request or call once the answer took so many tokens, in and out; what there is is the answer, "
        "and exit code 7.",
    )
    max_cost: float | None = _option(
        None,
        metavar="DOLLARS",
        min=0,
        max=LARGEST,
        help="The same once the answer cost so much (US).",
    )
    max_seconds: float | None = _option(
        None,
        is_setting=True,
        metavar="SECONDS",
        min=0.1,
        max=LARGEST,
        help="The same after so many seconds, without those in which you are asked; what is under way is cut off. With "
        "--timeout there is no answer.",
    )
    json_schema: Path | None = _option(
        None,
        metavar="FILE",
        help="The answer is one JSON document that fits this JSON Schema; one that does not is asked for once more.",
    )
    dry_run: bool = _option(
        False,
        help="Report the first request and its cost, and do not send it.",
    )
    record: Path | None = _option(
        None,
        metavar="FILE",
        help="Write down what the model is sent and says and what the tools give, without secrets; for --replay.",
    )
    replay: Path | None = _option(
        None,
        metavar="FILE",
        help="Take all answers of the model and the tools from a recording: no network, no key, no server.",
    )
    sessions: bool = _option(
        True,
        named=" /--no-session",
        help="Keep nothing of this chat; else it is kept, for --continue and --resume.",
    )
    session_db: str | None = _option(
        None,
        is_setting=True,
        metavar="FILE|postgresql://...",
        help="Where conversations are kept. Default: sessions.db in your data folder, see mcpagent config path.",
    )
    continue_last: bool = _option(
        False,
        "-c",
        named="--continue",
        envvar=None,
        help="Go on with the conversation that was last used in this folder.",
    )
    resume: str | None = _option(
        None,
        "-r",
        envvar=None,
        metavar="[ID|WORDS]",
        help="Go on with a kept conversation: its id, its beginning, or words of it; else you choose from a list.",
    )
    session: str | None = _option(
        None,
        envvar=None,
        metavar="ID",
        help="Go on with the conversation of this id, and keep it; one that is not there begins.",
    )
    timeout: float | None = _option(
        None,
        metavar="SECONDS",
        min=0.1,
        max=LARGEST,
        help="Stop after so many seconds, with exit code 124; in chat, for each question.",
    )
    server_wait: float = _option(
        30.0,
        is_setting=True,
        metavar="SECONDS",
        min=0,
        max=LARGEST,
        help="How long a question, or doctor, waits for servers that are still connecting; then they are left out.",
    )
    output: OutputFormat = _option("text", "-o", help="What stdout holds.")
    no_stream: bool = _option(
        False, help="Write the answer when it is complete, not as it arrives."
    )
    quiet: bool = _option(False, "-q", help="On stderr only what went wrong.")
    verbose: bool = _option(
        False, "-v", help="Report every step on stderr, also in a pipe."
    )
    debug: bool = _option(
        False, help="Tracebacks and the log of the libraries on stderr."
    )
    color: ColorMode = _option(
        "auto", help="Default: on a terminal, unless NO_COLOR is set or TERM is dumb."
    )
    status_line: str = _option(
        "",
        is_setting=True,
        metavar="COMMAND",
        help="A command that makes the status line: it gets JSON on stdin and prints one line.",
    )
    at_once: int = _option(
        10,
        is_setting=True,
        metavar="N",
        min=1,
        max=LARGEST,
        help="Runs of a worker at the same time, of all.",
    )
    per_user: int | None = _option(
        None,
        is_setting=True,
        metavar="N",
        min=1,
        max=LARGEST,
        help="Of those, one user's.",
    )
    per_minute: int | None = _option(
        None,
        is_setting=True,
        metavar="N",
        min=1,
        max=LARGEST,
        help="Runs that begin in a minute.",
    )
    client_id: str | None = _option(
        None,
        is_setting=True,
        metavar="ID",
        help="A client registered by hand, for a server that registers none. Its secret is read from "
        "MCPAGENT_CLIENT_SECRET.",
    )
    redirect_port: int = _option(
        0,
        is_setting=True,
        metavar="N",
        min=0,
        max=65535,
        help="The port of the redirect address of a sign-in; 0: any that is free.",
    )
    device_code: bool = _option(
        False,
        is_setting=True,
        help="Sign in with a code that you enter on another device (RFC 8628).",
    )
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    folder: Path = field(default_factory=Path.cwd)
    model_file: Path | None = None
    """The settings of a project that chose `model`."""
    own_model: str | None = None
    """The model of the user's own settings, where a project's chose another one."""


_FIELDS = {item.name: item for item in fields(Options)}


def _declarations() -> Iterator[tuple[str, Any]]:
    """Yield each option's declaration for typer; a list without a value is None there."""
    for name, kind in get_type_hints(Options).items():
        if declared := dict(_FIELDS[name].metadata):
            if get_origin(kind) is tuple:
                kind = list[get_args(kind)[0]] | None  # type: ignore[misc]
            if get_origin(kind) is Literal:
                declared.setdefault("metavar", one_of(kind))
            declared.setdefault("envvar", f"MCPAGENT_{name.upper()}")
            declared.pop("usual", None)
            names = (
                declared.pop("named", f"--{name.replace('_', '-')}"),
                *declared.pop("short"),
            )
            if declared.pop("is_setting", False):
                names = (f"{SETTING}{name}",)
            yield name, Annotated[kind, typer.Option(*names, **declared)]


SHARED: Mapping[str, Any] = {
    **dict(_declarations()),
    "yes": Annotated[
        bool,
        typer.Option("--yes", envvar="MCPAGENT_YES", help="The same as --approve all."),
    ],
    "json": Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout.")
    ],
}
"""Each shared option's declaration, by the field of `Options` that it sets; `yes` and `json` are short for others."""

QUIET = ("debug", "color")
"""For a command that says little."""

REPORT = ("json", *QUIET)
"""For a command that prints a report."""

OF_SERVERS = ("config", "server", "openapi", "trust_project", "refresh", *REPORT)
"""For a command that looks at the servers' tools."""

CATALOGUE = (
    "card",
    "config",
    "server",
    "openapi",
    "tool_search",
    "search_strategy",
    "always_load",
    "learn",
)
RULES = ("approve", "yes", "allow", "deny")

COMMON = frozenset(
    {
        *("model", "system", "continue_last", "resume"),
        *("config", "server", "allow", "output", "json"),
    }
)
"""The shared options that a help page lists; `--help all` adds the others."""

Command: TypeAlias = Callable[..., int]


def command(
    app: typer.Typer, name: str, names: Sequence[str], **others: Any
) -> Callable[[Command], Command]:
    """Return the command of this name in a group, with the options that `taking` gives it."""

    def add(function: Command) -> Command:
        return app.command(name)(taking(names, **others)(function))

    return add


def taking(names: Sequence[str], **others: Any) -> Callable[[Command], Command]:
    """Give a command these shared options besides its own parameters; it receives them all as `options`.

    `others` are declared otherwise than usual: the field's name, and an annotation as typer reads it.
    """
    declared = {**others, **{name: SHARED[name] for name in names}}
    if any(_is_setting(name) for name in names):
        declared.setdefault("set", SHARED["set"])
    sets_the_model = "set" in names

    def declare(command: Command) -> Command:
        own = [
            item
            for item in signature(command, eval_str=True).parameters.values()
            if item.name != "options"
        ]
        keyword = [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=_DEFAULTS.get(name, False),
                annotation=annotation,
            )
            for name, annotation in declared.items()
        ]
        parameters = [*own, *keyword]
        takes_context = any(item.annotation is typer.Context for item in own)
        if not takes_context:  # typer passes a context to a command
            parameters.append(
                Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
            )

        @wraps(command)
        def run(*, context: typer.Context, **given: Any) -> int:
            chosen = {name: given.pop(name) for name in declared}
            _apply_settings(chosen, context)
            if chosen.get("set") and not sets_the_model:
                known = ", ".join(name for name in declared if _is_setting(name))
                unknown = safe_line(chosen["set"][0], 60)
                raise typer.BadParameter(
                    f'--set "{unknown}" is no setting here; {context.command_path} takes {known}'
                )
            for name in chosen:
                if (
                    name in _FIELDS
                    and "usual" in _FIELDS[name].metadata
                    and _place(context, name) == _NOWHERE
                ):
                    chosen[name] = None
            options = _options_of(_without_contradictions(chosen, context))
            if options.model is not None and _place(context, "model") == _SETTINGS:
                file, own = (
                    context.lookup_default(name) for name in ("model_file", "own_model")
                )
                options = replace(
                    options, model_file=Path(file) if file else None, own_model=own
                )
            return command(
                options, **given, **({"context": context} if takes_context else {})
            )

        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {item.name: item.annotation for item in parameters}
        return run

    return declare


def _is_setting(name: str) -> bool:
    """Return whether only `--set`, a file or a variable sets an option: it has no flag."""
    return name in _FIELDS and _FIELDS[name].metadata.get("is_setting", False)


def _apply_settings(chosen: dict[str, Any], context: typer.Context) -> None:
    """Move each `--set NAME=VALUE` of the command line that names an option into that option.

    The settings of the model remain. Raises typer's error for an invalid value.
    """
    if _place(context, "set") != 0:
        return
    source = context.get_parameter_source("set")
    remaining: list[str] = []
    for pair in chosen["set"] or ():
        name, equals, value = pair.partition("=")
        name = name.strip().replace("-", "_")
        if not (equals and name in chosen and _is_setting(name)):
            remaining.append(pair)
            continue
        option: Any = next(item for item in context.command.params if item.name == name)
        if _place(context, name) == 0 and option.multiple:
            chosen[name] = [*chosen[name], value]
        else:
            given: Any = value
            if option.multiple:
                given = [value]
            try:
                chosen[name] = option.process_value(context, given)
            except typer.BadParameter as error:
                error.param, error.ctx = option, context
                raise
        if source is not None:
            context.set_parameter_source(name, source)
    chosen["set"] = remaining


_DEFAULTS = {
    name: item.metadata.get("usual", None if item.default == () else item.default)
    for name, item in _FIELDS.items()
}
_SETTINGS, _NOWHERE = 2, 3


_SHORT = (
    ("yes", "approve", "all"),
    ("json", "output", "json"),
    ("quiet", "verbose", False),
)
"""Each with the option that it says something of, and what."""


def _without_contradictions(
    given: Mapping[str, Any], context: typer.Context
) -> dict[str, Any]:
    """Return the options without contradictions: the command line precedes variables, and these precede settings.

    Raises `typer.BadParameter` for two contradicting options from the same source.
    """
    values = dict(given)
    for short, long, means in _SHORT:
        if not values.get(short) or long not in values or values[long] == means:
            continue
        places = {name: _place(context, name) for name in (short, long)}
        if places[short] == places[long]:
            if means is False:
                told = f"--{long}"
            else:
                told = f"--{long} {values[long]}"
            raise typer.BadParameter(
                f"--{short} and {told} contradict each other; write one of them"
            )
        weaker = max(places, key=places.__getitem__)
        if weaker == short:
            values[weaker] = False
        else:
            values[weaker] = means
    return values


def _place(context: typer.Context, name: str) -> int:
    """Return the source of an option's value: 0 command line, 1 variable, 2 settings, 3 none."""
    source = context.get_parameter_source(name)
    order = ("COMMANDLINE", "ENVIRONMENT", "DEFAULT_MAP")
    if source is not None and source.name in order:
        return order.index(source.name)
    return len(order)


def _options_of(given: Mapping[str, Any]) -> Options:
    """Return the value of these options; `--yes` and `--json` are short for others."""
    values: dict[str, Any] = {}
    for name in _FIELDS.keys() & given.keys():
        is_list = _FIELDS[name].default == ()
        if is_list:
            values[name] = tuple(given[name] or ())
        else:
            values[name] = given[name]
    if not all(text.strip() for text in values.get("server", ())):
        raise typer.BadParameter(
            "--server is empty; write NAME='command args' or NAME=URL"
        )
    for name in ("server", "set", "provider_tool"):
        # Of the variable one a line: a command has spaces, so they cannot divide servers.
        if name in values:
            lines = (
                values[name]
                or os.environ.get(f"MCPAGENT_{name.upper()}", "").splitlines()
            )
            values[name] = tuple(
                line if name == "set" else line.strip()
                for line in lines
                if line.strip()
            )
    if given.get("yes"):
        values["approve"] = "all"
    if given.get("json"):
        values["output"] = "json"
    return Options(**values)


def leaves(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every runnable command of a typer group, with the words that name it."""
    for name, item in command.commands.items():
        if hasattr(item, "commands"):
            yield from leaves(item, *path, name)
        else:
            yield (*path, name), item


def options_in(leaf: Any) -> list[Any]:
    """Return a command's options, without its arguments."""
    return [param for param in leaf.params if param.param_type_name == "option"]


def first_name(option: Any) -> str:
    """Return the first spelling of an option; one that only turns something off has no other."""
    names: list[str] = [*option.opts, *option.secondary_opts]
    return names[0]


def flags_of(option: Any) -> list[str]:
    """Return the flags of an option; an option that only `--set` sets has none."""
    names = [*option.opts, *option.secondary_opts]
    return [name for name in names if not name.startswith(SETTING)]


def is_listed(option: Any) -> bool:
    """Return whether a short help page lists an option: it is used much, or declared by the command itself."""
    if option.hidden or not flags_of(option):
        return False
    shared = SHARED.get(option.name)
    if shared is None or option.name in COMMON:
        return True
    return bool(option.help != get_args(shared)[1].help)
