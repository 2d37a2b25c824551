"""Validate the answer that ends a run against its output type; if it does not match, request it once more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mcpagent.errors import LimitError, OutputError
from mcpagent.models.base import ModelResponse, OutputFormat
from mcpagent.models.wire_values import json_text
from mcpagent.prompt.builder import is_misfit_note, misfit_note
from mcpagent.run.output.output_spec import OutputSpec, ParsedAnswer
from mcpagent.values.events import RunFinished, StopReason
from mcpagent.values.limits.run_limits import FIRM
from mcpagent.values.messages import Message
from mcpagent.values.tools import ToolOutput

MUCH_TEXT = 50_000
"""Minimum number of characters of an answer that a worker thread parses."""


@dataclass(slots=True)
class LastAnswer:
    """The last answer of a run.

    `was_asked_again`: the one repair request was already made, perhaps by another process. `is_reminded`: a model that
    only writes about calling a tool was already reminded to call it. `is_excused`: a model that only apologises already
    got a note. `reading` is the parsed answer.
    """

    spec: OutputSpec | None
    was_asked_again: bool = False
    is_reminded: bool = False
    is_excused: bool = False
    reading: ParsedAnswer | None = None

    @classmethod
    def of_run(
        cls, spec: OutputSpec | None, messages: Sequence[Message], *, is_reminded: bool
    ) -> LastAnswer:
        """Return the state for a run that has these messages so far."""
        told = any(
            message.role == "user" and is_misfit_note(message.text)
            for message in messages
        )
        return cls(spec, told, is_reminded)

    @property
    def format(self) -> OutputFormat | None:
        """The output format for requests; None for text."""
        if self.spec is not None:
            return self.spec.format
        return None

    async def fits(self, response: ModelResponse) -> bool:
        """Parse the answer; return whether it matches the output type. An answer that is cut off or refused does
        not.
        """
        self.reading = None
        if self.spec is None or response.stop in ("length", "refusal"):
            return False
        text = response.message.text
        read = self.spec.read
        if len(text) < MUCH_TEXT:
            self.reading = read(text)
        else:
            self.reading = await asyncio.to_thread(read, text)
        return not self.reading.problems

    def ask_again(self) -> str:
        """Return the note that requests the answer once more; "" if the answer is accepted or was already requested
        again.
        """
        if self.reading is None or not self.reading.problems or self.was_asked_again:
            return ""
        self.was_asked_again = True
        return misfit_note([str(problem) for problem in self.reading.problems])

    def told(self, answer: str, stop: StopReason) -> dict[str, Any]:
        """Return fields of the `RunFinished` event: the answer as text, the stop reason, and the value or its
        problems.
        """
        if stop != "calls_pending":
            reading = self.reading
        else:
            reading = None
        if reading is None:
            return {"answer": answer, "stop": stop}
        if reading.problems:
            return {
                "answer": answer,
                "stop": "misfit" if stop == "answered" else stop,
                "problems": reading.problems,
            }
        return {
            "answer": json_text(reading.document),
            "stop": stop,
            "output": reading.value,
            "has_output": True,
        }


def typed_answer(finished: RunFinished, spec: OutputSpec | None) -> Any:
    """Return the output of the run in the requested type; without a type, its text.

    Raises `OutputError`, or `LimitError` if a limit ended the run before there was such a value, or any text.
    """
    if finished.has_output:
        if spec is not None:
            return finished.output
        return finished.answer
    if (
        finished.limit is not None
        and not finished.pending
        and (spec is not None or not finished.answer.strip())
    ):
        what = "without an answer of output_type"
        if spec is None:
            what = "without an answer"
        raise LimitError(
            finished.limit.said(what), stop=finished.stop, answer=finished.answer
        )
    if spec is None:
        return finished.answer
    raise no_output(finished.stop, finished.problems, finished.answer)


_WHY: dict[StopReason, str] = {
    "truncated": "the answer was cut off: set a larger max_output_tokens, or less thinking",
    "refused": "the model refused to answer",
    "calls_pending": "calls wait for an answer (`pending`)",
}


def no_output(stop: StopReason, problems: Sequence[Any], answer: str) -> OutputError:
    """Return the error of a run without a valid value."""
    if problems:
        text = f"the answer does not fit output_type: {'; '.join(map(str, problems))}"
    else:
        text = f"there is no answer of output_type: {_WHY.get(stop, stop)}"
    return OutputError(text, problems=tuple(problems), answer=answer, stop=stop)


def told_to_caller(finished: RunFinished, label: str, *, has_type: bool) -> ToolOutput:
    """Return the result of an agent that was called as a tool, as an output for its caller."""
    if finished.pending:
        names = ", ".join(f'"{request.tool}"' for request in finished.pending)
        text = f"{label} needed an approval or an outside answer for {names}, which nobody can give here."
        return ToolOutput.of_text(text, error="denied")
    limit, answer = finished.limit, finished.answer
    if limit is not None and not finished.has_output:
        if has_type or not answer.strip():
            return ToolOutput.of_text(
                f"{label} was {limit.said('without an answer')}.", error="failed"
            )
        if limit.limit in FIRM:  # after the other limits, the agent gave a final answer
            answer = f"{answer}\n\n[{label} was {limit.text}, before it was done.]"
    elif has_type and not finished.has_output:
        return ToolOutput.of_text(
            str(no_output(finished.stop, finished.problems, "")), error="failed"
        )
    return ToolOutput.of_text(answer)
