"""The options that commands share: each is declared once, for the command line and as a field of `Options`."""

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
"""Arguments of every `typer.Typer`: no markup, no boxes, no tracebacks by typer; help pages of at most 100 columns."""

SETTING = "--set "
"""The prefix of the names of options without a flag, which only `--set` can set."""

LARGEST = 10**12
"""The largest number that an option accepts. Help pages show it."""


ToolSearchMode: TypeAlias = Literal["auto", "on", "off"]
"""When tool search is on."""

SearchStrategy: TypeAlias = Literal[
    "auto", "bm25", "hybrid", "sentences", "multilingual", "regex"
]
"""The ranking of tool search: see `mcpagent.ToolSearch.strategy`."""

ModelSize: TypeAlias = Literal["small", "large"]
ApproveMode: TypeAlias = Literal["ask", "safe", "all", "none"]
"""The default decision on calls that no rule matches: see `mcpagent.cli.approvals.approver`."""

WriteScope: TypeAlias = Literal["user", "project"]
"""The file to change: the user's own `mcp.json`, or the project's `.mcp.json`."""

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
"""MCP clients from which `mcp import` imports servers, in the order in which a name is searched."""

TokensBy: TypeAlias = Literal["server", "tool"]
"""The grouping of `tools tokens`."""

Shell: TypeAlias = Literal["bash", "zsh", "fish", "pwsh"]
"""Shells with a completion script."""

OutputFormat: TypeAlias = Literal["text", "json", "stream-json"]
"""The format of stdout: the answer as text, one JSON document, or one JSON document per event."""

ColorMode: TypeAlias = Literal["auto", "always", "never"]
"""When to use colours; auto: on a terminal that supports them."""


def one_of(choices: Any) -> str:
    """Return the values of a `Literal` as an option's metavar, which help and completion use: `auto|on|off`."""
    return "|".join(get_args(choices))


