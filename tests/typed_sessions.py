"""Agents and sessions as a user's strictly typed code has them. mypy reads this file; what must not fit says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_type

from mcpagent import (
    Agent,
    ApprovalPolicy,
    CallAnswer,
    Definition,
    EventStream,
    Image,
    Limits,
    Message,
    Model,
    PendingCall,
    Prompt,
    Recorder,
    RunContext,
    RunOptions,
    RunResult,
    ScriptedModel,
    ServerOptions,
    Session,
    Spent,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    Wrapper,
    combined,
    events,
    prefixed,
)


@dataclass(frozen=True)
class Person:
    name: str


@dataclass(frozen=True)
class Robot:
    number: int


ANN = Person("Ann")


def greet(context: RunContext[Person]) -> str:
    assert_type(context.deps, Person)
    return context.deps.name


# -- prompts ----------------------------------------------------------------------------------------------------------


async def prompts(agent: Agent, session: Session) -> None:
    picture = Image("image/png", "iVBORw0KGgo=")
    texts = [Text("What is this?")]
    images = [picture]
    mixed: list[Text | Image] = [Text("What is this?"), picture]
    prompt: Prompt = "What is this?"
    for asked in (session, agent):
        await asked.ask("What is this?")
        await asked.ask([Text("What is this?"), picture])
        await asked.ask(texts)
        await asked.ask(images)
        await asked.ask(mixed)
        await asked.ask((Text("What is this?"), picture))
        await asked.ask(prompt)
        await asked.run([Text("What is this?"), picture])
        asked.stream([Text("What is this?"), picture])
        asked.stream([Text("What is this?")])
        asked.stream((picture,))
        asked.stream(mixed)
        asked.stream(prompt)
        await asked.ask(1)  # type: ignore[call-overload]
        await asked.ask([1])  # type: ignore[list-item]
        asked.stream([b"raw"])  # type: ignore[list-item]


async def answers(session: Session, waiting: Sequence[PendingCall]) -> None:
    given = [call.approve() for call in waiting]
    assert_type(given, list[CallAnswer])
    assert_type(await session.resume(given), str)
    session.stream(given)
    session.stream([call.deny("no") for call in waiting])


# -- what a run gives -------------------------------------------------------------------------------------------------


async def results(session: Session) -> None:
    result = await session.run("Go.")
    assert_type(result, RunResult[str])
    assert_type(result.answer, str)
    assert_type(result.usage, Usage)
    assert_type(result.spent, Spent)
    assert_type(result.messages, tuple[Message, ...])
    assert_type(result.messages[0].tool_calls, tuple[ToolCall, ...])
    assert_type(result.messages[0].tool_results, tuple[ToolResult, ...])


async def streams(session: Session) -> str:
    async with session.stream("Go.") as stream:
        assert_type(stream, EventStream[str])
        async for event in stream:
            match event:
                case events.TextDelta(text=text):
                    assert_type(text, str)
                case events.ToolCallStarted(call=call):
                    assert_type(call, ToolCall)
                case events.RunFinished(answer=answer):
                    return answer
                case _:
                    pass
    return ""


# -- deps -------------------------------------------------------------------------------------------------------------


async def typed_deps(agent: Agent[Person]) -> None:
    session = agent.session(deps=ANN)
    assert_type(session, Session[Person])
    assert_type(session._runtime.deps, Person | None)
    await session.ask("Who am I?", deps=ANN)
    await session.run("Who am I?", deps=ANN)
    session.stream("Who am I?", deps=ANN)
    await agent.ask("Who am I?", deps=ANN)
    await agent.run("Who am I?", deps=ANN)
    agent.stream("Who am I?", deps=ANN)
    agent.session(deps=Robot(1))  # type: ignore[arg-type]
    await session.ask("Who am I?", deps=Robot(1))  # type: ignore[call-overload]
    await session.run("Who am I?", deps="ann")  # type: ignore[call-overload]
    session.stream("Who am I?", deps=1)  # type: ignore[call-overload]
    await agent.ask("Who am I?", deps=Robot(1))  # type: ignore[call-overload]
    agent.stream("Who am I?", deps=Robot(1))  # type: ignore[call-overload]
    robots: Session[Robot] = session  # type: ignore[assignment]
    await robots.ask("Who am I?")


async def untyped_deps() -> None:
    agent = Agent("offline", tools=[greet])
    assert_type(agent, Agent[Any])
    session = agent.session(deps=ANN)
    await session.ask("Who am I?", deps=Robot(1))


async def entered() -> None:
    async with Agent[Person]("offline", tools=[greet]) as agent:
        assert_type(agent, Agent[Person])
        assert_type(agent.session(), Session[Person])


# -- settings ---------------------------------------------------------------------------------------------------------


def short_answers(definition: Definition) -> Definition:
    return replace(definition, options=replace(definition.options, limits=Limits(turns=3)))


def decide(call: PendingCall) -> bool:
    return call.tool == "greet"


wrappers: list[Wrapper] = [short_answers, Recorder("run.jsonl")]
model: Model = ScriptedModel([ToolCall("1", "greet", {}), "done"])
agent: Agent[Person] = Agent(
    model,
    tools=[greet, prefixed([greet], "polite"), combined([greet])],
    options=RunOptions(
        limits=Limits(turns=5, tokens=10_000, dollars=0.5),
        servers=ServerOptions(selected_servers=["files"], startup_seconds=None),
        wrappers=wrappers,
    ),
    approval=ApprovalPolicy(required=True, decide=decide),
)
Agent(options={"limits": 5})  # type: ignore[arg-type]
Agent(options=RunOptions(wrappers=[greet]))  # type: ignore[list-item]
Agent(approval=ApprovalPolicy(decide="yes"))  # type: ignore[arg-type]
