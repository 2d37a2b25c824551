"""Write agent cards: only fields that are set, always in the same order, with `${VAR}` unexpanded."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from mcpagent.agents.cards.card import AgentCard, CardError, ToolSearchConfig
from mcpagent.agents.cards.reading import FOREIGN, YAML, parse_card
from mcpagent.models.provider_tools.provider_tool_values import ProviderTool, as_data
from mcpagent.values.limits.run_limits import Limits

_FIELDS = [
    item.name
    for item in fields(AgentCard)
    if item.name not in ("foreign", "path", "instruction", "name")
]
_PLAIN_BODY = re.compile(
    r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]*"
)


def dump_card(card: AgentCard, form: Literal["md", "yaml"] = "md") -> str:
    """Return the card as the text of a file; `parse_card` returns an equal card for it."""
    data = card_data(card)
    if form == "md" and _fits_below(card):
        if card.instruction:
            return f"---\n{_yaml(data)}---\n\n{card.instruction}\n"
        return f"---\n{_yaml(data)}---\n"
    if card.instruction:
        data["instruction"] = card.instruction
    if form == "yaml":
        return _yaml(data)
    return f"---\n{_yaml(data)}---\n"


def save_card(card: AgentCard, path: str | Path) -> None:
    """Write the card; the file extension determines the format."""
    path = Path(path)
    text = dump_card(card, "yaml" if path.suffix.lower() in YAML else "md")
    path.write_bytes(text.encode("utf-8"))


def card_data(card: AgentCard) -> dict[str, Any]:
    """Return the fields that differ from their defaults, in the card's order, without the instruction."""
    default = AgentCard(card.name)
    data: dict[str, Any] = {"name": card.name}
    for name in _FIELDS:
        value = getattr(card, name)
        if value != getattr(default, name):
            data[name] = _WRITERS.get(name, _plain)(value)
    return {
        **data,
        **{
            name: _plain(card.foreign[name]) for name in FOREIGN if name in card.foreign
        },
    }


def _tool_search(config: ToolSearchConfig) -> dict[str, Any]:
    data: dict[str, Any] = {"enabled": config.enabled}
    if config.strategy != "auto":
        data["strategy"] = config.strategy
    if config.eager_tools:
        data["eager_tools"] = _plain(config.eager_tools)
    return data


def _provider_tools(tools: Sequence[ProviderTool]) -> list[Any]:
    return [as_data(tool) for tool in tools]


_WRITERS: Mapping[str, Callable[[Any], Any]] = {
    "tool_search": _tool_search,
    "provider_tools": _provider_tools,
    "limits": Limits.given,
}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _yaml(data: Mapping[str, Any]) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        """A YAML dumper that writes equal values twice instead of using aliases."""

        def ignore_aliases(self, _data: Any) -> bool:
            return True

    def text_node(dumper: Dumper, text: str) -> yaml.ScalarNode:
        # PyYAML treats these characters as line breaks; double quotes escape them.
        if any(char in text for char in "\x85\u2028\u2029\ufeff"):
            style = '"'
        elif "\n" in text:
            style = "|"
        else:
            style = None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, text_node)
    text: str = yaml.dump(
        dict(data),
        Dumper=Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=110,
        default_flow_style=False,
    )
    return text


def _fits_below(card: AgentCard) -> bool:
    """Return whether the instruction can be the Markdown body: it contains no marker, and readers trim nothing from
    it.
    """
    text = card.instruction
    if text != text.strip() or not _PLAIN_BODY.fullmatch(text):
        return False
    try:
        read = parse_card(f"---\nname: x\n---\n\n{text}\n", Path("x.md"))
    except CardError:
        return False
    return read is not None and read.instruction == text
