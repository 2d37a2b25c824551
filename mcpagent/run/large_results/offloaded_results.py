"""`LargeResults`: the offloaded outputs of one session, and the function that offloads a result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from mcpagent.models.tool_changes_in_history import READER_NAMES
from mcpagent.run.large_results.large_output import LargeOutput, estimated_tokens
from mcpagent.run.large_results.output_stores import (
    MemoryOutputStore,
    OpenOutputs,
    OutputKey,
    OutputStore,
)
from mcpagent.run.large_results.previews import brief_form, kept_form, short_form
from mcpagent.run.large_results.readers import reader_tools
from mcpagent.tool_search.session_tools import SessionTools
from mcpagent.values.messages import (
    FILE_PARTS,
    BinaryBlock,
    Message,
    OffloadedResult,
    Text,
    ToolResult,
    ToolsChanged,
)
from mcpagent.values.tools import Tool

LARGE_RESULT_TOKENS = 10_000
"""Default threshold: results with more estimated tokens are offloaded."""

_LARGE = 200_000
_OPENED = OpenOutputs()

_T = TypeVar("_T")


class LargeResults:
    """The large results that one session stores outside its conversation; `AgentRun.large`.

    `shelf` is the output store. `tokens` is the threshold for tools without their own; None is the default, 0 offloads
    only on request. `bind` transforms the runtime's own tools (`Definition.bind`).
    """

    __slots__ = ("_bind", "_readers", "_session", "_shelf", "has_some", "tokens")

    def __init__(
        self,
        shelf: OutputStore | None = None,
        tokens: int | None = None,
        bind: Callable[[Sequence[Tool]], Sequence[Tool]] = list,
    ) -> None:
        self._shelf, self._bind = shelf or MemoryOutputStore(), bind
        if tokens is None:
            self.tokens = LARGE_RESULT_TOKENS
        else:
            self.tokens = tokens
        self._session = OutputKey()
        self._readers: Mapping[str, Tool] | None = None
        self.has_some = False

    @property
    def readers(self) -> Mapping[str, Tool]:
        """The reader tools by name, in the order in which they are offered."""
        if self._readers is None:
            self._readers = {
                tool.name: tool for tool in self._bind(reader_tools(self.open))
            }
        return self._readers

    async def set_aside(
        self,
        result: ToolResult,
        *,
        tokens: int | None = None,
        force: bool = False,
        blocks: tuple[BinaryBlock, ...] = (),
    ) -> ToolResult:
        """Return the result for the conversation: a preview if the result is large, else the same object.

        `tokens` is the tool's own threshold: None uses the session's, 0 offloads nothing. Results of reader tools are
        not offloaded again. `blocks` are binary blocks that content cannot contain: with them, the result is stored in
        any case, with a note before its text.

        `force` saves space in a conversation: a result of any size and tool is reduced to one or two lines, and an
        offloaded one to its first line. If that is not shorter, the same object is returned. ID, name, error and
        seconds stay, so that calls and results stay paired; `ToolResult.set_aside` describes the original. Afterwards,
        call `offer_readers(run.tools)` once, before the next request. Nothing is lost: the output is stored before this
        returns, and `open` and the reader tools return all of it.
        """
        if result.set_aside is not None:
            if force:
                return _first_line(result)
            return result
        if tokens is None:
            line = self.tokens
        else:
            line = tokens
        size = estimated_tokens(result.content)
        is_large = size > line > 0
        if not force and (
            not line or not (is_large or blocks) or result.name in READER_NAMES
        ):
            return result
        if force:
            form = brief_form
        elif is_large:
            form = short_form
        else:
            form = kept_form
        given = LargeOutput.of(result.content, blocks)

        def judged() -> tuple[LargeOutput, str]:
            output = replace(given, text=self._shelf.clean(given.text))
            return output, form(output)

        output, text = await _beside_loop(judged, is_much=given.size > _LARGE)
        whole = result.content if form is kept_form else ()
        short = (Text(text), *whole)
        if not blocks and estimated_tokens(short) >= size:
            return result
        await self._shelf.put(output, result.name)
        _OPENED.put(self._session, output.handle, output)
        self.has_some = True
        if whole:
            about = 0, "binary"
        else:
            about = output.tokens, output.glance.kind
        return replace(
            result, content=short, set_aside=OffloadedResult(output.handle, *about)
        )

    async def open(self, handle: str) -> LargeOutput | None:
        """Return this session's output with this ID; None if it is not stored."""
        output = _OPENED.get(self._session, handle)
        if output is None and (output := await self._shelf.get(handle)) is not None:
            _OPENED.put(self._session, handle, output)
        return output

    def begin(self, tools: SessionTools) -> None:
        """Prepare for a conversation whose history may already contain offloaded outputs."""
        self.has_some = bool(set_aside_in(tools.conversation.messages))
        if self.has_some:
            tools.later = self.readers
        else:
            tools.later = {}

    def offer_readers(self, tools: SessionTools) -> None:
        """Add the reader tools to the conversation, after all other tools, if an output was offloaded."""
        if not self.has_some:
            return
        tools.later = self.readers
        found = tools.conversation.discovery.discovered
        missing = tuple(
            tool.definition for name, tool in self.readers.items() if name not in found
        )
        if missing:
            self.begin(tools)  # a rewind may have removed the reader tools
        if missing and self.has_some:
            names = ", ".join(tool.name for tool in missing)
            words = f"What was set aside can be read from now on with {names}."
            tools.conversation.announce(words, ToolsChanged(missing))


def set_aside_in(messages: Iterable[Message]) -> list[ToolResult]:
    """Return the results in a history that are previews of offloaded outputs."""
    return [
        result
        for message in messages
        for result in message.tool_results
        if result.set_aside is not None
    ]


def _first_line(result: ToolResult) -> ToolResult:
    line = result.text.partition("\n")[0]
    is_more = any(isinstance(part, FILE_PARTS) for part in result.content)
    if line == result.text and not is_more:
        return result
    return replace(result, content=(Text(line),))


async def _beside_loop(work: Callable[[], _T], *, is_much: bool) -> _T:
    if is_much:
        return await asyncio.to_thread(work)
    return work()
