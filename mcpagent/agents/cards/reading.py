"""Read agent cards. Every error names the file and the invalid field; missing or invalid values are not guessed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from mcpagent.agents.cards.card import (
    STRATEGIES,
    AgentCard,
    CardError,
    ToolSearchConfig,
)
from mcpagent.errors import ConfigError
from mcpagent.models.model_settings import SETTING_NAMES
from mcpagent.models.provider_tools.provider_tool_values import (
    ProviderTool,
    provider_tools_of,
)
from mcpagent.utilities.filesystem.bounded_files import FileTooLargeError, read_bounded
from mcpagent.utilities.text.front_matter import bounded_yaml, split_front_matter
from mcpagent.utilities.text.safe_text import safe_line, safe_text
from mcpagent.values.limits.run_limits import KINDS, Limits

MAX_CARDS = 1_000
MARKDOWN = (".md", ".markdown")
YAML = (".yaml", ".yml")

FOREIGN: Mapping[str, tuple[object, ...]] = {
    "commands": ({}, None),
    "cwd": (None,),
    "function_tools": ([], None),
    "harness_tools": (False, None),
    "history_merge_target": (None,),
    "history_source": (None,),
    "human_input": (False,),
    "lifecycle_hooks": ({}, None),
    "max_display_instances": (None,),
    "max_parallel": (None,),
    "messages": ([], None),
    "prompts": ({}, None),
    "resources": ({}, None),
    "save_trajectory": (False,),
    "shell": (False,),
    "skills": ([], None),
    "subagent_model": (None,),
    "subagents": (False, None),
    "tool_hooks": ({}, None),
    "tool_input_schema": (None,),
    "trim_tool_history": (False,),
    "use_history": (True,),
    "variables": ({}, None),
}
"""Fields of fast-agent's cards (version 0.10) without a counterpart in mcpagent, with the values that request nothing.
These values are ignored; any other value causes a warning.
"""

REQUEST_PARAMS = {name: name for name in (*SETTING_NAMES, "max_iterations")}
REQUEST_PARAMS |= {"maxTokens": "max_output_tokens", "max_tokens": "max_output_tokens"}
REQUEST_PARAMS |= {
    "stopSequences": "stop",
    "stop_sequences": "stop",
    "reasoning_effort": "thinking",
}
"""The supported `request_params`: settings of the model, some under fast-agent's names. Headers and further fields of
the body can reach other addresses; they belong in the model's name, for which mcpagent asks for consent."""

_OWN = {item.name for item in fields(AgentCard)} - {"foreign", "path"}
KNOWN_FIELDS = frozenset({*_OWN, *FOREIGN, "type"})


def load_card(path: str | Path) -> AgentCard:
    """Read the card in a file. Raises `CardError`."""
    path = Path(path).expanduser()
    if path.suffix.lower() not in (*MARKDOWN, *YAML):
        raise CardError(
            f"{path} is not an agent card",
            "a card ends in .md, .markdown, .yaml or .yml",
        )
    if path.name == "SKILL.md":
        raise CardError(
            f"{path} is a skill, not an agent card", "skills are not loaded as agents"
        )
    card = parse_card(_text_of(path), path)
    if card is None:
        raise CardError(
            f"{path} has no front matter",
            "begin it with a line ---, the fields as YAML, and a line ---",
        )
    return card


def load_cards(folder: str | Path) -> dict[str, AgentCard]:
    """Read the cards in a folder, by agent name, sorted by file name; Markdown without front matter is ignored.

    Raises `CardError` for an invalid card, and for a duplicate name.
    """
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise CardError(
            f"{folder} is not a folder", "give the folder that holds the cards"
        )
    cards: dict[str, AgentCard] = {}
    for path in sorted(folder.iterdir()):
        if (
            path.suffix.lower() not in (*MARKDOWN, *YAML)
            or path.name == "SKILL.md"
            or not path.is_file()
        ):
            continue
        card = parse_card(_text_of(path), path)
        if card is None:
            continue
        if len(cards) >= MAX_CARDS:
            raise CardError(
                f"{folder} holds more than {MAX_CARDS:,} cards",
                "name one of them, or a smaller folder",
            )
        if card.name in cards:
            raise CardError(
                f"Two cards are named '{card.name}'",
                f"{cards[card.name].path} and {path}; rename one",
            )
        cards[card.name] = card
    return cards


