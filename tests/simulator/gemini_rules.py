"""Gemini behind its OpenAI-compatible endpoint: what its schemas may hold, and that calls come back signed.

Field names are those of the `Schema` type of Google's SDK; the texts are those of reported refusals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.simulator.openai_rules import chat_answer, check_chat
from tests.simulator.values import Said, require

_FIELDS = frozenset(
    "anyOf default description enum example format items maxItems maxLength maxProperties maximum minItems minLength "  # noqa: SIM905
    "minProperties minimum nullable pattern properties propertyOrdering required title type".split()
)
_TYPES = ("string", "number", "integer", "boolean", "array", "object")
_FORMATS = {
    "string": ("enum", "date-time"),
    "number": ("float", "double"),
    "integer": ("int32", "int64"),
}
UNSIGNED = "skip_thought_signature_validator"


def check(body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    """Raises `Refusal` where the real endpoint answers 400."""
    check_chat(body, headers)
    for place, tool in enumerate(body.get("tools", ())):
        _check_schema(tool["function"]["parameters"], f"tools[0].function_declarations[{place}].parameters")
    alone = "response_format" not in body or not body.get("tools")
    require(alone, "Function calling with a response mime type: 'application/json' is unsupported")
    before = ""
    for place, message in enumerate(body["messages"]):
        calls = message.get("tool_calls")
        if message["role"] == "assistant":
            require(
                before in ("user", "tool"), "Please ensure that function call turn comes immediately after a user turn"
            )
        before = message["role"]
        if calls:
            signature = calls[0].get("extra_content", {}).get("google", {}).get("thought_signature", "")
            signed = signature.startswith("sig-") or signature == UNSIGNED
            require(signed, f"Function call is missing a thought_signature in functionCall parts: messages.{place}")


def _check_schema(schema: Any, where: str) -> None:
    require(isinstance(schema, dict), f"Invalid value at '{where}'")
    unknown = sorted(schema.keys() - _FIELDS)
    named = unknown[0] if unknown else ""
    require(not unknown, f"Invalid JSON payload received. Unknown name \"{named}\" at '{where}': Cannot find field.")
    kind = schema.get("type")
    require(kind in _TYPES or (kind is None and schema.get("anyOf")), f"Invalid value at '{where}.type': {kind!r}")
    for field in ("properties", "required"):
        require(field not in schema or kind == "object", f"{where}.{field}: only allowed for OBJECT type")
    for name in schema.get("required", ()):
        require(name in schema.get("properties", {}), f"{where}.required[{name}]: property is not defined")
    allowed = (None, *_FORMATS.get(str(kind), ()))
    require(schema.get("format") in allowed, f"{where}.format: only {allowed} are supported for {kind}")
    texts = all(isinstance(value, str) and value for value in schema.get("enum", ()))
    require(texts and ("enum" not in schema or kind == "string"), f"Invalid value at '{where}.enum[0]' (TYPE_STRING)")
    require(kind != "array" or "items" in schema, f"{where}.items: missing field.")
    if kind == "array":
        _check_schema(schema["items"], f"{where}.items")
    for place, branch in enumerate(schema.get("anyOf", ())):
        _check_schema(branch, f"{where}.any_of[{place}]")
    for name, inner in schema.get("properties", {}).items():
        _check_schema(inner, f"{where}.properties[{name}]")


def answer(body: Mapping[str, Any], said: Sequence[Said], number: int, usage: Mapping[str, int]) -> dict[str, Any]:
    """As everywhere, with a signature: on the first call, or on the message."""
    made = chat_answer(body, said, number, usage)
    message = made["choices"][0]["message"]
    target = message["tool_calls"][0] if "tool_calls" in message else message
    target["extra_content"] = {"google": {"thought_signature": f"sig-{number}"}}
    return made


def events(made: Mapping[str, Any]) -> list[dict[str, Any]]:
    """As it streams: the signature of words comes with the last of them."""
    choice = made["choices"][0]
    message = choice["message"]
    chunk = {"id": made["id"], "object": "chat.completion.chunk", "model": made["model"]}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": message["content"] or ""}]
    deltas += [{"tool_calls": [{"index": place, **call}]} for place, call in enumerate(message.get("tool_calls", ()))]
    if "extra_content" in message:
        deltas.append({"content": "", "extra_content": message["extra_content"]})
    chunks = [{**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    return [*chunks, {**chunk, "choices": [], "usage": made["usage"]}]
