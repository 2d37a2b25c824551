"""Repair malformed results: an invalid tool, block or field is fixed or removed, and the rest stays usable.

The SDK validates a whole result at once and raises an error for the first mistake; here, each item is validated
separately. Every change is reported as one printable line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from mcp_types import CallToolResult, methods
from mcp_types.version import (
    KNOWN_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)
from pydantic import ValidationError

from mcpagent.history.intake.budget import MAX_BLOCKS, MAX_MESSAGE_VALUES
from mcpagent.history.intake.listed_items import OVER_BUDGET, values_within_budget
from mcpagent.mcp.result_content import says_true
from mcpagent.mcp.transports.bytes_to_messages import OVER_BUDGET_MARK, encodable
from mcpagent.utilities.python.worker_threads import json_in_steps
from mcpagent.utilities.text.safe_text import safe_line

Raw: TypeAlias = dict[str, Any]

MAX_ITEMS = 10_001
"""Maximum number of items: one more than a toolset uses, so that the toolset can report the excess."""

_AT_ONCE = 500
"""Number of items validated at once: each takes about 20 µs, and nothing can interrupt the validation."""

_LISTS: Mapping[str, tuple[str, frozenset[str]]] = {
    "tools/list": ("tools", frozenset({"name", "inputSchema"})),
    "prompts/list": ("prompts", frozenset({"name"})),
    "resources/list": ("resources", frozenset({"name", "uri"})),
    "resources/templates/list": (
        "resourceTemplates",
        frozenset({"name", "uriTemplate"}),
    ),
}
"""For each method of a list: the field with its items, and the required fields of an item."""

_COMPLETE = {**methods.MONOLITH_RESULTS, "tools/call": CallToolResult}
"""The models of complete results: validating against one model takes a seventh of the time for all models of a
result.
"""

_CALL_FIELDS = (
    "content",
    "structuredContent",
    "isError",
    "resultType",
    "_meta",
    "inputRequests",
    "requestState",
)
_PLAIN_FIELDS, _TEXT_FIELDS = (
    frozenset({"content", "isError", "resultType"}),
    frozenset({"type", "text"}),
)
_COMPLETED = {"resultType": "complete"}
_CACHE_HINTS = _COMPLETED | {"ttlMs": 0, "cacheScope": "private"}


def _as_text(value: Any) -> Raw:
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        return {"type": "text", "text": value["text"]}
    return {
        "type": "text",
        "text": value if isinstance(value, str) else json_in_steps(value),
    }


def _as_message(message: Any) -> Raw:
    return {
        "role": "user",
        "content": _as_text(
            message.get("content") if isinstance(message, dict) else message
        ),
    }


def _as_content(item: Any) -> Raw:
    return {"uri": "unknown:", "text": _as_text(item)["text"]}


_ITEMS_OF: Mapping[str, tuple[str, str, Raw, Callable[[Any], Raw]]] = {
    "tools/call": ("content", "content block", _COMPLETED, _as_text),
    "prompts/get": ("messages", "message", _COMPLETED, _as_message),
    "resources/read": ("contents", "content", _CACHE_HINTS, _as_content),
}
"""For each method: the field with the result's items, the name of an item, other required fields, and a function that
makes an item from a text.
"""


def repair_result(
    method: str, version: str, result: Raw
) -> tuple[Raw | str, tuple[str, ...]]:
    """Return the result in a form that the SDK accepts, and the changes; if it is unusable, the reason as text."""
    result, cut = _bounded(method, result)
    if _flaw(method, version, result) is None:
        return result, cut
    result = encodable(result)
    if method in _LISTS:
        repaired_result, changes = _repair_list(method, version, result)
    elif (
        method == "tools/call"
        and version in MODERN_PROTOCOL_VERSIONS
        and _wants_input(result)
    ):
        repaired_result, changes = result, []
    elif method == "tools/call":
        repaired_result, changes = _repair_call(version, result)
    elif method in _ITEMS_OF:
        key, _, rest, _ = _ITEMS_OF[method]
        items, changes = _each(method, version, result.get(key))
        repaired_result = {key: items} | rest
    elif method == "initialize":
        repaired_result, changes = _repair_initialize(result)
    else:
        repaired_result, changes = result, []
    flaw = _flaw(method, version, repaired_result)
    return (repaired_result if flaw is None else f"its result is malformed: {flaw}"), (
        *cut,
        *changes,
    )


def _bounded(method: str, result: Raw) -> tuple[Raw, tuple[str, ...]]:
    """Return the result with a limited number of items, so that validating them is quick, and the changes."""
    if method == "tools/call":
        content = result.get("content")
        if not isinstance(content, list) or len(content) <= MAX_BLOCKS:
            return result, ()
        rest = {
            "type": "text",
            "text": "\n".join(
                _as_text(block)["text"] for block in content[MAX_BLOCKS:]
            ),
        }
        change = f"has {len(content)} content blocks; those after the first {MAX_BLOCKS} are put together as text"
        return result | {"content": [*content[:MAX_BLOCKS], rest]}, (change,)
    key, *_ = _LISTS.get(method) or _ITEMS_OF.get(method) or ("",)
    items = result.get(key)
    if not isinstance(items, list):
        return result, ()
    changes: list[str] = []
    kept = items
    if len(items) > MAX_ITEMS:
        kept = items[:MAX_ITEMS]
        changes.append(f"has {len(items)} {key}; the first {MAX_ITEMS} are used")
    if method in _LISTS:
        kept, dropped = _within_budget(key, kept)
        changes += dropped
    if not changes:
        return result, ()
    return result | {key: kept}, tuple(changes)


def _within_budget(key: str, items: list[Any]) -> tuple[list[Any], list[str]]:
    """Return the items of a list that are within the budget, and the changes."""
    kept: list[Any] = []
    changes: list[str] = []
    values = 0
    for position, item in enumerate(items):
        found = None
        if not (isinstance(item, dict) and OVER_BUDGET_MARK in item):
            found = values_within_budget(item, _name_of(item))
        if found is None:
            changes.append(f"{_shown(key, position, item)} dropped: {OVER_BUDGET}")
            continue
        values += found
        if values > MAX_MESSAGE_VALUES:
            changes.append(
                f"has over {MAX_MESSAGE_VALUES:,} values; the first {len(kept)} {key} are used"
            )
            break
        kept.append(item)
    return kept, changes


def _name_of(item: Any) -> Any:
    if isinstance(item, dict):
        return item.get("name")
    return None


def _shown(key: str, position: int, item: Any) -> str:
    """Return an item's name for the report of a change."""
    name = _name_of(item)
    if isinstance(name, str):
        return f'{key.rstrip("s")} "{safe_line(name, 60)}"'
    return f"{key.rstrip('s')} number {position + 1}"


