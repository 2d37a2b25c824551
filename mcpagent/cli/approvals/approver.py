"""Decide at the terminal on calls that rules ask about, and record denied calls."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from glob import escape
from typing import Any, Literal, TypeAlias

from mcpagent.permissions.approval_policy import ApprovalPolicy
from mcpagent.permissions.decision import CallFacts, Decision, Rules, decide
from mcpagent.permissions.rule_matching import rule_of
from mcpagent.permissions.stored_approvals import StoredApprovals, What
from mcpagent.utilities.text.safe_text import safe_line, visible, with_codes
from mcpagent.values.approval import CallAnswer, PendingCall
from mcpagent.values.messages import ToolDefinition

Scope: TypeAlias = Literal["once", "session", "tool", "call", "reads", "server", "no"]
"""The scope of an answer.

"once": this call. "session": the tool, prompt or resource until the program ends. "tool", "call" (the tool with exactly
these arguments), "reads" and "server" are permanent.
"""

MAX_FLAG = 2_000
"""Maximum length of a proposed rule; a truncated rule would name something else, so longer rules are not proposed."""

NOBODY = "no one can be asked here"
_NOT_ALLOWED = "the rules of this run do not allow it"


@dataclass(frozen=True, slots=True)
class Reply:
    """The user's answer about one call. `arguments` replace the call's own; `words` are the reason for a denial."""

    scope: Scope
    arguments: dict[str, Any] | None = None
    words: str = ""


Ask: TypeAlias = Callable[
    [PendingCall, str, ToolDefinition | None, Decision | None], Awaitable[Reply]
]
"""Callback that asks the user about one call. Args: the call, the tool's label, and the decision that requires the
question."""


@dataclass(frozen=True, slots=True)
class Denial:
    """A call that was not run. `flag` is the option that would have allowed it, or ""."""

    call: PendingCall
    label: str
    reason: str
    flag: str = ""

    def line(self) -> str:
        """Return `denied: git.git_push (no one can be asked here). allow it with --allow git.git_push`."""
        hint = f". allow it with {self.flag}" if self.flag else ""
        return f"denied: {self.label} ({self.reason}){hint}"


def _nobody_asked(flag: str) -> str:
    """Return the model's reason for a denial if no user can be asked; `flag` is the option that allows the call."""
    allowed = f"; it runs with {flag}" if flag else ""
    return f"it needs the user's approval, and {NOBODY}{allowed}. Do not call it again."


_PLAIN_NAME = re.compile(r"[\w.:/@-]+")


def label_of(tool: ToolDefinition | None, name: str = "", limit: int = 140) -> str:
    """Return `server.tool` for display, with the server's own name of the tool; rules match the uncut name.

    A name with spaces or invisible characters is quoted, with these characters escaped. So no two tools look alike, and
    no name can imitate mcpagent's own text.
    """
    if tool is None:
        return safe_line(name, 80)
    own, rule = tool.key.own_name, rule_of(tool)
    shown = visible(own, "")
    is_plain = (
        shown == own
        and (tool.kind != "tool" or _PLAIN_NAME.fullmatch(own))
        and " " not in own
    )
    quoted = with_codes(own.replace("\\", "\\\\").replace('"', '\\"'), "")
    whole = visible(rule.removesuffix(own), "")
    if is_plain:
        whole += own
    else:
        whole += f'"{quoted}"'
    if len(whole) <= limit:
        return whole
    return safe_line(whole, limit)


def allow_flag(tool: ToolDefinition) -> str:
    """Return the flag that allows just this tool, safe for a shell: `?` replaces unsafe characters; "" if it would be
    too long.
    """
    own = tool.key.own_name
    named = rule_of(tool).removesuffix(own) + escape(own)
    shown = "".join(char if visible(char, "") == char else "?" for char in named)
    if len(shown) > MAX_FLAG:
        return ""
    return f"--allow {shlex.quote(shown)}"


