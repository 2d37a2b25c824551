"""What kind of value a property wants, judged by its name, schema and description as a person would."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from mcpagent.models.offline.fitting import kind_of
from mcpagent.models.offline.words import concept, concepts, split_words, word_set

Role: TypeAlias = Literal[
    "enum",
    "boolean",
    "url",
    "email",
    "zone",
    "datetime",
    "date",
    "time",
    "expression",
    "sql",
    "glob",
    "file",
    "folder",
    "path",
    "colour",
    "unit",
    "number",
    "id",
    "label",
    "name",
    "array",
    "object",
    "text",
    "unknown",
]

ROLE_ORDER: tuple[Role, ...] = Role.__args__  # type: ignore[attr-defined]
"""The most telling roles first: they take their piece of the prompt before free text takes the rest."""

_FORMATS: dict[str, Role] = {
    "uri": "url",
    "url": "url",
    "uri-reference": "url",
    "email": "email",
    "date": "date",
    "date-time": "datetime",
    "time": "time",
}
_FOLDER_WORDS = word_set("directory dir folder cwd root workspace repo repository")
_NAME_WORDS = word_set(
    """name city country capital place location person user username owner symbol ticker company region state station
    airport artist author label tag branch table project repo repository channel language continent title subject
    entity topic category type origin destination address street assignee member team brand product"""
)
_ID_WORDS = word_set("id iid uuid guid sha ref revision commit identifier ticket isbn")
_SOURCE_WORDS = word_set("source src from origin start begin before old first minimum min foreground left a x")
_TARGET_WORDS = word_set(
    """target tgt to dest destination end until after new second maximum max other background right b y"""
)


@dataclass(frozen=True)
class Property:
    """One property of an input schema, resolved, with what the rules need to know of its tool."""

    name: str
    schema: Mapping[str, Any]
    required: bool
    position: int
    tool_concepts: frozenset[str]

    @cached_property
    def words(self) -> list[str]:
        return split_words(self.name)

    @cached_property
    def concepts(self) -> frozenset[str]:
        return frozenset(concept(word) for word in self.words)

    @cached_property
    def description(self) -> str:
        text = self.schema.get("description")
        return text[:400] if isinstance(text, str) else ""

    @cached_property
    def description_concepts(self) -> frozenset[str]:
        return frozenset(concepts(self.description))

    @cached_property
    def direction(self) -> int:
        """-1 for where something comes from or begins, 1 for where it goes or ends, else 0."""
        words = set(self.words)
        return -1 if words & _SOURCE_WORDS else 1 if words & _TARGET_WORDS else 0

    @cached_property
    def role(self) -> Role:
        return _role(self)


def _role(wanted: Property) -> Role:
    if "const" in wanted.schema or isinstance(wanted.schema.get("enum"), list):
        return "enum"
    match kind_of(wanted.schema):
        case "boolean":
            return "boolean"
        case "number" | "integer":
            return "number"
        case "array":
            return "array"
        case "object":
            return "object"
        case "string":
            return _string_role(wanted)
        case "":
            return _string_role(wanted) if wanted.schema.get("type") is None else "unknown"
    return "unknown"


def _string_role(wanted: Property) -> Role:
    declared = wanted.schema.get("format")
    if isinstance(declared, str) and declared in _FORMATS:
        return _FORMATS[declared]
    return _role_by_name(wanted) or "text"


def _role_by_name(wanted: Property) -> Role | None:
    words, described = wanted.words, wanted.description.lower()
    last = words[-1] if words else ""
    for role, is_meant in (
        ("zone", "timezone" in wanted.name.lower().replace("_", "") or last in ("tz", "zone") or "iana" in described),
        ("url", last in ("url", "uri", "link", "href", "website", "webpage", "endpoint")),
        ("email", "email" in words or "email address" in described),
        ("sql", "sql" in words or (last in ("query", "statement") and _speaks_sql(wanted, described))),
        ("expression", last in ("expression", "formula", "equation", "calculation", "expr")),
        ("glob", last in ("pattern", "glob") and (concept("file") in wanted.tool_concepts or "glob" in described)),
        ("colour", bool({"colour", "color"} & {*words, *split_words(described)[:3]}) or _is_one_of_two_colours(wanted)),
        ("unit", bool({"unit", "units", "currency"} & set(words)) or described.startswith(("unit", "currency"))),
    ):
        if is_meant:
            return role  # type: ignore[return-value]
    return _path_role(wanted) or _moment_role(wanted) or _name_role(wanted)


def _is_one_of_two_colours(wanted: Property) -> bool:
    return wanted.direction != 0 and not wanted.description and concept("colour") in wanted.tool_concepts


def _speaks_sql(wanted: Property, described: str) -> bool:
    spoken = {concept("sql"), concept("sqlite"), concept("select")} & wanted.tool_concepts
    return bool(spoken) or re.search(r"\bsql\b", described) is not None


def _path_role(wanted: Property) -> Role | None:
    words, last = set(wanted.words), wanted.words[-1] if wanted.words else ""
    if words & {"file", "filename", "filepath", "files"}:
        return "file"
    looks_around = {concept("search"), concept("list"), concept("tree")} & wanted.tool_concepts
    if last == "path" and looks_around and not wanted.description:
        return "folder"
    if last in ("path", "paths", "cwd", "dir", "directory", "folder", "dirname"):
        if words & _FOLDER_WORDS:
            return "folder"
        described = {*wanted.description_concepts, *([] if wanted.description_concepts else wanted.tool_concepts)}
        has_folder, has_file = concept("folder") in described, concept("file") in described
        if has_folder != has_file:
            return "folder" if has_folder else "file"
        # "list_directory" is about a folder even where its description speaks of files as well.
        return "path"
    is_about_files = bool({concept("file"), concept("folder")} & wanted.tool_concepts)
    return "path" if is_about_files and words & {"source", "destination", "src", "dest"} else None


def _moment_role(wanted: Property) -> Role | None:
    words, described = set(wanted.words), wanted.description.lower()
    if (
        words & {"datetime", "timestamp"}
        or {"date", "time"} <= words
        or re.search(r"iso[ -]?8601.*\bt\d\d|date-?time", described)
    ):
        return "datetime"
    if "time" in words and "iso" in described:
        return "datetime"
    if words & {"date", "birthday", "deadline", "day"} or "yyyy-mm-dd" in described:
        return "date"
    return "time" if "hh:mm" in described or (wanted.words and wanted.words[-1] == "time") else None


def _name_role(wanted: Property) -> Role | None:
    words = set(wanted.words)
    if words & _ID_WORDS or wanted.name.endswith("Id"):
        return "id"
    if wanted.words and wanted.words[-1] in ("type", "kind", "category", "mode", "format", "style", "status"):
        return "label"
    return "name" if words & _NAME_WORDS else None