def _flaw(method: str, version: str, result: Raw) -> str | None:
    """Return the mistake for which the SDK would raise an error, or None. A long list is checked in steps, so that
    other threads can run.
    """
    key = ""
    if method in _LISTS:
        key = _LISTS[method][0]
    items = result.get(key)
    if not isinstance(items, list) or len(items) <= _AT_ONCE:
        return _flaw_of(method, version, result)
    steps = (
        result | {key: items[start : start + _AT_ONCE]}
        for start in range(0, len(items), _AT_ONCE)
    )
    return next(
        (
            flaw
            for step in steps
            if (flaw := _flaw_of(method, version, step)) is not None
        ),
        None,
    )


def _flaw_of(method: str, version: str, result: Raw) -> str | None:
    if method == "tools/call":
        if _is_plain(version, result):
            return None
        result = _without_values(result)
    if result.get("resultType") == "input_required":
        forms = methods.MONOLITH_RESULTS
    else:
        forms = _COMPLETE
    try:
        methods.parse_server_result(method, version, result, monolith=forms)
    except KeyError:
        return None
    except ValidationError as error:
        return _described(error)
    except (ValueError, RuntimeError) as error:
        return safe_line(str(error), 120)
    return None


def _is_plain(version: str, result: Raw) -> bool:
    """Return whether a call's result has only texts, as most results do: a fast check instead of the models'
    validation.
    """
    if version not in KNOWN_PROTOCOL_VERSIONS or not result.keys() <= _PLAIN_FIELDS:
        return False
    is_complete = "resultType" not in result and version not in MODERN_PROTOCOL_VERSIONS
    content = result.get("content")
    return (
        (is_complete or result.get("resultType") == "complete")
        and isinstance(result.get("isError", False), bool)
        and isinstance(content, list)
        and all(
            isinstance(block, dict)
            and block.keys() == _TEXT_FIELDS
            and block["type"] == "text"
            and isinstance(block["text"], str)
            for block in content
        )
    )


def _without_values(result: Raw) -> Raw:
    """Return a call's result without fields that may contain any value, because validating these would take long."""
    known = {name: result[name] for name in _CALL_FIELDS if name in result}
    return known | {
        name: {}
        for name in ("structuredContent", "_meta")
        if isinstance(known.get(name), dict)
    }


def _described(error: ValidationError) -> str:
    """Return the validation error with the longest path: for a union, that is the error of the branch that was
    meant.
    """
    first = max(
        error.errors(include_url=False, include_input=False),
        key=lambda item: len(item["loc"]),
    )
    steps = [str(step) for step in first["loc"] if not str(step)[:1].isupper()]
    return safe_line(f"{'.'.join(steps)}: {first['msg']}", 160)