def parse_card(text: str, path: Path) -> AgentCard | None:
    """Parse the card in a file's text; `path` determines the format and the default name. None: Markdown without front
    matter.
    """
    if path.suffix.lower() in YAML:
        return _card(_mapping(text, path), "", path)
    split = split_front_matter(text)
    if split is None:
        return None
    fields_text, body = split
    return _card(_mapping(fields_text, path, first_line=2), _body(body, path), path)


_SECTION = re.compile(r"^---(?:USER|ASSISTANT|RESOURCE)[ \t]*$", re.MULTILINE)


def _text_of(path: Path) -> str:
    try:
        return read_bounded(path).decode("utf-8-sig")
    except FileTooLargeError as error:
        raise CardError(
            f"{path} is {error.strerror}", "this cannot be an agent card"
        ) from None
    except FileNotFoundError:
        near = get_close_matches(path.name, _names_beside(path), n=1)
        details = "create it or give another path"
        if near:
            details = f"did you mean '{near[0]}'?"
        raise CardError(f"{path} does not exist", details) from None
    except UnicodeDecodeError:
        raise CardError(f"{path} is not UTF-8", "save the file as UTF-8") from None
    except OSError as error:
        raise CardError(
            f"{path} cannot be read", safe_line(error.strerror or str(error))
        ) from None


def _names_beside(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []


def _body(text: str, path: Path) -> str:
    body = text.strip()
    if section := _SECTION.search(body):
        raise CardError(
            f"'{section.group().strip()}' is not supported in {path}",
            "a card holds one instruction",
        )
    first, _, rest = body.partition("\n")
    if first.strip() == "---SYSTEM":
        return rest.strip()
    return body


def _mapping(text: str, path: Path, first_line: int = 1) -> dict[str, Any]:
    import yaml

    try:
        data = bounded_yaml(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = ""
        if mark is not None:
            place = f":{mark.line + first_line}:{mark.column + 1}"
        about = f"{error.problem} {error.context}"
        is_special = "alias" in about or "tag" in about
        hint = ""
        if is_special:
            hint = "; put a pattern that begins with a special character in quotes"
        raise CardError(
            f"{path}{place} is not YAML", f"{safe_line(error.problem or '')}{hint}"
        ) from None
    except yaml.YAMLError as error:
        raise CardError(
            f"{path} is not YAML", safe_line(str(error), 120) or type(error).__name__
        ) from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise CardError(f"{path} must hold a mapping", f"Got: {type(data).__name__}")
    if any(not isinstance(key, str) for key in data):
        raise CardError(
            f"Field names must be strings in {path}",
            f"Got: {safe_line(str(next(iter(data))))}",
        )
    return data


# -- Fields ------------------------------------------------------------------------------------------------------------


def _card(data: dict[str, Any], body: str, path: Path) -> AgentCard:
    _check_type(data, path)
    unknown = sorted(set(data) - KNOWN_FIELDS)
    if unknown:
        listed = ", ".join(_with_near(name) for name in unknown)
        raise CardError(
            f"Unsupported fields for type 'agent' in {path}",
            f"Unknown fields: {listed}",
        )
    instruction = _string(data, "instruction", path).strip()
    if instruction and body:
        raise CardError(
            f"'instruction' and a text below the fields in {path}",
            "give the instruction in one place",
        )
    values: dict[str, Any] = {
        name: read(data, name, path)
        for name, read in _READERS.items()
        if data.get(name) is not None
    }
    foreign = {name: data[name] for name in FOREIGN if name in data}
    name = values.pop("name", "") or path.stem.replace(" ", "_")
    return AgentCard(
        name, instruction or body, foreign=foreign, path=str(path), **values
    )


def _check_type(data: Mapping[str, Any], path: Path) -> None:
    kind = data.get("type", "agent")
    if kind not in ("agent", "smart"):
        details = f"Got: {kind!r}. Other kinds of agents have no counterpart here; name the members in 'agents'"
        raise CardError(f"'type' must be 'agent' in {path}", details)
    if data.get("schema_version", 1) != 1:
        raise CardError(
            f"'schema_version' must be 1 in {path}", f"Got: {data['schema_version']!r}"
        )


def _with_near(name: str) -> str:
    near = get_close_matches(name, sorted(KNOWN_FIELDS), n=1, cutoff=0.6)
    if near:
        return f"{safe_line(name, 60)} (did you mean '{near[0]}'?)"
    return safe_line(name, 60)


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "a string": lambda value: isinstance(value, str),
    "a boolean": lambda value: isinstance(value, bool),
    "an integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "a list of strings": lambda value: (
        isinstance(value, list)
        and all(isinstance(item, str) and item for item in value)
    ),
    "a list of mappings": lambda value: (
        isinstance(value, list) and all(isinstance(item, dict) for item in value)
    ),
    "a mapping": lambda value: (
        isinstance(value, dict) and all(isinstance(key, str) for key in value)
    ),
}


