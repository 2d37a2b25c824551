"""`RunInput`: the input of a run, read and validated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from mcpagent.history.conversation import Words, usable_prompt
from mcpagent.history.intake.files import prompt_parts
from mcpagent.run.output.output_spec import OutputSpec, output_spec
from mcpagent.toolsets.definition import PromptOrAnswers
from mcpagent.values.approval import CallAnswer, usable_answers
from mcpagent.values.limits.run_limits import Limits
from mcpagent.values.messages import Text
from mcpagent.values.tool_context import ToolContext

InputKind: TypeAlias = Literal["prompt", "answers", "either"]
"""The input that a method accepts: a prompt, answers to pending calls, or either."""


@dataclass(frozen=True, slots=True)
class RunInput:
    """The input of a run.

    `said` is the prompt, or answers by call ID; `spec` is the output type (None: text). `deps` and `tool_context` are
    for tool functions; `limits` are those of this run.
    """

    said: Words | Mapping[str, CallAnswer]
    spec: OutputSpec | None = None
    deps: Any = None
    tool_context: ToolContext | None = None
    limits: Limits | None = None

    async def with_files(self) -> RunInput:
        """Return the input with its files read and checked against the limits. Raises `InputError`."""
        if isinstance(self.said, Mapping):
            return self
        for part in self.said:
            if not isinstance(part, Text):
                return replace(self, said=await prompt_parts(self.said))
        return self


def wanted_output(output_type: Any) -> OutputSpec | None:
    """Return the specification of a typed answer; None for plain text. Raises `InputError` for a value that is no
    type.
    """
    if output_type is None or output_type is str:
        return None
    return output_spec(output_type)


def said_in(prompt: PromptOrAnswers) -> Words | Mapping[str, CallAnswer]:
    """Return the prompt, or the answers by call ID. Raises `InputError`."""
    if isinstance(prompt, list | tuple) and any(
        isinstance(item, CallAnswer) for item in prompt
    ):
        return usable_answers(prompt)
    return usable_prompt(prompt)


READERS: Mapping[InputKind, Callable[[Any], Words | Mapping[str, CallAnswer]]] = {
    "prompt": usable_prompt,
    "answers": usable_answers,
    "either": said_in,
}
"""The function that reads each kind of input; it raises `InputError` for other input."""
