"""Tool calls that wait for somebody's answer: a person's approval, or the result of a tool that runs elsewhere.

All values are plain JSON data, so that one process can ask and another go on. An answer is bound to the tool's
definition and the call's arguments by a fingerprint: where either changed in between, nothing is run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from mcpagent.errors import InputError, McpAgentError
from mcpagent.messages import ToolCall, ToolDefinition
from mcpagent.safe_text import safe_line

PendingKind: TypeAlias = Literal["approval", "external"]


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The answer to one `PendingCall`; `PendingCall.approve`, `.deny` and `.result` make it.

    `arguments` replace the call's own as a whole. `value` is what an external tool gave (text, or anything that is
    JSON); `failed` says that it is that tool's error. `message` is told to the model with a denial.
    """

    call_id: str
    fingerprint: str
    approved: bool
    arguments: dict[str, Any] | None = None
    message: str = ""
    value: Any = None
    failed: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CallAnswer:
        """Raises `InputError` where the data is not an answer."""
        fields: dict[str, Any] = {
            "call_id": str,
            "fingerprint": str,
            "approved": bool,
            "arguments": (dict, type(None)),
            "message": str,
            "value": object,
            "failed": bool,
        }
        unknown = sorted(set(data) - set(fields))
        missing = [name for name in ("call_id", "fingerprint", "approved") if name not in data]
        wrong = [name for name, kind in fields.items() if name in data and not isinstance(data[name], kind)]
        if unknown or missing or wrong:
            named = safe_line(", ".join((*unknown, *missing, *wrong)))
            raise InputError(f"answer: wrong or missing {named}; pass what to_json() gave")
        return cls(**data)


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that was not run, because it waits for an answer.

    "approval": may it run? "external": the caller runs it and gives the result. `tool` is the offered name.
    """

    kind: PendingKind
    call_id: str
    tool: str
    arguments: dict[str, Any]
    server: str | None
    description: str
    fingerprint: str

    @classmethod
    def of(cls, kind: PendingKind, call: ToolCall, definition: ToolDefinition) -> PendingCall:
        return cls(
            kind,
            call.id,
            definition.name,
            call.arguments,
            definition.server,
            definition.description,
            fingerprint(call, definition),
        )

    def approve(self, arguments: dict[str, Any] | None = None) -> CallAnswer:
        """It may run, once; with `arguments` in place of its own where given."""
        return CallAnswer(self.call_id, self.fingerprint, True, arguments)

    def deny(self, message: str = "") -> CallAnswer:
        """It may not run; the model is told so, and `message`."""
        return CallAnswer(self.call_id, self.fingerprint, False, message=message)

    def result(self, value: Any, *, failed: bool = False) -> CallAnswer:
        """What an external tool gave."""
        return CallAnswer(self.call_id, self.fingerprint, True, value=value, failed=failed)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


OnApproval: TypeAlias = Callable[[PendingCall], bool | CallAnswer | Awaitable[bool | CallAnswer]]
"""Decides on one call in the same process; whatever it raises is a denial."""


class CallsPendingError(McpAgentError):
    """The run ended because calls wait for answers: `requests`. Go on with `Agent.resume(answers)`."""

    def __init__(self, requests: Sequence[PendingCall]) -> None:
        named = ", ".join(f'"{request.tool}" ({request.kind})' for request in requests)
        super().__init__(
            f"{len(requests)} tool call(s) wait for an answer: {named}; pass answers to agent.resume(), "
            "or set Agent(on_approval=...)"
        )
        self.requests = tuple(requests)


def fingerprint(call: ToolCall, definition: ToolDefinition) -> str:
    """SHA-256 over the call and everything that says what it would do, as canonical JSON."""
    bound = [
        call.id,
        call.arguments,
        definition.name,
        definition.server,
        definition.original_name,
        definition.description,
        definition.parameters,
    ]
    text = json.dumps(bound, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