def _repair_list(method: str, version: str, result: Raw) -> tuple[Raw, list[str]]:
    key, needed = _LISTS[method]
    items = result.get(key)
    if not isinstance(items, list):
        return {key: "missing"}, []
    kept: list[Any] = []
    changes: list[str] = []
    for position, item in enumerate(items):
        repaired_item, change = _repair_item(method, version, key, needed, item)
        if repaired_item is not None:
            kept.append(repaired_item)
        if change:
            changes.append(f"{_shown(key, position, item)} {change}")
    rest = {
        name: result[name] for name in ("nextCursor", *_CACHE_HINTS) if name in result
    }
    whole = rest | {key: kept}
    if _flaw(method, version, whole) is not None:
        cursor = {}
        if isinstance(rest.get("nextCursor"), str):
            cursor = {"nextCursor": rest["nextCursor"]}
        whole = {key: kept} | cursor | _CACHE_HINTS
    return whole, changes


def _repair_item(
    method: str, version: str, key: str, needed: frozenset[str], item: Any
) -> tuple[Any, str]:
    """Return the item without invalid optional fields, None if a required field is invalid; and the change."""
    if not isinstance(item, dict):
        return None, "dropped: it is not an object"
    flaw = _flaw(method, version, {key: [item]} | _CACHE_HINTS)
    if flaw is None:
        return item, ""
    core = {name: value for name, value in item.items() if name in needed}
    core_flaw = _flaw(method, version, {key: [core]} | _CACHE_HINTS)
    if core_flaw is not None:
        return None, f"dropped: {core_flaw}"
    lost: list[str] = []
    for name, value in item.items():
        if name in needed:
            continue
        if _flaw(method, version, {key: [core | {name: value}]} | _CACHE_HINTS) is None:
            core[name] = value
        else:
            lost.append(name)
    return (
        core,
        f"used without its malformed {', '.join(safe_line(name, 40) for name in lost)}",
    )


def _repair_call(version: str, result: Raw) -> tuple[Raw, list[str]]:
    content = result.get("content", [])
    is_list = isinstance(content, list)
    blocks, changes = _each(
        "tools/call", version, content if is_list or content is None else [content]
    )
    if not is_list:
        changes.insert(0, "content is not a list")
    whole: Raw = {"content": blocks}
    if says_true(result.get("isError")):
        whole["isError"] = True
    structured = {"structuredContent": result.get("structuredContent")}
    if structured["structuredContent"] is not None:
        if _flaw("tools/call", version, whole | structured | _COMPLETED) is None:
            whole |= structured
        elif not blocks:
            whole["content"] = [_as_text(structured["structuredContent"])]
    return whole | _COMPLETED, changes


def _each(method: str, version: str, items: Any) -> tuple[list[Raw], list[str]]:
    """Return the items of a result, with malformed ones converted to text, and the changes."""
    key, what, rest, as_text = _ITEMS_OF[method]
    kept: list[Raw] = []
    changes: list[str] = []
    for item in items if isinstance(items, list) else []:
        if (
            isinstance(item, dict)
            and _flaw(method, version, {key: [item]} | rest) is None
        ):
            kept.append(item)
        else:
            changes.append(f"a malformed {what} is passed on as text")
            kept.append(as_text(item))
    return kept, changes


def _wants_input(result: Raw) -> bool:
    return result.get("resultType") == "input_required" and not result.get("content")


def _repair_initialize(result: Raw) -> tuple[Raw, list[str]]:
    """Return an `initialize` result without invalid parts; only the protocol version is required. Also return the
    changes.
    """
    whole: Raw = {"protocolVersion": result.get("protocolVersion"), "capabilities": {}}
    whole["serverInfo"] = {"name": "", "version": ""}
    changes: list[str] = []
    for name in ("capabilities", "serverInfo", "instructions"):
        if name in result and _is_usable(whole | {name: result[name]}):
            whole[name] = result[name]
        elif name != "instructions" or name in result:
            changes.append(f"{name} is missing or malformed")
            if name == "capabilities":
                whole[name] = _repair_capabilities(whole, result.get(name))
    return whole, changes


def _repair_capabilities(whole: Raw, found: Any) -> Raw:
    """Return the valid capabilities, and invalid ones as empty objects; if none can be read, tools."""
    if not isinstance(found, dict):
        return {"tools": {}}
    usable: Raw = {}
    for name, value in found.items():
        if value and _is_usable(whole | {"capabilities": {name: value}}):
            usable[name] = value
        elif value or value == {}:
            usable[name] = {}
    return usable


def _is_usable(initialize: Raw) -> bool:
    return _flaw("initialize", LATEST_HANDSHAKE_VERSION, initialize) is None
