"""`CodeMode`: the limits of a model's programs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mcpagent.tool_search.search_options import ToolSearch
from mcpagent.utilities.python.argument_checks import expect, expect_fields


@dataclass(frozen=True, slots=True)
class CodeMode:
    """Offer the model `search_tools` and `run_code`; it calls the found tools in Python programs.

    - `seconds`: the computing time of a program, without waiting for tools and for users.
    - `memory_mb`: the memory of its sandbox in megabytes.
    - `calls`: the maximum number of tool calls of one program.
    - `output_tokens` (estimated): larger output of a program is offloaded like any large result; 0: never.
    """

    seconds: float = 10.0
    memory_mb: int = 64
    calls: int = 200
    output_tokens: int = 2_000

    def __post_init__(self) -> None:
        expect(
            "CodeMode.seconds",
            self.seconds,
            (int, float),
            "above 0, 600 at most",
            holds=lambda it: 0 < it <= 600,
        )
        expect(
            "CodeMode.memory_mb",
            self.memory_mb,
            int,
            "8 to 4,096",
            holds=lambda it: 8 <= it <= 4_096,
        )
        expect(
            "CodeMode.calls",
            self.calls,
            int,
            "1 to 10,000",
            holds=lambda it: 1 <= it <= 10_000,
        )
        tokens = self.output_tokens
        expect(
            "CodeMode.output_tokens",
            tokens,
            int,
            "a whole number of tokens, or 0",
            holds=lambda it: it >= 0,
        )
        expect_fields(self)


def search_for_programs(search: ToolSearch | None) -> ToolSearch:
    """Return the tool search of code mode: local, over all tools that are not pinned, without prefetch.

    With `load="search"`, the default for small models, a search also loads the tools that it finds. A direct call of a
    known tool is executed, since small models write such calls instead of programs.
    """
    wanted = search or ToolSearch()
    ours = replace(
        wanted,
        enabled=True,
        execution="local",
        prefetch=0,
        on_direct_call=wanted.on_direct_call or "run",
    )
    return replace(ours, extra_tools=())
