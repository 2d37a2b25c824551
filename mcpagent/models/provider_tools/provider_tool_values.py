"""Tools that a provider runs, as the same values for all providers: `Agent(tools=[WebSearch(max_uses=3),
my_function])`.

`provider_tool_forms.py` writes them for each model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from types import NoneType
from typing import Any, ClassVar, TypeAlias, get_args
from urllib.parse import urlsplit

from mcpagent.errors import ConfigError
from mcpagent.utilities.python.argument_checks import expect
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import (
    Secret,
    hide,
    revealed,
    secrets_in_server_address,
)

_REFERENCE = re.compile(r"\$\{[^{}]+\}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Location:
    """The approximate location of the user: `country` in two letters, `timezone` such as "Europe/Paris"."""

    city: str = ""
    region: str = ""
    country: str = ""
    timezone: str = ""

    def __post_init__(self) -> None:
        for item in fields(self):
            expect(f"Location.{item.name}", getattr(self, item.name), str, "a text")


@dataclass(frozen=True, slots=True)
class WebSearch:
    """The model searches the web at its provider; its answer cites the sources (`Text.citations`).

    `max_uses` limits the searches in one request. Only one of `allowed_domains` and `blocked_domains` may be set; each
    domain is a host such as "example.com", with or without a path.
    """

    max_uses: int | None = None
    allowed_domains: Sequence[str] = ()
    blocked_domains: Sequence[str] = ()
    location: Location | None = None

    kind: ClassVar[str] = "web_search"

    def __post_init__(self) -> None:
        _check_number(self, "max_uses")
        _check_domains(self)
        expect(
            "WebSearch.location",
            self.location,
            (Location, NoneType),
            "Location(...) or None",
        )

    @property
    def name(self) -> str:
        """The tool's name for the model."""
        return self.kind


@dataclass(frozen=True, slots=True)
class WebFetch:
    """The model reads web pages and PDF files at its provider, if their address is in the conversation.

    `max_uses` limits the pages in one request, `max_content_tokens` each page. Domains are as in `WebSearch`.
    `citations`: the answer cites the passages.
    """

    max_uses: int | None = None
    allowed_domains: Sequence[str] = ()
    blocked_domains: Sequence[str] = ()
    max_content_tokens: int | None = None
    citations: bool = True

    kind: ClassVar[str] = "web_fetch"

    def __post_init__(self) -> None:
        _check_number(self, "max_uses")
        _check_number(self, "max_content_tokens")
        _check_domains(self)
        expect("WebFetch.citations", self.citations, bool, "True or False")

    @property
    def name(self) -> str:
        """The tool's name for the model."""
        return self.kind


@dataclass(frozen=True, slots=True)
class CodeExecution:
    """The model runs code in a container of its provider, which the conversation reuses until it expires."""

    kind: ClassVar[str] = "code_execution"

    @property
    def name(self) -> str:
        """The tool's name for the model."""
        return self.kind


@dataclass(frozen=True, slots=True)
class FileSearch:
    """The model searches the provider's own `stores` of files (OpenAI: IDs of vector stores)."""

    stores: Sequence[str]
    max_results: int | None = None

    kind: ClassVar[str] = "file_search"

    def __post_init__(self) -> None:
        _check_texts(self, "stores")
        expect(
            "FileSearch.stores", self.stores, tuple, "at least one store", holds=bool
        )
        _check_number(self, "max_results")

    @property
    def name(self) -> str:
        """The tool's name for the model."""
        return self.kind


