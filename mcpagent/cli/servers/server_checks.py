"""Detect doubtful properties of a server without trusting it: pure functions that return one-line warnings.

Descriptions are matched with mcpagent's own patterns, based on the tool poisoning and line jumping examples of
Invariant Labs and Trail of Bits (2025), and on MCP's security best practices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from mcpagent.config import ServerConfig
from mcpagent.config.literals import literal_warnings
from mcpagent.models.tool_changes_in_history import RESERVED_NAMES, SUBMIT_TOOL
from mcpagent.utilities.json_schema.schema_form import UncheckedError, usable
from mcpagent.utilities.text.for_model import for_model
from mcpagent.utilities.text.json_texts import texts_in
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import ToolDefinition

LONGEST_DESCRIPTION = 6_000

_POISON = {
    "overrides instructions": r"""
        \b (?:ignore|disregard|forget|override) [ ] (?:\w+[ ]){0,3} (?:instructions?|rules|prompts?) \b""",
    "tells the model to hide something": r"""
        \b do[ ]not[ ] (?:\w+[ ]){0,2} (?:tell|mention|inform|reveal|notify) \b
        | \b without[ ](?:telling|informing)[ ]the[ ]user
        | \b (?:hide|keep)[ ](?:this|it)[ ](?:\w+[ ])? (?:from[ ]the[ ]user|secret)""",
    "has tags that pose as instructions": r"""
        < [ ]? /? [ ]? (?:important|system|instructions?|secret|hidden|assistant|admin) [ ]? >""",
    "speaks of files with keys": r"""
        \b id_(?:rsa|ed25519|ecdsa) \b | /\.ssh\b | \.aws/credentials | /etc/(?:passwd|shadow) | \.netrc\b
        | \bmcp\.json\b | claude_desktop_config | \b private[ ]keys? \b | \.env[ ]file""",
    "wants to be called around other tools": r"""
        \b (?:before|after|instead[ ]of) [ ] (?:(?:using|calling|invoking|you[ ](?:use|call)) [ ])
        (?:any|all|every|other|another) [ ] (?:\w+[ ])? tools? \b""",
    "gives orders about other tools": r"""
        \b (?:always|must|never|should|may[ ]not|do[ ]not|don't|have[ ]to|need[ ]to) [ ] (?:\w+[ ]){0,3}
        (?:use|call|invoke|run|prefer|avoid|trust|replace) [ ] (?:\w+[ ]){0,3}
        (?:other|another|any|all|every|these|those|different) [ ] (?:\w+[ ]){0,2} tools? \b
        | \b (?:use|call|invoke|prefer) [ ] this [ ] (?:tool[ ])? (?:instead[ ]of|rather[ ]than|in[ ]place[ ]of) \b
        | \b (?:when|whenever|if|every[ ]time|each[ ]time) [ ] (?:\w+[ ]){0,3}
        (?:other|another|any|every) [ ] (?:\w+[ ])? tools? [ ] (?:is|are|was|were|gets?) [ ]
        (?:called|used|invoked|run) \b""",
    "sends something to an address": r"""
        \b (?:send|post|forward|upload|bcc|copy) [ ] (?:\w+[ ]){0,6} https?://""",
    "asks for the conversation": r"""
        \b (?:pass|include|put|provide|write) [ ] (?:\w+[ ]){0,4} (?:system[ ]prompt|conversation|chat[ ]history)
        | \b (?:system[ ]prompt|conversation[ ]history|chat[ ]history|previous[ ]messages) [ ] (?:\w+[ ]){0,4}
        (?:parameter|argument|field) \b""",
    "holds a long encoded text": r"[A-Za-z0-9+/]{200}",
}
_PATTERNS = {
    what: re.compile(pattern, re.IGNORECASE | re.VERBOSE)
    for what, pattern in _POISON.items()
}


def configuration_warnings(config: ServerConfig) -> list[str]:
    """List doubtful settings of the entry itself, each with a suggested fix."""
    found = literal_warnings(config.name, config.written)
    if (
        package := unpinned_package(
            str(config.command), [str(word) for word in config.args]
        )
    ) is not None:
        name, pinned = (safe_line(text, 80) for text in package)
        found.append(
            f"{safe_line(str(config.command), 20)} starts whatever version of {name} is the newest; write {pinned}"
        )
    parts = urlsplit(config.address)
    host = parts.hostname or ""
    is_local = host in ("localhost", "::1", "host.docker.internal") or host.startswith(
        "127."
    )
    if parts.scheme == "http" and not is_local and config.headers:
        found.append("its headers are sent without encryption; write https")
    return found


def unpinned_package(command: str, args: Sequence[str]) -> tuple[str, str] | None:
    """Return a package that the command fetches without a version, and its pinned form; or None."""
    program = re.split(r"[\\/]", command)[-1].removesuffix(".cmd").removesuffix(".exe")
    words = list(args)
    if (
        program in ("npm", "pnpm", "yarn")
        and words[:1]
        and words[0] in ("exec", "dlx", "x")
    ):
        program, words = "npx", words[1:]
    if (program == "uv" and words[:2] == ["tool", "run"]) or (
        program == "pipx" and words[:1] == ["run"]
    ):
        if program == "uv":
            words = words[2:]
        else:
            words = words[1:]
        program = "uvx"
    match program:
        case "npx" | "bunx":
            return _unpinned_npm(
                _fetched(words, _WITH_VALUE.__contains__, "-p", "--package")
            )
        case "uvx":
            return _unpinned_python(
                _fetched(words, _WITH_VALUE.__contains__, "--from", "--spec")
            )
        case "docker" | "podman":
            return _unpinned_image(words)
        case _:
            return None


