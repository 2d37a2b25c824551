"""One try to mend a failed call from its error: the value it suggests, the choices it lists, the folder it allows."""

from __future__ import annotations

import difflib
import re
from typing import Any

from mcpagent.models.offline.arguments import fill
from mcpagent.models.offline.evidence import Evidence
from mcpagent.models.offline.ranking import ToolView
from mcpagent.models.offline.zones import zone_of

_MAX_ERROR_CHARACTERS = 2_000
_MEANT = re.compile(r"did you mean:?\s+['\"`]?([^'\"`?,;\n]{1,100})", re.IGNORECASE)
_CHOICES = re.compile(
    r"(?:one of|expected|valid (?:options|values|choices)(?: are)?|allowed values(?: are)?|choose from)"
    r"[:\s]+([^\n]{1,500})",
    re.IGNORECASE,
)
_ALLOWED_FOLDERS = re.compile(r"(?:not in|allowed director(?:y|ies)(?: are)?:?)\s+(/[^\s,;'\"]+)", re.IGNORECASE)
_REQUIRED = re.compile(
    r"['\"]?(\w{1,60})['\"]?(?:: | is (?:a )?|\s+)(?:required|missing|field required)", re.IGNORECASE
)


def mended(tool: ToolView, arguments: dict[str, Any], error: str, evidence: Evidence) -> dict[str, Any] | None:
    """Other arguments that the error calls for; None where it says nothing that helps."""
    text = error[:_MAX_ERROR_CHARACTERS]
    for mend in (_suggested, _chosen, _zone, _allowed_folder, _required):
        better = mend(tool, arguments, text, evidence)
        if better is not None and better != arguments:
            return better
    return None


def _blamed(arguments: dict[str, Any], error: str, like: str) -> str | None:
    """The text argument that the error quotes, else the one most like the suggestion."""
    texts = {name: value for name, value in arguments.items() if isinstance(value, str) and value}
    quoted = [name for name, value in texts.items() if value in error]
    near = difflib.get_close_matches(like, texts.values(), n=1, cutoff=0.4)
    similar = [name for name, value in texts.items() if value in near]
    return next(iter((*quoted, *similar)), None)


def _suggested(_tool: ToolView, arguments: dict[str, Any], error: str, _evidence: Evidence) -> dict[str, Any] | None:
    found = _MEANT.search(error)
    name = _blamed(arguments, error, found[1]) if found else None
    return {**arguments, name: found[1].strip()} if found and name else None


def _chosen(_tool: ToolView, arguments: dict[str, Any], error: str, evidence: Evidence) -> dict[str, Any] | None:
    found = _CHOICES.search(error)
    choices = re.findall(r"['\"`]([^'\"`]{1,60})['\"`]", found[1]) or re.findall(r"[\w-]+", found[1]) if found else []
    choices = [choice for choice in choices if choice not in arguments.values()]
    if not choices:
        return None
    said = [choice for choice in choices if re.search(rf"\b{re.escape(choice)}\b", evidence.text, re.IGNORECASE)]
    for name, value in arguments.items():
        if isinstance(value, str) and value in error:
            near = said or difflib.get_close_matches(value, choices, n=1, cutoff=0.4)
            return {**arguments, name: near[0]} if near else None
    return None


def _zone(_tool: ToolView, arguments: dict[str, Any], error: str, _evidence: Evidence) -> dict[str, Any] | None:
    if not re.search(r"time ?zone|ZoneInfo", error, re.IGNORECASE):
        return None
    better = {name: zone_of(value) for name, value in arguments.items() if isinstance(value, str) and "/" not in value}
    found = {name: zone for name, zone in better.items() if zone}
    return {**arguments, **found} if found else None


def _allowed_folder(
    _tool: ToolView, arguments: dict[str, Any], error: str, _evidence: Evidence
) -> dict[str, Any] | None:
    folders = _ALLOWED_FOLDERS.findall(error)
    if not folders:
        return None
    for name, value in arguments.items():
        if isinstance(value, str) and not value.startswith(("/", "~")) and ".." not in value:
            below = folders[-1] if value in (".", "") else f"{folders[-1].rstrip('/')}/{value.removeprefix('./')}"
            return {**arguments, name: below}
    return None


def _required(tool: ToolView, arguments: dict[str, Any], error: str, evidence: Evidence) -> dict[str, Any] | None:
    properties = tool.schema.get("properties")
    named = [name for name in _REQUIRED.findall(error) if isinstance(properties, dict) and name in properties]
    lacking = [name for name in named if name not in arguments]
    if not lacking:
        return None
    asked = fill(tool.name, tool.description, {**tool.schema, "required": [*arguments, *lacking]}, evidence)
    added = {name: asked.arguments[name] for name in lacking if name in asked.arguments}
    return {**arguments, **added} if added else None