def _option(default: Any, *short: str, **declared: Any) -> Any:
    """Return a field of `Options` that is an option: `--its-name` and `short`; the variable MCPAGENT_ITS_NAME also sets
    it.

    `declared` is for `typer.Option`; `envvar=None`: no variable sets the option. `named`: the spelling of the option if
    it differs from the field. `usual`: the effective default if neither the user nor a card sets the option; the field
    is then None.
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
        "Default: the first of Anthropic, OpenAI, Gemini, OpenRouter with a key, else offline.",
    )
    thinking: str | None = _option(
        None,
        is_setting=True,
        metavar="LEVEL|TOKENS",
        help="The thinking effort: off, minimal, low, medium, high, xhigh, max, or a maximum number of tokens.",
    )
    profile: ModelSize | None = _option(
        None,
        is_setting=True,
        metavar="small|large",
        help="Settings for a small model: mcpagent prefetches tools for it and uses a short prompt. Default: by "
        "the model's window and size, and for a server of your own by its name.",
    )
    set: tuple[str, ...] = _option(
        (),
        envvar=None,
        metavar="NAME=VALUE",
        help="A setting of the model: temperature=0, top_p=.9, stop=END, seed=1, cache_ttl=1h, header.X-Name=v, "
        "... Repeatable. After a model's name it applies to that model only: -m 'NAME?temperature=0'. "
        "[MCPAGENT_SET]",
    )
    system: str = _option(
        "",
        "-s",
        metavar="TEXT",
        help="The model's instructions, in place of the built-in ones and those of a card.",
    )
    append_system: str = _option(
        "", metavar="TEXT", help="Instructions in addition to the others."
    )
    instruction: Path | None = _option(
        None, metavar="FILE", help="Like --system, with the text of a file."
    )
    card: Path | None = _option(
        None,
        metavar="FILE|FOLDER",
        help="An agent card, or a folder of them: its model, servers and instruction instead of those found here.",
    )
    config: tuple[Path, ...] = _option(
        (),
        metavar="FILE",
        help="A file of servers (mcpServers JSON). It replaces .mcp.json and mcp_servers.json of the folders up to "
        "the git root, and the user's mcp.json. Repeatable.",
    )
    server: tuple[str, ...] = _option(
        (),
        envvar=None,
        metavar="NAME='COMMAND'|NAME=URL",
        help="One more server: a command to start, or an address. Repeatable. [MCPAGENT_SERVER]",
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
        help="Code mode: the model calls found tools as functions in Python programs, which are type-checked and "
        "run in a sandbox; needs mcpagent[code].",
    )
    search_strategy: SearchStrategy = _option(
        "auto",
        is_setting=True,
        help="The ranking: words (bm25), words and word vectors (hybrid), an English sentence encoder (sentences), "
        "an encoder for 16 languages (multilingual), or regex; auto: the best installed one.",
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
        help="Record searches, added tools and calls on this machine, and rank by them; see mcpagent tools "
        "learned.",
    )
    approve: ApproveMode = _option(
        "ask",
        help="Calls without a matching rule. ask: ask about them, or deny them without a terminal. safe: deny "
        "them. all: run them. In ask and safe, tools that only read run if you trust their server. none: deny "
        "these too.",
    )
    allow: tuple[str, ...] = _option(
        (),
        metavar="SERVER.TOOL",
        help="Run these without asking: 'github.get_*' are tools, @github:URI is a resource, /github:NAME a "
        "prompt, 'github.*' all of the server. Repeatable.",
    )
    deny: tuple[str, ...] = _option(
        (),
        metavar="SERVER.TOOL",
        help="Deny these, regardless of other rules, and names with a similar spelling. A name without a server "
        "applies to every server. Repeatable.",
    )
    denied_ok: bool = _option(
        False, is_setting=True, help="Exit code 0, not 6, when a call was denied."
    )
    trust_changes: bool = _option(
        False,
        help="Call tools even if their server changed their definition since the first use.",
    )
    trust_project: bool = _option(
        False,
        help="Consent to the files of the project and to cards, without a question. Otherwise each needs your "
        "consent once.",
    )
    refresh: bool = _option(
        False,
        envvar=None,
        help="Read the lists from the servers, not from the cache, which has lists of the last seven days.",
    )
    max_turns: int | None = _option(
        None,
        usual=100,
        metavar="N",
        min=1,
        max=LARGEST,
        help="Maximum number of answers of the model per question. Then the model answers once more without tools; "
        "exit code 7.",
    )
    max_calls: int | None = _option(
        None,
        is_setting=True,
        metavar="N",
        min=1,
        max=LARGEST,
        help="Maximum number of tool calls per question, without search_tools and similar. Then the model answers "
        "once more without tools; exit code 7.",
    )
    context_window: int | None = _option(
        None,
        is_setting=True,
        metavar="TOKENS",
        min=1_000,
        max=LARGEST,
        help="The context window of the model in tokens, if it is unknown or should be smaller. From 80 % of it "
        "on, the conversation is compacted.",
    )
    large_result_tokens: int | None = _option(
        None,
        is_setting=True,
        usual=10_000,
        metavar="TOKENS",
        min=0,
        max=LARGEST,
        help="A larger tool result is offloaded, and the model reads it in parts; 0: never.",
    )
    max_tokens: int | None = _option(
        None,
        is_setting=True,
        metavar="N",
        min=1,
        max=LARGEST,
        help="Maximum number of input and output tokens per question. Then the run ends with the text so far; exit "
        "code 7.",
    )
    max_cost: float | None = _option(
        None,
        metavar="DOLLARS",
        min=0,
        max=LARGEST,
        help="Maximum cost per question in US dollars; otherwise like max_tokens.",
    )
    max_seconds: float | None = _option(
        None,
        is_setting=True,
        metavar="SECONDS",
        min=0.1,
        max=LARGEST,
        help="Maximum time per question in seconds, without the time in which you are asked. Then the active "
        "request or call is cancelled. With --timeout there is no answer.",
    )
    json_schema: Path | None = _option(
        None,
        metavar="FILE",
        help="The answer is one JSON document that matches this JSON Schema. If it does not match, the model is "
        "asked once more.",
    )
    dry_run: bool = _option(
        False,
        help="Report the first request and its cost, and do not send it.",
    )
    record: Path | None = _option(
        None,
        metavar="FILE",
        help="Record requests, answers and results of calls in a file, without known secrets; for --replay.",
    )
    replay: Path | None = _option(
        None,
        metavar="FILE",
        help="Replay a recording instead of using a model and tools: no network, no key, no server.",
    )
    sessions: bool = _option(
        True,
        named=" /--no-session",
        help="Do not store this chat. Otherwise it is stored, for --continue and --resume.",
    )
    session_db: str | None = _option(
        None,
        is_setting=True,
        metavar="FILE|postgresql://...",
        help="The store of conversations. Default: sessions.db in your data folder, see mcpagent config path.",
    )
    docs_db: str | None = _option(
        None,
        is_setting=True,
        metavar="FILE",
        help="The store of documents. Default: documents.db in your data folder, see mcpagent config path.",
    )
    continue_last: bool = _option(
        False,
        "-c",
        named="--continue",
        envvar=None,
        help="Continue the last used conversation of this folder.",
    )
    resume: str | None = _option(
        None,
        "-r",
        envvar=None,
        metavar="[ID|WORDS]",
        help="Continue a stored conversation: its ID, the beginning of the ID, or words of it. Without a value you "
        "choose from a list.",
    )
    session: str | None = _option(
        None,
        envvar=None,
        metavar="ID",
        help="Continue the conversation with this ID, or begin one with it.",
    )
    timeout: float | None = _option(
        None,
        metavar="SECONDS",
        min=0.1,
        max=LARGEST,
        help="Stop after this many seconds, with exit code 124; in chat, for each question.",
    )
    server_wait: float = _option(
        30.0,
        is_setting=True,
        metavar="SECONDS",
        min=0,
        max=LARGEST,
        help="How long a question, or doctor, waits for servers that are still connecting. Then it continues "
        "without them.",
    )
    output: OutputFormat = _option("text", "-o", help="The format of stdout.")
    no_stream: bool = _option(
        False, help="Print the answer when it is complete, not as it arrives."
    )
    quiet: bool = _option(False, "-q", help="Print only problems on stderr.")
    verbose: bool = _option(
        False, "-v", help="Report every step on stderr, also in a pipe."
    )
    debug: bool = _option(
        False, help="Print tracebacks and the log of libraries on stderr."
    )
    color: ColorMode = _option(
        "auto", help="Default: on a terminal, unless NO_COLOR is set or TERM is dumb."
    )
    status_line: str = _option(
        "",
        is_setting=True,
        metavar="COMMAND",
        help="A command for the status line: it gets JSON on stdin and prints one line.",
    )
    at_once: int = _option(
        10,
        is_setting=True,
        metavar="N",
        min=1,
        max=LARGEST,
        help="Maximum number of runs at the same time, for all workers together.",
    )
    per_user: int | None = _option(
        None,
        is_setting=True,
        metavar="N",
        min=1,
        max=LARGEST,
        help="Maximum number of runs of one user at the same time.",
    )
    per_minute: int | None = _option(
        None,
        is_setting=True,
        metavar="N",
        min=1,
        max=LARGEST,
        help="Maximum number of runs that begin in a minute.",
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
    """The project's settings file that chose `model`; None if the model comes from elsewhere."""
    own_model: str | None = None
    """The model of the user's own settings, if a project's settings override it; otherwise None."""

    @property
    def environ_with_keys(self) -> Mapping[str, str]:
        """The environment with the keys of `mcpagent keys set`; a variable that is set goes first."""
        from mcpagent.config.secret_store import with_stored_keys

        return with_stored_keys(self.environ)