def _fetched(
    words: Sequence[str], takes_value: Callable[[str], bool], *naming: str
) -> str:
    """Return the package that one of the options `naming` names, else the first word that is neither an option nor a
    value.
    """
    takes_next = False
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in naming:
            if equals:
                return value
            return next(iter(words[place + 1 :]), "")
        if not word.startswith("-") and not takes_next:
            return word
        takes_next = not takes_next and takes_value(word)
    return ""


_WITH_VALUE = frozenset(
    {"--python", "-p", "--with", "--index", "--index-url", "--registry", "-c", "--call"}
)


def _unpinned_npm(package: str) -> tuple[str, str] | None:
    if not package or package.startswith((".", "/", "git+", "http", "file:")):
        return None
    if "@" in package[1:]:
        name, at, version = package.rpartition("@")
    else:
        name, at, version = package, "", ""
    if at and version[:1].isdigit():
        return None
    return name, f"{name}@VERSION"


def _unpinned_python(package: str) -> tuple[str, str] | None:
    if (
        not package
        or package.startswith((".", "/", "file:", "http"))
        or package.endswith((".whl", ".tar.gz"))
    ):
        return None
    if package.startswith("git+"):
        if "@" in package.partition("://")[2].partition("/")[2]:
            return None
        return package, f"{package}@COMMIT"
    name, _, version = package.partition("@")
    pinned = "==" in package or version[:1].isdigit()
    plain = re.split(r"[<>=!~@ ]", package, maxsplit=1)[0]
    if pinned or not name:
        return None
    return plain, f"{plain}==VERSION"


def _unpinned_image(words: Sequence[str]) -> tuple[str, str] | None:
    if words[:1] != ["run"]:
        return None
    image = _fetched(words[1:], _takes_value_in_docker)
    if not image or "@sha256:" in image:
        return None
    name, colon, tag = image.rpartition(":")
    has_tag = bool(colon) and "/" not in tag
    if has_tag and tag != "latest":
        return None
    if has_tag:
        untagged = name
    else:
        untagged = image
    return untagged, f"{untagged}:TAG"


def _takes_value_in_docker(word: str) -> bool:
    return word.startswith("-") and not (
        "=" in word or word in _IMAGE_FLAGS or re.fullmatch(r"-[itdP]+", word)
    )


_IMAGE_FLAGS = frozenset(
    {
        "--rm",
        "--init",
        "--interactive",
        "--tty",
        "--privileged",
        "--read-only",
        "--detach",
    }
)


def poisoned_warnings(tools: Iterable[ToolDefinition]) -> list[str]:
    """Return warnings about tools whose texts seem to steer the model instead of describing the tool, for a user's
    review.
    """
    found: list[str] = []
    tools = tuple(tools)
    own = {tool.original_name or tool.name for tool in tools}
    for tool in tools:
        name = safe_line(tool.original_name or tool.name, 60)
        if (tool.original_name or tool.name) in RESERVED_NAMES | {SUBMIT_TOOL}:
            found.append(
                f"{name} is named as a tool of mcpagent's own; it is offered under another name"
            )
        # Include all texts of the parameters: the model reads them, too.
        schema = json.dumps(tool.parameters, ensure_ascii=False, default=str)[:200_000]
        what = _poison_in(f"{tool.title} {tool.description} {schema}")
        if not what and (
            others := _commanded(tool.description, own | set(texts_in(tool.parameters)))
        ):
            what = f"gives orders about {', '.join(others)}, which this server does not have"
        if not what and len(tool.description) > LONGEST_DESCRIPTION:
            what = f"has {len(tool.description):,} characters"
        if what:
            found.append(
                f"the text of {name} {what}: read it, mcpagent tools show {name}"
            )
    return found


def unusable_output_schemas(schemas: Mapping[str, Any]) -> list[str]:
    """Return warnings about output schemas that cannot be checked."""
    found: list[str] = []
    for name, schema in schemas.items():
        try:
            usable(schema)
        except UncheckedError as error:
            found.append(
                f"the output schema of {safe_line(name, 60)} cannot be used: {safe_line(str(error), 120)}"
            )
    return found


def _commanded(description: str, own: Collection[str]) -> list[str]:
    """Return the names of tools that a description commands to call or not to call, except the server's own."""
    plain = " ".join(for_model(description[:LONGEST_DESCRIPTION]).split())
    names = (match[1] or match[2] for match in _ORDER.finditer(plain))
    return [safe_line(name, 60) for name in dict.fromkeys(names) if name not in own][:3]


_ORDER = re.compile(
    r"\b(?:(?:always|must|never|should|not|don't|before|after|when|whenever|instead of) (?:\w+ ){0,3}"
    r"(?:call|calling|use|using|invoke|invoking|run|running)|instead of|before|after) (?:the |tool ){0,2}"
    r"(?:[`'\"]?([A-Za-z][A-Za-z0-9]{0,30}(?:_[A-Za-z0-9]{1,30}){1,6})\b"
    # Prose also contains words like `delete-file` and `deleteFile`, so these names count only in quotation marks.
    r"|[`'\"]((?-i:[a-z][a-z0-9]{0,30}(?:-[a-z0-9]{1,30}){1,6}|[a-z]{1,30}[A-Z][A-Za-z0-9]{0,30}))[`'\"])",
    re.IGNORECASE,
)


def poisoned_instructions(instructions: str) -> list[str]:
    """Return such warnings for a server's instructions."""
    what = _poison_in(instructions)
    if what:
        return [f'what it says of itself {what}: "{safe_line(instructions, 120)}"']
    return []


def _poison_in(text: str) -> str:
    plain = " ".join(
        for_model(text).split()
    )  # a model reads words even if invisible characters divide them
    return next(
        (what for what, pattern in _PATTERNS.items() if pattern.search(plain)), ""
    )
