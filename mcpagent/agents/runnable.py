"""`Runnable`: `ask`, `run`, `resume`, `stream` and `ask_sync`, of an agent and of each of its sessions."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from mcpagent.agents.other_libraries import (
    METHODS,
    answers_other_names,
    missing_method,
)
from mcpagent.values.type_variables import Deps

# `from mcpagent import Agent` loads this module; the first `Agent(...)` loads the modules that run it.
if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from mcpagent.agents.event_stream import Answering, EventStream
    from mcpagent.agents.run_input import InputKind, RunInput
    from mcpagent.run.agent_run import RunResult
    from mcpagent.toolsets.definition import PromptOrAnswers
    from mcpagent.values.approval import CallAnswer
    from mcpagent.values.limits.run_limits import Limits
    from mcpagent.values.messages import Prompt
    from mcpagent.values.tool_context import ToolContext

_O = TypeVar("_O")


class Runnable(Generic[Deps]):
    """Methods that `Agent` and `Session` share. An agent answers in its own default session."""

    __slots__ = ()

    @property
    def _asked(self) -> Answering:
        """The session that answers. Raises `AgentStateError` for an agent that is not started."""
        raise NotImplementedError

    def _wait_for_answer(self, given: Callable[[], RunInput]) -> Any:
        """Return the answer for `ask_sync`, in code that cannot await."""
        raise NotImplementedError

    if (
        not TYPE_CHECKING
    ):  # hides `__getattr__` from type checkers, which know the attributes

        def __getattr__(self, name: str) -> Any:
            if name in METHODS:
                raise missing_method(type(self).__name__, name)
            return object.__getattribute__(self, name)

    @overload
    def ask(
        self,
        prompt: Prompt,
        *,
        output_type: None = None,
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> Coroutine[Any, Any, str]: ...
    @overload
    def ask(
        self,
        prompt: Prompt,
        *,
        output_type: Mapping[str, Any],
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> Coroutine[Any, Any, Any]: ...
    @overload
    def ask(
        self,
        prompt: Prompt,
        *,
        output_type: TypeForm[_O],
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> Coroutine[Any, Any, _O]: ...
    @answers_other_names
    def ask(
        self,
        prompt: Prompt,
        *,
        output_type: Any = None,
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Return the answer to the prompt, continuing the conversation.

        After an error or a cancellation the conversation continues with the next `ask`.

            city = await agent.ask("Which city is the largest?", output_type=City)

        Args:
            prompt: A text, or parts such as `[Text("What is this?"), File("photo.png")]`.
            output_type: The type of the answer: a pydantic model, dataclass, TypedDict, enum, list, union, or a JSON
                Schema. None: text.
            deps: Your own objects for tool functions, in place of the session's, for this run.
            tool_context: The context of tool functions, in place of the session's, for this run.
            limits: The limits of this run, in place of `RunOptions(limits=...)`.

        Raises:
            ModelError: The model failed.
            InputError: The prompt or the type is unusable.
            OutputError: The answer is not of the type, also after a second request.
            LimitError: A limit ended the run before there was an answer.
            AgentStateError: The session is answering, or the agent is not started.
            CallsPendingError: Calls wait for an answer.
        """
        given = _given("prompt", prompt, output_type, deps, tool_context, limits)
        answering = self._asked.answer_to(given)
        # Python's warning about a missing `await` names the method.
        answering.__qualname__ = f"{type(self).__name__}.ask"  # type: ignore[attr-defined]
        return answering

    @overload
    def ask_sync(
        self,
        prompt: Prompt,
        *,
        output_type: None = None,
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> str: ...
    @overload
    def ask_sync(
        self,
        prompt: Prompt,
        *,
        output_type: Mapping[str, Any],
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> Any: ...
    @overload
    def ask_sync(
        self,
        prompt: Prompt,
        *,
        output_type: TypeForm[_O],
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> _O: ...
    @answers_other_names
    def ask_sync(
        self,
        prompt: Prompt,
        *,
        output_type: Any = None,
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> Any:
        """Return the answer like `ask`, in code without an event loop.

        An agent starts itself if necessary; close it with `close()` or `with`. A `Session` needs a started agent.

            with Agent("offline") as agent:
                print(agent.ask_sync("What is 12 * 12?"))

        Args:
            prompt: As in `ask`.
            output_type: As in `ask`.
            deps: As in `ask`.
            tool_context: As in `ask`.
            limits: As in `ask`.
        """
        given = _given("prompt", prompt, output_type, deps, tool_context, limits)
        return self._wait_for_answer(given)

    @overload
    def run(
        self,
        prompt: PromptOrAnswers,
        *,
        output_type: None = None,
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> Coroutine[Any, Any, RunResult[str]]: ...
    @overload
    def run(
        self,
        prompt: PromptOrAnswers,
        *,
        output_type: Mapping[str, Any],
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> Coroutine[Any, Any, RunResult[Any]]: ...
    @overload
    def run(
        self,
        prompt: PromptOrAnswers,
        *,
        output_type: TypeForm[_O],
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> Coroutine[Any, Any, RunResult[_O]]: ...
    @answers_other_names
    def run(
        self,
        prompt: PromptOrAnswers,
        *,
        output_type: Any = None,
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> Coroutine[Any, Any, RunResult[Any]]:
        """Run like `ask`, or like `resume` if you pass answers, and return the whole result of the run.

        Pending calls raise no error: the result lists them. An answer that does not match the `output_type` raises an
        error only when you read `output`.

            result = await agent.run("What is 12 * 12?")
            print(result.answer, result.usage.requests)

        Args:
            prompt: A text, parts, or answers to pending calls.
            output_type: As in `ask`.
            deps: As in `ask`.
            tool_context: As in `ask`.
            limits: As in `ask`.
        """
        given = _given("either", prompt, output_type, deps, tool_context, limits)
        answering = self._asked.result_of(given)
        # Python's warning about a missing `await` names the method.
        answering.__qualname__ = f"{type(self).__name__}.run"  # type: ignore[attr-defined]
        return answering

    @overload
    def resume(
        self,
        answers: Sequence[CallAnswer] = (),
        *,
        output_type: None = None,
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> Coroutine[Any, Any, str]: ...
    @overload
    def resume(
        self,
        answers: Sequence[CallAnswer] = (),
        *,
        output_type: Mapping[str, Any],
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> Coroutine[Any, Any, Any]: ...
    @overload
    def resume(
        self,
        answers: Sequence[CallAnswer] = (),
        *,
        output_type: TypeForm[_O],
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> Coroutine[Any, Any, _O]: ...
    @answers_other_names
    def resume(
        self,
        answers: Sequence[CallAnswer] = (),
        *,
        output_type: Any = None,
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Continue after `CallsPendingError`, with an answer to each pending call.

        Raises `InputError` when an answer is missing or duplicate, or when it belongs to no call. Each call runs once
        and then has a result. An answer is valid only for its own call and tool: if these changed or no longer exist,
        the model is notified. This also works in another process after `agent.session(messages=...)`: calls without a
        result stay open until the next prompt.

        Without answers, `resume()` continues an unfinished run (`is_unfinished`): it makes the calls that were not
        started, repeats no call that may have run, and lets the model answer.

        A run that began with an `output_type` still ends with an answer of that type. Pass the type again to get its
        value; without it, you get the validated JSON as text.

            answer = await session.resume([call.approve() for call in session.pending])

        Args:
            answers: One answer to each pending call.
            output_type: As in `ask`.
            deps: As in `ask`.
            tool_context: As in `ask`.
            limits: As in `ask`.
        """
        given = _given("answers", answers, output_type, deps, tool_context, limits)
        answering = self._asked.answer_to(given)
        # Python's warning about a missing `await` names the method.
        answering.__qualname__ = f"{type(self).__name__}.resume"  # type: ignore[attr-defined]
        return answering

    @overload
    def stream(
        self,
        prompt: PromptOrAnswers,
        *,
        output_type: None = None,
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> EventStream[str]: ...
    @overload
    def stream(
        self,
        prompt: PromptOrAnswers,
        *,
        output_type: Mapping[str, Any],
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> EventStream[Any]: ...
    @overload
    def stream(
        self,
        prompt: PromptOrAnswers,
        *,
        output_type: TypeForm[_O],
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> EventStream[_O]: ...
    @answers_other_names
    def stream(
        self,
        prompt: PromptOrAnswers,
        *,
        output_type: Any = None,
        deps: Deps | None = None,
        tool_context: ToolContext | None = None,
        limits: Limits | None = None,
    ) -> EventStream[Any]:
        """Stream the events of one `ask` as they happen, including those of servers, ending with `RunFinished`.

            async with session.stream("...") as events:
                async for event in events: ...

        Leaving the block in any way cancels the run, and so does leaving a plain `async for` over the stream. If
        `prompt` contains answers, the stream runs like `resume`. Pending calls raise no error here: they are in
        `RunFinished.pending`. With an `output_type`, `partial_output()` returns the part of the value received so far.

        Args:
            prompt: A text, parts, or answers to pending calls.
            output_type: As in `ask`.
            deps: As in `ask`.
            tool_context: As in `ask`.
            limits: As in `ask`.
        """
        from mcpagent.agents.event_stream import EventStream
        from mcpagent.agents.run_input import wanted_output

        given = _given("either", prompt, output_type, deps, tool_context, limits)
        return EventStream(self._asked, given, wanted_output(output_type))


def _given(
    kind: InputKind,
    said: Any,
    output_type: Any,
    deps: Any,
    tool_context: ToolContext | None,
    limits: Limits | None,
) -> Callable[[], RunInput]:
    """Return a function that reads the input when the run starts, so that the run raises its errors."""

    def read() -> RunInput:
        from mcpagent.agents.run_input import READERS, RunInput, wanted_output

        spec = wanted_output(output_type)
        return RunInput(READERS[kind](said), spec, deps, tool_context, limits)

    return read