def _is(what: str) -> Callable[[Mapping[str, Any], str, Path], Any]:
    """Return a function that reads a field whose value must be of this kind; it converts lists to tuples and raises
    `CardError`.
    """

    def read(data: Mapping[str, Any], name: str, path: Path) -> Any:
        value = data[name]
        if not _KINDS[what](value):
            raise CardError(
                f"'{name}' must be {what} in {path}", f"Got: {type(value).__name__}"
            )
        if isinstance(value, list):
            return tuple(value)
        return value

    return read


def _string(data: Mapping[str, Any], name: str, path: Path) -> str:
    text: str = _is("a string")({name: data.get(name) or ""}, name, path)
    return text.replace("\r\n", "\n")


def _at_least(least: int) -> Callable[[Mapping[str, Any], str, Path], int]:
    def read(data: Mapping[str, Any], name: str, path: Path) -> int:
        value: int = _is("an integer")(data, name, path)
        if value < least:
            raise CardError(
                f"'{name}' must be {least} or more in {path}", f"Got: {value}"
            )
        return value

    return read


def _pattern_mapping(
    value: object, name: str, path: Path
) -> dict[str, tuple[str, ...]]:
    """Read a mapping from server names to patterns, for `tools` and `tool_search.eager_tools`. Raises `CardError`."""
    if not isinstance(value, dict):
        what = f"'{name}' must be a mapping of server name to patterns in {path}"
        raise CardError(what, f"Got: {type(value).__name__}")
    result: dict[str, tuple[str, ...]] = {}
    for server, patterns in value.items():
        if not isinstance(server, str) or not server.strip():
            raise CardError(
                f"'{name}' keys must be non-empty server names in {path}",
                f"Got: {server!r}",
            )
        place = f"{name}.{safe_line(server, 64)}"
        if not isinstance(patterns, list):
            if isinstance(patterns, str):
                details = f"Write [{patterns!r}]."
            else:
                details = f"Got: {type(patterns).__name__}"
            raise CardError(f"'{place}' must be a list of patterns in {path}", details)
        for position, pattern in enumerate(patterns):
            if not isinstance(pattern, str) or not pattern.strip():
                raise CardError(
                    f"'{place}[{position}]' must be a non-empty string pattern in {path}",
                    f"Got: {pattern!r}",
                )
        result[server] = tuple(patterns)
    return result


