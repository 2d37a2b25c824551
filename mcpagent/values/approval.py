"""Pending tool calls: calls that wait for a person's approval, or for the result of a tool that runs elsewhere.

This module also has the texts for the model about a denied approval. All values are plain JSON data, so that one
process can ask and another resume. A fingerprint ties an answer to the tool's definition, the call's arguments, its
position in the conversation and the session: if any of these differs, the call does not run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import NoneType
from typing import Any, Literal, TypeAlias, get_args

from mcpagent.errors import InputError, McpAgentError
from mcpagent.utilities.python.argument_checks import expect
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.messages import ToolCall, ToolDefinition, json_copy

Approval: TypeAlias = Literal["allow", "ask", "deny"]
"""The rule for a tool's calls: run them without a question, ask before each, or never run them."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A permission rule from a file or variable: calls that its pattern matches run, need approval or are denied.

    A rule with a `server` comes from the entry of that server, and its pattern matches the server's own tool names
    (`git_*`). With `only_reads`, the rule applies only to tools and resources that the server declares as read-only.
    `place` is the file or variable that has the rule, and `key` the key in the file.
    """

    pattern: str
    approval: Approval
    place: str = ""
    key: str = ""
    server: str = ""
    only_reads: bool = False


PendingKind: TypeAlias = Literal["approval", "external"]
_KINDS = frozenset(get_args(PendingKind))


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The answer to one `PendingCall`; `PendingCall.approve`, `.deny` and `.result` create it.

    `arguments` replace all arguments of the call; None: unchanged. `value` is the result of an external tool (text, or
    any JSON data); `failed`: the value is that tool's error. The model receives `message` with a denial. `asked` is
    False for a denial that no person made. `kind` and `session` are copies of the pending call's.
    """

    call_id: str
    fingerprint: str
    approved: bool
    arguments: dict[str, Any] | None = None
    message: str = ""
    value: Any = None
    failed: bool = False
    kind: PendingKind = "approval"
    session: str = ""
    asked: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the data that `from_json` reads; `value` must be JSON data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CallAnswer:
        """Create the answer from JSON data. Raises `InputError` if the data is not an answer."""
        optional: dict[str, Any] = {
            "arguments": (dict, NoneType),
            "message": str,
            "value": object,
            "failed": bool,
            "kind": _KINDS,
            "session": str,
            "asked": bool,
        }
        return cls(
            **_checked(
                "answer",
                data,
                {"call_id": str, "fingerprint": str, "approved": bool},
                optional,
            )
        )


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that did not run yet, because it waits for an answer.

    `kind`: "approval" if a person must allow the call, "external" if the caller runs it and passes the result. `tool`
    is the name that the model called; `server` is None for a local function. `session` is the ID of the session that
    has the call.
    """

    kind: PendingKind
    call_id: str
    tool: str
    arguments: dict[str, Any]
    server: str | None
    description: str
    fingerprint: str
    session: str = ""

    @classmethod
    def of(
        cls,
        kind: PendingKind,
        call: ToolCall,
        definition: ToolDefinition,
        *,
        place: int = 0,
        session: str = "",
    ) -> PendingCall:
        """Return a pending call of the tool with this definition; the fingerprint covers the call and the definition.

        `place` is the number of messages up to the one with the call.
        """
        return cls(
            kind,
            call.id,
            definition.name,
            json_copy(call.arguments),
            server=definition.server,
            description=definition.description,
            fingerprint=call_fingerprint(call, definition, place, session),
            session=session,
        )

    def approve(self, arguments: dict[str, Any] | None = None) -> CallAnswer:
        """Allow the call to run once; `arguments`, if passed, replace its own. Raises `InputError` for an external
        call.
        """
        if self.kind == "external":
            raise InputError(
                f'"{self.tool}" is run by you; give what it gave: call.result(...), or call.deny()'
            )
        expect(
            "approve",
            arguments,
            (dict, NoneType),
            "arguments as a dict, or none",
            error=InputError,
        )
        return CallAnswer(
            self.call_id, self.fingerprint, True, arguments, session=self.session
        )

    def deny(self, message: str = "", *, asked: bool = True) -> CallAnswer:
        """Deny the call; the model receives the denial with `message`.

        `asked=False`: no person was asked; `message` is the reason, and the model does not read that the user declined.
        """
        expect("deny", message, str, "a message as text", error=InputError)
        return CallAnswer(
            self.call_id,
            self.fingerprint,
            False,
            message=message,
            kind=self.kind,
            session=self.session,
            asked=asked,
        )

    def result(self, value: Any, *, failed: bool = False) -> CallAnswer:
        """Return an answer with the result of an external tool; `failed`: the value is the tool's error.

        Raises `InputError` for a call that waits for approval.
        """
        if self.kind == "approval":
            raise InputError(
                f'"{self.tool}" waits for approval, not for a result; use call.approve() or call.deny()'
            )
        return CallAnswer(
            self.call_id,
            self.fingerprint,
            True,
            value=value,
            failed=failed,
            kind=self.kind,
            session=self.session,
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data, to show the call or to store it until it is answered; `from_json` reads it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PendingCall:
        """Create the pending call from the data of `to_json`. Raises `InputError` if the data is not a pending call."""
        texts = dict.fromkeys(("call_id", "tool", "description", "fingerprint"), str)
        needed = {"kind": _KINDS, "arguments": dict, "server": (str, NoneType), **texts}
        return cls(**_checked("pending call", data, needed, {"session": str}))


def _checked(
    what: str, data: object, needed: Mapping[str, Any], optional: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the data if it has all `needed` keys, no keys but these and `optional` ones, and values of the right
    types.
    """
    expect(what, data, Mapping, "what to_json() gave", error=InputError)
    assert isinstance(data, Mapping)
    kinds = {**needed, **optional}
    wrong = [
        str(name)
        for name in data
        if name not in kinds or not _fits(data[name], kinds[name])
    ]
    wrong += [name for name in needed if name not in data]
    if wrong:
        raise InputError(
            f"{what}: wrong or missing {safe_line(', '.join(sorted(wrong)))}; pass what to_json() gave"
        )
    return dict(data)