@dataclass(frozen=True, slots=True)
class ProviderMcp:
    """A remote MCP server that the model's provider calls, not mcpagent: its calls run without approval.

    `authorization` is a reference to the token that the provider sends to the server: `${NAME}` for the environment (or
    `mcpagent keys set NAME`), or `${keyring:name}`. It is read for each request and never recorded. A literal token,
    and an address with a key in it, are a `Secret`. `allowed_tools`: the tools that the model may call; empty: all.
    `description` is for the model, if the provider supports it.
    """

    name: str
    url: str | Secret
    authorization: str | Secret = ""
    allowed_tools: Sequence[str] = ()
    description: str = ""

    kind: ClassVar[str] = "mcp"

    def __post_init__(self) -> None:
        said = "1 to 64 letters, digits, _ or -, a letter first"
        expect(
            "ProviderMcp.name",
            self.name,
            str,
            said,
            holds=lambda name: bool(_NAME.fullmatch(name)),
        )
        address = revealed(self.url)
        expect(
            "ProviderMcp.url",
            address,
            str,
            'an address, "https://..."',
            holds=_is_remote,
        )
        if "@" in urlsplit(address).netloc:
            raise ConfigError(
                "ProviderMcp.url: holds a user or password, which is shown; write authorization instead"
            )
        token = revealed(self.authorization)
        expect("ProviderMcp.authorization", token, str, "a text")
        expect("ProviderMcp.description", self.description, str, "a text")
        _check_texts(self, "allowed_tools")
        if not self.is_referred_to:
            hide(token)
            object.__setattr__(self, "authorization", Secret(token))
        if private := tuple(secrets_in_server_address(address)):
            hide(*private)
            object.__setattr__(self, "url", Secret(address))

    @property
    def is_referred_to(self) -> bool:
        """Return whether the token is missing or only a reference, so that it may be written into a card."""
        return not _REFERENCE.sub("", revealed(self.authorization)).strip()


ProviderTool: TypeAlias = (
    WebSearch | WebFetch | CodeExecution | FileSearch | ProviderMcp
)
"""A tool that a model's provider runs."""

KINDS: Mapping[str, type[ProviderTool]] = {
    kind.kind: kind for kind in get_args(ProviderTool)
}
"""Provider tools by their name in cards and on the command line."""

CODE_NAMES = frozenset(
    {"code_execution", "bash_code_execution", "text_editor_code_execution"}
)
"""Names of calls of Anthropic's code execution: one tool in the request has three names in calls."""


def _is_remote(url: Any) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return (
        parts.scheme == "https"
        and bool(parts.hostname)
        and url.isprintable()
        and " " not in url
    )


def _check_number(tool: object, name: str) -> None:
    place = f"{type(tool).__name__}.{name}"
    said = "a whole number from 1, or None"
    expect(
        place,
        getattr(tool, name),
        (int, NoneType),
        said,
        holds=lambda most: most is None or most >= 1,
    )


def _check_texts(tool: object, name: str) -> None:
    """Check a list of texts, and convert it to a tuple, because the values are compared and hashed."""
    value = getattr(tool, name)
    place = f"{type(tool).__name__}.{name}"
    expect(
        place,
        value,
        (list, tuple),
        "a list of texts",
        holds=lambda all_: all(isinstance(one, str) for one in all_),
    )
    expect(
        place,
        value,
        (list, tuple),
        "texts that are not empty",
        holds=lambda all_: all(one.strip() for one in all_),
    )
    object.__setattr__(tool, name, tuple(value))


def _check_domains(tool: WebSearch | WebFetch) -> None:
    kind = type(tool).__name__
    for name in ("allowed_domains", "blocked_domains"):
        _check_texts(tool, name)
        for domain in getattr(tool, name):
            if "://" in domain or not domain.isprintable() or " " in domain:
                host = ""
                if "://" in domain:
                    host = urlsplit(domain).netloc
                fix = 'write a host, "example.com"'
                if host:
                    fix = f'write "{safe_line(host, 60)}"'
                raise ConfigError(
                    f'{kind}.{name}: "{safe_line(domain, 80)}" is no domain; {fix}'
                )
    if tool.allowed_domains and tool.blocked_domains:
        raise ConfigError(
            f"{kind}: allowed_domains and blocked_domains exclude each other; give one of them"
        )