_FIELDS = {item.name: item for item in fields(Options)}


def _declarations() -> Iterator[tuple[str, Any]]:
    """Yield each option's name and its declaration for typer; an unset list is None there."""
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
        typer.Option("--yes", envvar="MCPAGENT_YES", help="Like --approve all."),
    ],
    "json": Annotated[
        bool, typer.Option("--json", help="Print one JSON document on stdout.")
    ],
}
"""Declarations of the shared options by the field of `Options`; `yes` and `json` are short for other options."""

QUIET = ("debug", "color")
"""Options of commands with little output."""

REPORT = ("json", *QUIET)
"""Options of a command that prints a report."""

OF_SERVERS = ("config", "server", "openapi", "trust_project", "refresh", *REPORT)
"""Options of a command that lists the servers' tools."""

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
"""The shared options that a help page lists; `--help all` also lists the others."""

Command: TypeAlias = Callable[..., int]


def command(
    app: typer.Typer, name: str, names: Sequence[str], **others: Any
) -> Callable[[Command], Command]:
    """Return a decorator that adds a command of this name to a group, with the options of `taking`."""

    def add(function: Command) -> Command:
        return app.command(name)(taking(names, **others)(function))

    return add


def taking(names: Sequence[str], **others: Any) -> Callable[[Command], Command]:
    """Return a decorator that gives a command these shared options in addition to its own parameters.

    The command receives all of them as `options`. `others` are options that this command declares differently: the
    field's name, and a typer annotation.
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
        if not takes_context:  # typer passes its context to the command
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
    """Return whether only `--set`, a file or a variable can set an option: such an option has no flag."""
    return name in _FIELDS and _FIELDS[name].metadata.get("is_setting", False)


def _apply_settings(chosen: dict[str, Any], context: typer.Context) -> None:
    """Move each `--set NAME=VALUE` of the command line that names an option into that option.

    Settings of the model remain in `set`. Raises typer's error for an invalid value.
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
"""Short options: name, the option that each sets, and the value."""


def _without_contradictions(
    given: Mapping[str, Any], context: typer.Context
) -> dict[str, Any]:
    """Return the options without contradictions: the command line precedes variables, which precede settings.

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
    """Return the `Options` for these values; `--yes` and `--json` are short for other options."""
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
        # The variable has one server per line, because commands contain spaces.
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
    """Return the first spelling of an option; for an option that only turns something off, the `--no-...` spelling."""
    names: list[str] = [*option.opts, *option.secondary_opts]
    return names[0]


def flags_of(option: Any) -> list[str]:
    """Return the flags of an option; [] for an option that only `--set` sets."""
    names = [*option.opts, *option.secondary_opts]
    return [name for name in names if not name.startswith(SETTING)]


def is_listed(option: Any) -> bool:
    """Return whether a short help page lists an option: it is used often, or declared by the command itself."""
    if option.hidden or not flags_of(option):
        return False
    shared = SHARED.get(option.name)
    if shared is None or option.name in COMMON:
        return True
    return bool(option.help != get_args(shared)[1].help)
