"""Answers as data, as a user's strictly typed code has them. mypy reads this file; what must not fit says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict, assert_type

from pydantic import BaseModel, Field

from mcpagent import Agent, CallAnswer, EventStream, OutputError, RunResult, Session


class City(BaseModel):
    name: str
    people: int = Field(ge=0)


@dataclass(frozen=True)
class Trip:
    to: str
    days: int


class Options(TypedDict):
    fast: bool


class Colour(Enum):
    RED = "red"


SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}


async def kinds(agent: Agent, session: Session) -> None:
    for asked in (agent, session):
        assert_type(await asked.ask("Go."), str)
        assert_type(await asked.ask("Go.", output_type=City), City)
        assert_type(await asked.ask("Go.", output_type=Trip), Trip)
        assert_type(await asked.ask("Go.", output_type=Options), Options)
        assert_type(await asked.ask("Go.", output_type=Colour), Colour)
        assert_type(await asked.ask("Go.", output_type=list[City]), list[City])
        assert_type(await asked.ask("Go.", output_type=dict[str, int]), dict[str, int])
        assert_type(await asked.ask("Go.", output_type=City | Trip), City | Trip)
        assert_type(await asked.ask("Go.", output_type=City | None), City | None)
        assert_type(await asked.ask("Go.", output_type=int), int)
        assert_type(await asked.ask("Go.", output_type=str), str)
        assert_type(await asked.ask("Go.", output_type=Literal["yes", "no"]), Literal["yes", "no"])
        assert_type(await asked.ask("Go.", output_type=Annotated[int, Field(ge=1)]), int)
        assert_type(await asked.ask("Go.", output_type=SCHEMA), Any)
        assert_type(asked.ask_sync("Go.", output_type=City), City)
        assert_type(asked.ask_sync("Go."), str)
        await asked.ask("Go.", output_type=5)  # type: ignore[call-overload]


async def results(agent: Agent, session: Session, answers: Sequence[CallAnswer]) -> None:
    for asked in (agent, session):
        result = await asked.run("Go.", output_type=City)
        assert_type(result, RunResult[City])
        assert_type(result.output, City)
        assert_type((await asked.run("Go.")).output, str)
        assert_type((await asked.run("Go.", output_type=SCHEMA)).output, Any)
        assert_type(await asked.resume(answers), str)
        assert_type(await asked.resume(answers, output_type=City), City)
        plain: RunResult = result
        assert_type(plain.output, Any)
        async with asked.stream("Go.", output_type=list[City]) as events:
            assert_type(events, EventStream[list[City]])
            async for _ in events:
                events.partial_output()
            assert_type(events.output, list[City])


async def wrong(agent: Agent) -> list[tuple[str, str]]:
    try:
        trip: Trip = await agent.ask("Go.", output_type=City)  # type: ignore[arg-type]
    except OutputError as error:
        return [(problem.path, problem.text) for problem in error.problems]
    return [("to", trip.to)]