def expect_distinct(tools: Iterable[ProviderTool]) -> tuple[ProviderTool, ...]:
    """Return the tools. Raises `ConfigError` if two tools have the same name."""
    listed = tuple(tools)
    seen: set[str] = set()
    for tool in listed:
        if tool.name in seen:
            other = "give it once"
            if isinstance(tool, ProviderMcp):
                other = "give the servers different names"
            raise ConfigError(
                f'tools: {type(tool).__name__} "{tool.name}" is given twice; {other}'
            )
        seen.add(tool.name)
    return listed


def names_taken(tools: Iterable[ProviderTool]) -> frozenset[str]:
    """Return the names that no client tool may use together with these."""
    taken: set[str] = set()
    for tool in tools:
        if isinstance(tool, CodeExecution):
            taken |= CODE_NAMES
        elif not isinstance(tool, ProviderMcp):
            taken.add(tool.name)
    return frozenset(taken)


# -- Provider tools as data --------------------------------------------------------------------------------------------


def provider_tool_of(kind: object, options: object, where: str) -> ProviderTool:
    """Return the provider tool of this kind with these options, from JSON or YAML.

    Raises `ConfigError`; `where` is the beginning of its message.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        shown = safe_line(str(kind), 60)
        raise ConfigError(
            f'{where}: no tool of a provider is called "{shown}"; write one of {", ".join(KINDS)}'
        )
    made = KINDS[kind]
    known = {item.name: item for item in fields(made)}
    if not isinstance(options, Mapping):
        raise ConfigError(
            f"{where}: the options of {kind} must be a mapping, got {type(options).__name__}"
        )
    if unknown := sorted(str(name) for name in options if name not in known):
        takes = "it takes none"
        if known:
            takes = f"it takes {', '.join(known)}"
        raise ConfigError(
            f'{where}: {kind} has no option "{safe_line(unknown[0], 60)}"; {takes}'
        )
    needed = [
        name
        for name, item in known.items()
        if item.default is MISSING and item.default_factory is MISSING
    ]
    if missing := [name for name in needed if name not in options]:
        raise ConfigError(f'{where}: {kind} needs "{missing[0]}"')
    values = dict(options)
    if isinstance(location := values.get("location"), Mapping):
        values["location"] = _location(location, where)
    try:
        return made(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _location(options: Mapping[Any, Any], where: str) -> Location:
    known = [item.name for item in fields(Location)]
    if unknown := [name for name in options if name not in known]:
        shown = safe_line(str(unknown[0]), 60)
        raise ConfigError(
            f'{where}: location has no "{shown}"; it takes {", ".join(known)}'
        )
    try:
        return Location(**options)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def provider_tools_of(listed: object, where: str) -> tuple[ProviderTool, ...]:
    """Return the provider tools in a list of names, or of mappings from a name to options. Raises `ConfigError`."""
    if not isinstance(listed, list | tuple):
        raise ConfigError(
            f"{where}: must be a list, got {type(listed).__name__}; write [web_search]"
        )
    tools: list[ProviderTool] = []
    for place, item in enumerate(listed):
        here = f"{where}[{place}]"
        if isinstance(item, str):
            tools.append(provider_tool_of(item, {}, here))
        elif isinstance(item, Mapping) and len(item) == 1:
            [(kind, options)] = item.items()
            tools.append(
                provider_tool_of(kind, options if options is not None else {}, here)
            )
        else:
            raise ConfigError(
                f"{here}: must be a name, or one name with its options: web_search: {{max_uses: 3}}"
            )
    return expect_distinct(tools)


def as_data(tool: ProviderTool, *, with_token: bool = True) -> str | dict[str, Any]:
    """Return the tool in the form that `provider_tools_of` reads; without `with_token`, its token is omitted."""
    options: dict[str, Any] = {}
    for item in fields(tool):
        value = getattr(tool, item.name)
        if value == item.default or (item.name == "authorization" and not with_token):
            continue
        if isinstance(value, Location):
            value = {
                part.name: text
                for part in fields(value)
                if (text := getattr(value, part.name))
            }
        if isinstance(value, tuple):
            options[item.name] = list(value)
        else:
            options[item.name] = revealed(value)
    if options:
        return {tool.kind: options}
    return tool.kind
