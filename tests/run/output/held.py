"""What a provider's model writes when it is held to a schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mcpagent.run.output.output_spec import RESULT, output_spec
from mcpagent.run.validation import problems
from tests.simulator.values import Said, View


def filled(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """The value with null for what it leaves out and the schema does not let it."""
    while "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        schema = root.get("$defs", root.get("definitions", {}))[name]
    for branch in schema.get("anyOf", ()):
        made = filled(value, branch, root)
        if not problems({**branch, "$defs": root.get("$defs", {})}, made):
            return made
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [filled(item, schema["items"], root) for item in value]
    if isinstance(value, dict) and "properties" in schema:
        named = schema["properties"]
        missing = {name: None for name in schema.get("required", ()) if name not in value}
        return {**{name: filled(item, named.get(name, {}), root) for name, item in value.items()}, **missing}
    return value


class Writer:
    """Answers with the JSON in whatever way it is asked, after the calls that are given, one in each turn."""

    def __init__(self, output_type: Any, document: Any, calls: Sequence[Sequence[Said]] = ()) -> None:
        self.is_wrapped = output_spec(output_type).is_wrapped
        self.document = document
        self.calls = calls
        self.seen: list[View] = []

    def __call__(self, view: View) -> Sequence[Said]:
        self.seen.append(view)
        if len(self.seen) <= len(self.calls):
            return self.calls[len(self.seen) - 1]
        document = {RESULT: self.document} if self.is_wrapped else self.document
        if "submit_answer" in view.shown:
            schema = view.shown["submit_answer"]
            return [("submit_answer", filled(document, schema, schema))]
        return [json.dumps(filled(document, view.output, view.output) if view.output is not None else document)]
