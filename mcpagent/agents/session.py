"""`Session`: the public class of one conversation."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from mcpagent.agents.run_input import RunInput
from mcpagent.agents.runnable import Runnable
from mcpagent.agents.session_runtime import SessionRuntime
from mcpagent.history.sent_messages import OmittedParts
from mcpagent.journal.sessions.loaded_session import LoadedSession
from mcpagent.values.approval import PendingCall
from mcpagent.values.events import ConversationCompacted
from mcpagent.values.messages import Message, Spent, ToolDefinition
from mcpagent.values.tool_context import ToolContext
from mcpagent.values.type_variables import Deps

_MAKING = threading.Lock()


class Session(Runnable[Deps]):
    """A conversation that uses an agent's servers, tools and model: `agent.session()`. An agent can have any number.

    A session executes one run at a time; sessions do not wait for each other. A session that is not stored ends when
    your code no longer refers to it.
    """

    __slots__ = ("__weakref__", "_asked", "_runtime")

    _asked: SessionRuntime[Deps]

    def __init__(self, runtime: SessionRuntime[Deps]) -> None:
        self._runtime = self._asked = runtime

    def __repr__(self) -> str:
        return repr(self._runtime)

    # -- Conversation --------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The name of the session for the store, toolsets and listeners (`RunContext.thread_id`)."""
        return self._runtime.id

    @property
    def tool_context(self) -> ToolContext:
        """The state that the tools of this session share."""
        return self._runtime.tool_context

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far: a valid history, except for calls at its end that are pending or running."""
        return self._runtime.messages

    @property
    def sent_messages(self) -> tuple[Message, ...]:
        """The messages of the next request before its prompt; after a compaction, a summary and the later messages."""
        return self._runtime.sent_messages

    @property
    def left_out(self) -> OmittedParts:
        """The part of `messages` that the next request does not contain."""
        return self._runtime.left_out

    @property
    def system(self) -> str:
        """The system prompt of this conversation."""
        return self._runtime.system

    @property
    def discovered_tools(self) -> dict[str, ToolDefinition]:
        """The offered tools, except `search_tools` and other tools of mcpagent: first the pre-discovered ones by name,
        then the rest in the order of discovery.
        """
        return self._runtime.discovered_tools

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that wait for an answer: those in the history without a result, unless they are running."""
        return self._runtime.pending

    @property
    def spent(self) -> Spent:
        """The tokens, cost, turns and calls of the runs of this session."""
        return self._runtime.spent

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the answer to the active, pending or unfinished run; None for text."""
        return self._runtime.output_schema

    @property
    def is_answering(self) -> bool:
        """True while a run is in progress, or still ending after its stream was abandoned."""
        return self._runtime.is_answering

    @property
    def is_unfinished(self) -> bool:
        """True if a prompt has no answer yet, after an error or the end of a process: `resume()` continues the run.

        False while calls wait for an answer (`pending`), and while a run is active.
        """
        return self._runtime.is_unfinished

    # -- Changes -------------------------------------------------------------------------------------------------------

    async def compact(self, keep: str = "") -> ConversationCompacted | None:
        """Let the model summarise the messages before the last prompt; later requests contain the summary instead.

        `messages` stays complete. `keep` is the topic that the summary must cover above all. Returns None if there is
        nothing to summarise. Raises `InputError` while calls wait for an answer, `LimitError` when a limit forbids or
        ends the compaction, and the errors of `ask`.
        """
        return await self._runtime.compact(keep)

    def pin(self, place: int = -1) -> None:
        """Exempt a message and the results of its calls from summaries.

        `place` is its position in `messages`; -1 is the last prompt. Raises `InputError` if the position is invalid,
        and `AgentStateError` while the session is answering.
        """
        self._runtime.pin(place)

    def rewind(self, length: int) -> None:
        """Remove all but the first `length` messages, and the tools that were discovered after these.

        Variables of programs are restored. A length between a call and its result removes both. Effects outside, and
        the spending, remain. Raises `InputError` for a length that the conversation does not have, and
        `AgentStateError` while the session is answering.
        """
        self._runtime.rewind(length)

    def snapshot(self) -> LoadedSession:
        """Return the session as a value for `mcpagent.journal.sessions.exported`; the agent needs no store for this."""
        return self._runtime.snapshot()

    def stop_keeping(self) -> None:
        """Continue in memory only; the stored messages stay in the store, and other processes can open the session."""
        self._runtime.stop_keeping()

    # -- Internals -----------------------------------------------------------------------------------------------------

    def _wait_for_answer(self, given: Callable[[], RunInput]) -> Any:
        return self._runtime._wait_for_answer(given)


def session_of(runtime: SessionRuntime[Any]) -> Session[Any]:
    """Return the `Session` of this runtime: the same object as long as user code refers to it."""
    with _MAKING:
        if runtime.shown is not None:
            shown = runtime.shown()
        else:
            shown = None
        if shown is None:
            shown = Session(runtime)
            runtime.shown = weakref.ref(shown)
        return shown