def _fits(value: object, kind: Any) -> bool:
    if kind is _KINDS:
        return isinstance(value, str) and value in kind
    return isinstance(value, kind)


Decision: TypeAlias = "bool | CallAnswer | PendingCall"
"""The return value of an approval callback: True, False, an answer, or the `PendingCall` itself to leave it pending."""

OnApproval: TypeAlias = Callable[[PendingCall], "Decision | Awaitable[Decision]"]
"""Callback that decides on one call while the run waits. An exception in it denies the call."""


class CallsPendingError(McpAgentError):
    """Raised if the run ended because calls wait for answers; `requests` has these calls. Continue with
    `Session.resume(answers)`.
    """

    def __init__(self, requests: Sequence[PendingCall]) -> None:
        named = ", ".join(f'"{request.tool}" ({request.kind})' for request in requests)
        super().__init__(
            f"{len(requests)} tool call(s) wait for an answer: {named}; pass answers to "
            "session.resume() (after agent.ask: agent.resume()), or set Agent(approval=ApprovalPolicy(decide=...))"
        )
        self.requests = tuple(requests)


def denied_words(tool: str, answer: CallAnswer) -> str:
    """Return the text that the model receives for a denied call: who denied it, and the message of the answer."""
    end = f": {answer.message}" if answer.message else "."
    if answer.asked:
        return f'The user declined this call of "{tool}"{end}'
    return f'"{tool}" was not run{end}'


def outdated_words(tool: str) -> str:
    """Return the text that the model receives if the call or its tool changed after the answer was requested."""
    return f'"{tool}" or the call changed after the answer was asked for, so it was not run. Call again.'


def call_fingerprint(
    call: ToolCall, definition: ToolDefinition, place: int = 0, session: str = ""
) -> str:
    """Return the SHA-256 of the call, its position, its session and the tool's definition, as canonical JSON."""
    bound = [
        session,
        place,
        call.id,
        call.arguments,
        definition.name,
        definition.kind,
        *definition.key[:2],
        definition.title,
        definition.description,
        definition.parameters,
        definition.read_only,
        *filter(None, [definition.listed]),
    ]
    text = json.dumps(bound, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def usable_answers(answers: object) -> Mapping[str, CallAnswer]:
    """Return the answers by call ID. Raises `InputError` for an invalid answer, and for two answers to one call."""
    if isinstance(answers, Sequence) and not isinstance(answers, str | bytes):
        given = list(answers)
    else:
        given = [answers]
    by_call: dict[str, CallAnswer] = {}
    for answer in given:
        if not isinstance(answer, CallAnswer):
            expected = "a list of CallAnswer, such as [call.approve() for call in session.pending]"
            raise InputError(
                f"resume: expected {expected}, got {type(answer).__name__}"
            )
        if answer.call_id in by_call:
            raise InputError(
                f'resume: two answers for call "{safe_line(answer.call_id, 60)}"; give one'
            )
        by_call[answer.call_id] = answer
    return by_call
