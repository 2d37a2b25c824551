"""`--json-schema FILE`: the answer as one JSON document that fits a schema of the user's own."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcpagent.errors import ConfigError, McpAgentError
from mcpagent.safe_text import safe_line

ATTEMPTS = 3
MAX_PROBLEMS = 3
_FENCED = re.compile(r"```[a-zA-Z]*\n(.*?)\n?```", re.DOTALL)


class MisfitError(McpAgentError):
    """An answer is no JSON document, or one that does not fit the schema; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """A JSON Schema that answers have to fit. References are looked up inside the schema only, never on a network."""

    schema: Any

    @classmethod
    def read(cls, path: Path) -> AnswerSchema:
        """Raises `ConfigError` for a file that is no JSON Schema."""
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for

        shown = safe_line(str(path), 100)
        try:
            schema = json.loads(path.read_bytes())
        except (OSError, RecursionError) as error:
            raise ConfigError(f"--json-schema {shown}: cannot be read: {safe_line(str(error), 120)}") from None
        except ValueError as error:
            raise ConfigError(f"--json-schema {shown}: no JSON: {safe_line(str(error), 120)}") from None
        if not isinstance(schema, dict):
            raise ConfigError(f"--json-schema {shown}: expected an object, a JSON Schema")
        try:
            validator_for(schema).check_schema(schema)
        except SchemaError as error:
            raise ConfigError(f"--json-schema {shown}: no JSON Schema: {safe_line(error.message, 200)}") from None
        return cls(schema)

    def asked_for(self, prompt: str) -> str:
        """The question with the form of its answer."""
        shape = json.dumps(self.schema, ensure_ascii=False)
        return (
            f"{prompt}\n\nGive the answer as one JSON document and nothing else: no words around it, no code fence. "
            f"It must fit this JSON Schema:\n{shape}"
        )

    def asked_again(self, problem: str) -> str:
        return f"That answer cannot be used: {problem}. Give the whole answer again, as the JSON document alone."

    def read_answer(self, text: str) -> Any:
        """The document in an answer. Raises `MisfitError`."""
        from jsonschema.validators import validator_for
        from referencing import Registry
        from referencing.exceptions import Unresolvable

        try:
            document = _document(text)
            json.dumps(document, allow_nan=False)
        except (ValueError, RecursionError) as error:
            raise MisfitError(f"it is no JSON: {safe_line(str(error), 120)}") from None
        validator = validator_for(self.schema)(self.schema, registry=Registry())
        try:
            problems = [
                f"{'.'.join(map(str, error.absolute_path)) or 'the document'}: {safe_line(error.message, 200)}"
                for error, _ in zip(validator.iter_errors(document), range(MAX_PROBLEMS), strict=False)
            ]
        except Unresolvable as error:
            raise ConfigError(f"--json-schema: a reference leads out of it: {safe_line(str(error), 120)}") from None
        if problems:
            raise MisfitError("; ".join(problems))
        return document


def _document(text: str) -> Any:
    """The JSON of the whole text, or of its only code block."""
    try:
        return json.loads(text)
    except ValueError:
        blocks = _FENCED.findall(text)
        if len(blocks) != 1:
            raise
        return json.loads(blocks[0])
