"""Match rules: `git.push` is a tool, `/git:review` a prompt, `@git:file:///notes` a resource, `git.*` everything of
`git`.

Prompts and resources are written as a user types them in a chat. The name in a rule may be a pattern. A rule that
permits matches exactly that server and name; a rule that denies or asks also matches names that only look like it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from urllib.parse import unquote

from mcpagent.config.address_spellings import percent_decoded, spellings
from mcpagent.utilities.text.globs import fits
from mcpagent.values.messages import RequestKind, ToolDefinition

SIGNS: Mapping[RequestKind, str] = {"tool": "", "prompt": "/", "resource": "@"}
"""The prefix of a rule or label, for each kind of request."""

_KINDS: Mapping[str, RequestKind] = {sign: kind for kind, sign in SIGNS.items() if sign}
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and symbols without a visible shape."""

_ENDS = " ._-!,:;/()[]{}?'\"~\\*+#&%$^<>|=`\u2018\u2019\u201c\u201d\u3002"
_MOST_READINGS = 64


def rule_of(tool: ToolDefinition) -> str:
    """Return the rule that names exactly this tool, prompt or resource; only the name if it has no source."""
    key = tool.key
    if tool.kind == "tool" or key.source is None:
        return key.label
    return f"{SIGNS[tool.kind]}{key.source}:{key.name}"


def permits(rule: str, tool: ToolDefinition, servers: Collection[str] = ()) -> bool:
    """Return whether a rule that permits matches the tool. `servers` are the names of all servers.

    The rule contains the server's full name, or `*` for all servers. `git.evil.x` belongs to the server `git.evil`, if
    that exists. The name that the model calls is also accepted if it contains the server's name (`git__push`).
    """
    if rule == "*":
        return True
    source, own, _ = tool.key
    if source is None:
        return permits_of_server(rule, tool) or _is_exactly(rule, tool.name)
    known = {source, *servers}
    named = [reading for reading in _readings(rule) if reading[0] in {"*", *known}]
    if named:
        server, kind, pattern = max(named, key=lambda reading: len(reading[0]))
        return server in ("*", source) and _permits(kind, pattern, tool)
    owner = max(
        (server for server in known if rule.startswith(f"{server}__")),
        key=len,
        default=None,
    )
    is_plain = (
        tool.kind == "tool" and own.isascii() and own.translate(_JOINTS).isalnum()
    )
    return owner == source and is_plain and _is_exactly(rule, tool.name)


_JOINTS = str.maketrans("", "", "_-")


def forbids(rule: str, tool: ToolDefinition) -> bool:
    """Return whether a rule that denies matches the tool, or a name that differs only in case or invisible characters.

    A rule without a server applies to the name on every server, and to the name that the model calls.
    """
    if rule == "*":
        return True
    readings = list(_readings(rule))
    source, own, _ = tool.key
    if source is None or not readings:
        return any(
            _is_among(rule, _could_be(form))
            for form in (own, tool.name, tool.key.label)
        )
    # Fold the name once, not for each way to split the rule: a server may send a name of a megabyte.
    owner, names = {source, _folded(source)}, _could_be(own)
    return _folded(rule) == _folded(own) or any(
        _is_among(server, owner) and _is_among(pattern, names)
        for server, kind, pattern in readings
        if kind in ("tool", tool.kind)
    )


def permits_of_server(pattern: str, tool: ToolDefinition) -> bool:
    """Return whether a permitting pattern without a server matches: `push`, `/review`, `@file:///*`, `*` for
    everything.
    """
    kind = _KINDS.get(pattern[:1], "tool")
    return _permits(kind, pattern.removeprefix(SIGNS[kind]), tool)


def forbids_of_server(pattern: str, tool: ToolDefinition) -> bool:
    """Return whether a denying pattern without a server matches (see `forbids`)."""
    kind = _KINDS.get(pattern[:1], "tool")
    names = _could_be(tool.key.name)
    if kind == tool.kind:
        bare = pattern.removeprefix(SIGNS[kind])
    else:
        bare = pattern
    return _is_among(pattern, names) or _is_among(bare, names)


def resource_servers(rule: str) -> set[str]:
    """Return the servers that a rule about resources may mean; the resources need not be listed."""
    return {server for server, kind, _ in _readings(rule) if kind == "resource"}


def _readings(rule: str) -> Iterator[tuple[str, RequestKind, str]]:
    """Yield each way to split a rule into server, kind and pattern, because server and tool names may contain any
    character.
    """
    places = (
        place
        for place, char in enumerate(rule)
        if char == "." or (char == ":" and rule[0] in _KINDS)
    )
    for place in islice(places, _MOST_READINGS):
        if rule[place] == ".":
            yield rule[:place], "tool", rule[place + 1 :]
        else:
            yield rule[1:place], _KINDS[rule[0]], rule[place + 1 :]


def _permits(kind: RequestKind, pattern: str, tool: ToolDefinition) -> bool:
    name = tool.key.own_name
    if pattern == "*" and kind in ("tool", tool.kind):
        return True
    if kind != tool.kind:
        return False
    return pattern == name or (
        not (kind == "resource" and _leads_out(name)) and fits(name, pattern)
    )


def _is_exactly(pattern: str, name: str) -> bool:
    return pattern == name or fits(name, pattern)


def _leads_out(uri: str) -> bool:
    """Return whether the URI contains `..` in any encoding, which could leave the folder that a pattern names."""
    forms = percent_decoded(uri)
    return (
        any(".." in _folded(form) for form in forms) or unquote(forms[-1]) != forms[-1]
    )


def _could_be(name: str) -> set[str]:
    """Return all spellings of the name that a server could treat as the same, unchanged and folded."""
    plain = set(percent_decoded(name))
    if ":" in name:
        plain |= {form for one in list(plain) for form in spellings(one)}
    seen = {_folded(form) for form in plain}
    return (
        plain
        | seen
        | {form.rstrip(_ENDS) for form in seen}
        | {form.strip(_ENDS) for form in seen}
    )


def _is_among(pattern: str, forms: Collection[str]) -> bool:
    """Return whether the pattern, unchanged (`[!A-Z]*`) or folded, matches one of the forms."""
    wanted = _folded(pattern)
    return any(
        form == wanted or fits(form, wanted) or fits(form, pattern) for form in forms
    )


def _folded(text: str) -> str:
    """Return one canonical spelling for texts that look the same, without invisible characters."""
    if text.isascii() and text.isprintable():
        return text.lower().replace(" ", "")
    # Remove combining marks before normalising: ordering n marks takes time proportional to n squared.
    bare = "".join(char for char in text if unicodedata.category(char)[0] not in "CM")
    plain = unicodedata.normalize(
        "NFKD", unicodedata.normalize("NFKD", bare).casefold()
    )
    return "".join(
        char
        for char in plain
        if unicodedata.category(char)[0] not in "CZM" and char not in _BLANK
    )
