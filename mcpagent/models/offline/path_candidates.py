"""Files, folders and file patterns that a prompt names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from mcpagent.models.offline.evidence import Found
from mcpagent.models.offline.pieces import Candidate, Context, candidate_of, direction_score
from mcpagent.models.offline.roles import Property
from mcpagent.models.offline.words import STOP_WORDS, concept, word_set

_FOLDER_NEAR = re.compile(r"\b(?:folder|directory|dir|repo|repository)\b", re.IGNORECASE)
_HERE = re.compile(
    r"\b(?:here|(?:this|current|working|the|my|local) (?:folder|directory|dir|repo|repository|project))\b",
    re.IGNORECASE,
)
_NOT_FOLDERS = word_set(
    """file files folder folders directory directories list repo repository project commit commits branch branches it
    there"""
)


def _is_file_name(path: str) -> bool:
    last = path.rstrip("/").rpartition("/")[2]
    return not path.endswith("/") and ("." in last.strip(".") or last.isupper() or last in ("Makefile", "Dockerfile"))


def _path_entities(wanted: Property, context: Context, bonus: Callable[[str], float]) -> Iterator[Candidate]:
    for path in context.evidence.paths:
        if "*" not in path.value:
            yield candidate_of(path, 2.0 + direction_score(wanted, path.preposition) + bonus(path.value))
    for quote in context.evidence.quoted:
        if re.fullmatch(r"[\w./~ @+-]{1,200}", quote.value) and ("/" in quote.value or "." in quote.value):
            yield candidate_of(quote, 2.5 + direction_score(wanted, quote.preposition) + bonus(quote.value))


def _spoken_folders(context: Context) -> Iterator[Candidate]:
    evidence = context.evidence
    for match in _FOLDER_NEAR.finditer(evidence.text):
        before = [word for word in evidence.words if word.end <= match.start()][-1:]
        after = [word for word in evidence.words if word.start >= match.end()][:2]
        after = after[1:] if after and after[0].value.lower() in ("called", "named") else after[:1]
        for word in (*before, *after):
            if word.value.lower() not in STOP_WORDS | _NOT_FOLDERS and re.fullmatch(r"[\w.-]+", word.value):
                if word in before and concept(word.value) in (
                    "list",
                    "read",
                    "show",
                    "creat",
                    "open",
                    "current",
                    "git",
                ):
                    continue
                if word.value.lower() in ("current", "working", "show", "git", "local", "whole", "entire"):
                    continue
                yield candidate_of(word, 1.6 if word in before else 1.5)
    for phrase in evidence.phrases:
        is_place = phrase.preposition in ("in", "of", "under", "inside", "from", "into")
        if is_place and phrase.value.lower() not in _NOT_FOLDERS and re.fullmatch(r"[\w.-]+", phrase.value):
            yield candidate_of(phrase, 1.0)
    if here := _HERE.search(evidence.text):
        yield Candidate(".", ((here.start(), here.end()),), 0.9)


def folders(wanted: Property, context: Context) -> Iterator[Candidate]:
    yield from _path_entities(wanted, context, lambda path: -2.0 if _is_file_name(path) else 0.5)
    yield from _spoken_folders(context)
    if wanted.required:
        # Whoever names no folder means the one they are in, as at any prompt.
        yield Candidate(".", (), 0.1, sure=False)


def files(wanted: Property, context: Context) -> Iterator[Candidate]:
    yield from _path_entities(wanted, context, lambda path: 0.5 if _is_file_name(path) else 0.0)
    for match in re.finditer(r"\bfile\s+(?:named\s+|called\s+)?(?=([\w.-]+))", context.evidence.text, re.IGNORECASE):
        if match[1].lower() not in STOP_WORDS:
            yield Candidate(match[1], ((match.end(), match.end() + len(match[1])),), 1.2, sure=False)


def any_paths(wanted: Property, context: Context) -> Iterator[Candidate]:
    yield from _path_entities(wanted, context, lambda _path: 0.0)
    lists = bool({concept("list"), concept("tree"), concept("folder")} & wanted.tool_concepts)
    if lists:
        yield from _spoken_folders(context)
        if wanted.required and concept("creat") not in wanted.tool_concepts:
            yield Candidate(".", (), 0.1, sure=False)
    else:
        yield from files(wanted, context)


_EXTENSIONS = {
    "python": "py",
    "markdown": "md",
    "json": "json",
    "yaml": "yaml",
    "toml": "toml",
    "text": "txt",
    "csv": "csv",
    "html": "html",
    "javascript": "js",
    "typescript": "ts",
    "pdf": "pdf",
    "rust": "rs",
    "go": "go",
    "image": "png",
}


def globs(wanted: Property, context: Context) -> Iterator[Candidate]:
    for path in context.evidence.paths:
        if "*" in path.value:
            yield candidate_of(path, 3.0)
        elif _is_file_name(path.value):
            yield candidate_of(path, 1.0)
    for match in re.finditer(r"(?<!\w)\.(\w{1,5})\b(?= files?\b)|\b(\w+)(?= files?\b)", context.evidence.text):
        extension = match[1] or _EXTENSIONS.get(match[2].lower())
        if extension:
            deep = "**/" if "**" in wanted.description or "recursiv" in wanted.description.lower() else ""
            yield Candidate(f"{deep}*.{extension}", ((match.start(), match.end()),), 2.0)
    for found in (*context.evidence.quoted, *_names_said(context)):
        value = str(found.value)
        is_pattern = "*" in value or "." in value
        yield candidate_of(found, 1.5 if is_pattern else 0.9, value=value if is_pattern else f"*{value}*", sure=False)


def _names_said(context: Context) -> Iterator[Found]:
    for phrase in context.evidence.phrases:
        if phrase.preposition in ("named", "called", "titled", "for", "about"):
            yield phrase