def _connections(
    data: Mapping[str, Any], name: str, path: Path
) -> tuple[dict[str, Any], ...]:
    value: tuple[dict[str, Any], ...] = _is("a list of mappings")(data, name, path)
    for position, item in enumerate(value):
        if not isinstance(item.get("target"), str) or not item["target"].strip():
            raise CardError(
                f"'{name}[{position}]' needs a target in {path}",
                "Write {target: https://... or a command}.",
            )
    return value


def _tool_search(data: Mapping[str, Any], name: str, path: Path) -> ToolSearchConfig:
    value = data[name]
    if not isinstance(value, dict):
        if isinstance(value, bool):
            details = "Write 'tool_search: {enabled: true}'."
        else:
            details = f"Got: {type(value).__name__}"
        raise CardError(f"'{name}' must be a mapping in {path}", details)
    allowed = [item.name for item in fields(ToolSearchConfig)]
    unknown = [safe_line(str(key), 60) for key in value if key not in allowed]
    if unknown:
        details = f"Unknown fields: {', '.join(unknown)}. Allowed: {', '.join(allowed)}"
        raise CardError(f"Unsupported fields for '{name}' in {path}", details)
    enabled, scope, strategy = (
        value.get("enabled", False),
        value.get("scope", "mcp"),
        value.get("strategy", "auto"),
    )
    if not isinstance(enabled, bool):
        raise CardError(
            f"'{name}.enabled' must be a boolean in {path}", f"Got: {_got(enabled)}"
        )
    if scope != "mcp":
        details = f"Got: {_got(scope)}. Only MCP tools can be deferred in this version"
        raise CardError(f"'{name}.scope' must be 'mcp' in {path}", details)
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        what = f"'{name}.strategy' must be one of {', '.join(STRATEGIES)} in {path}"
        raise CardError(what, f"Got: {_got(strategy)}")
    eager = _pattern_mapping(value.get("eager_tools", {}), f"{name}.eager_tools", path)
    return ToolSearchConfig(enabled, "mcp", strategy, eager)


def _provider_tools(
    data: Mapping[str, Any], name: str, path: Path
) -> tuple[ProviderTool, ...]:
    try:
        return provider_tools_of(data[name], name)
    except ConfigError as error:
        raise CardError(f"'{name}' cannot be used in {path}", str(error)) from None


def _limits(data: Mapping[str, Any], name: str, path: Path) -> Limits:
    value = _is("a mapping")(data, name, path)
    if unknown := [key for key in value if key not in KINDS]:
        details = f"Got: {_got(unknown[0])}. There are {', '.join(KINDS)}"
        raise CardError(f"'{name}' has an unknown key in {path}", details)
    try:
        return Limits(**value)
    except ConfigError as error:
        raise CardError(f"'{name}' cannot be used in {path}", str(error)) from None


def _got(value: object) -> str:
    return safe_line(repr(value), 60)


_READERS: Mapping[str, Callable[[Mapping[str, Any], str, Path], Any]] = {
    "name": lambda data, name, path: safe_line(_string(data, name, path), 64).replace(
        " ", "_"
    ),
    "description": lambda data, name, path: safe_text(
        _string(data, name, path)
    ).strip(),
    "default": _is("a boolean"),
    "model": _string,
    "servers": _is("a list of strings"),
    "tools": lambda data, name, path: _pattern_mapping(data[name], name, path),
    "mcp_config": _string,
    "mcp_servers": _is("a mapping"),
    "mcp_connect": _connections,
    "tool_search": _tool_search,
    "code_mode": _is("a boolean"),
    "provider_tools": _provider_tools,
    "agents": _is("a list of strings"),
    "limits": _limits,
    "large_result_tokens": _at_least(0),
    "child_timeout_sec": _at_least(1),
    "request_params": _is("a mapping"),
    "api_key": _string,
    "tool_only": _is("a boolean"),
}
