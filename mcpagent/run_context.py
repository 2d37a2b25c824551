"""What a tool function can know about the run it is called in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from mcpagent.conversation import Conversation
from mcpagent.errors import AgentStateError
from mcpagent.messages import Message
from mcpagent.tool_context import ToolContext

Deps = TypeVar("Deps")


@dataclass(frozen=True)
class RunContext(Generic[Deps]):
    """The run that a tool is called in, or a toolset is listed for.

    A tool function gets it as its first parameter, annotated `RunContext` or `RunContext[YourDeps]`; the model never
    sees that parameter. `deps` are the values given to `Agent(deps=...)` or `ask(deps=...)`. `thread_id` names the
    conversation, `run_id` the answer to one prompt; it is "" while an agent starts. `approved`: this very call was
    approved. `exits` is left when the run ends.
    """

    deps: Deps
    tool_context: ToolContext = field(default_factory=ToolContext)
    run_id: str = ""
    thread_id: str = ""
    call_id: str = ""
    tool_name: str = ""
    approved: bool = False
    conversation: Conversation = field(default_factory=Conversation, repr=False)
    exits: AsyncExitStack = field(default_factory=AsyncExitStack, repr=False, compare=False)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far, with the message that makes this call."""
        return self.conversation.messages

    def for_call(self, call_id: str, tool_name: str, *, approved: bool = False) -> RunContext[Deps]:
        """The context of one call."""
        return replace(self, call_id=call_id, tool_name=tool_name, approved=approved)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Makes this what `run_context()` gives, in this task and those it starts."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


_CURRENT: ContextVar[RunContext[Any] | None] = ContextVar("mcpagent_run_context", default=None)


def run_context() -> RunContext[Any]:
    """The run in which this code is called; raises `AgentStateError` where there is none."""
    context = _CURRENT.get()
    if context is None:
        raise AgentStateError("no agent is running here; a RunContext exists only while a tool is called or listed")
    return context