class Approver:
    """Decides on the calls of one agent that its rules ask about, and records denials.

    `ask` is None if no user can be asked. An answer for more than one call becomes a rule of the approver.
    """

    def __init__(self, rules: Rules, stored: StoredApprovals, ask: Ask | None) -> None:
        self.rules = replace(rules, answers=stored.held, fingerprints=stored.servers)
        self.denials: list[Denial] = []
        self._stored = stored
        self._ask = ask
        self._asked_about: dict[str, CallFacts] = {}

    def policy(self, *, waits: bool = False) -> ApprovalPolicy:
        """Return the policy for `Agent(approval=...)`. With `waits`, a call that needs an answer ends the run."""
        hear = partial(self.note, waits=waits)
        policy = ApprovalPolicy(rules=lambda: self.rules, on_decision=hear)
        if waits:
            return policy
        return replace(policy, decide=self.__call__)

    def note(
        self,
        request: PendingCall,
        call: CallFacts,
        decision: Decision,
        *,
        waits: bool = False,
    ) -> None:
        """Record a denied call; otherwise store the facts about the call until its answer, unless it ends the run
        (`waits`).
        """
        if decision.verdict == "deny":
            self.denials.append(self._denial(request, call.tool, decision))
        elif not waits:
            self._asked_about[request.fingerprint] = call

    async def __call__(self, request: PendingCall) -> CallAnswer:
        """Return the answer to one call, as the `decide` callback of `ApprovalPolicy`."""
        call = self._asked_about.pop(request.fingerprint, None)
        if call is not None and decide(call, self.rules).verdict == "allow":
            # The user answered "always" while this call waited.
            return request.approve()
        return await self._answered(request, call)

    async def again(self, request: PendingCall, call: CallFacts | None) -> CallAnswer:
        """Decide on a call pending from an earlier run: a rule may deny the call, but only the user can allow it."""
        return await self._answered(request, call)

    async def _answered(
        self, request: PendingCall, call: CallFacts | None
    ) -> CallAnswer:
        tool, decision, flag = None, None, ""
        if call is not None:
            tool, decision = call.tool, decide(call, self.rules)
            flag = allow_flag(tool)
        if decision is not None and decision.verdict == "deny":
            self.denials.append(self._denial(request, tool, decision))
            told = f"{_NOT_ALLOWED}. Do not call it again."
            return request.deny(told, asked=False)
        label = label_of(tool, request.tool)
        if self._ask is None:
            self.denials.append(Denial(request, label, NOBODY, flag))
            return request.deny(_nobody_asked(flag), asked=False)
        reply = await self._ask(request, label, tool, decision)
        if reply.scope == "no":
            self.denials.append(Denial(request, label, "you said no"))
            return request.deny(reply.words)
        if tool is not None and reply.arguments is None:
            await self._keep(reply, tool, request.arguments)
        elif tool is not None and reply.arguments is not None and tool.kind == "tool":
            await self._keep(reply, tool, reply.arguments)
        # A resource or prompt that the call names is decided on, and stored, by its own name.
        return request.approve(reply.arguments)

    async def _keep(
        self, reply: Reply, tool: ToolDefinition, arguments: dict[str, Any]
    ) -> None:
        if reply.scope in ("once", "no"):
            return
        what: What = tool.kind
        if reply.scope in ("reads", "server", "call"):
            what = reply.scope
        always = reply.scope != "session"
        await asyncio.to_thread(self._stored.add, tool, what, arguments, always=always)
        self.rules = replace(self.rules, answers=self._stored.held)

    def _denial(
        self, request: PendingCall, tool: ToolDefinition | None, decision: Decision
    ) -> Denial:
        """Return the denial with its reason, and the `--allow` flag that would have allowed the call."""
        label, reason = label_of(tool, request.tool), str(decision)
        if tool is None or not decision.rule.startswith("--approve"):
            return Denial(request, label, reason)
        if decision.rule == "--approve safe" and tool.read_only is True:
            said = "says that it only reads"
            if tool.kind == "resource":
                said = "lists it"
            reason += f"; its server {said}, but is not trusted"
        return Denial(request, label, reason, allow_flag(tool))
