"""A span as a value: what took how long, in which trace, below which other one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

AttributeValue: TypeAlias = str | bool | int | float | tuple[str, ...]
Attributes: TypeAlias = Mapping[str, AttributeValue]
SpanKind: TypeAlias = Literal["internal", "client"]


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened in a span, at a time in nanoseconds since 1970."""

    name: str
    at: int
    attributes: Attributes = field(default_factory=dict[str, AttributeValue])


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """One step of a trace that is over; times are nanoseconds since 1970.

    `trace_id` and `span_id` are 32 and 16 hexadecimal digits, `parent_id` is "" for the first of its trace, `links` are
    traces and spans that it goes on with. `failed` says that it ended in an error; `failure` describes it, which is
    content.
    """

    name: str
    trace_id: str
    span_id: str
    parent_id: str = ""
    begun: int = 0
    ended: int = 0
    kind: SpanKind = "internal"
    attributes: Attributes = field(default_factory=dict[str, AttributeValue])
    events: tuple[SpanEvent, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    failed: bool = False
    failure: str = ""
    trace_state: str = ""

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.ended - self.begun) / 1e9
