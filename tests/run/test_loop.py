"""Middleware of one's own around the parts of a run, and `Stop`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from mcpagent import Agent, Definition, RunOptions, ScriptedModel, ToolCall
from mcpagent.models.base import ModelResponse
from mcpagent.run.agent_run import AgentRun, Middleware
from mcpagent.run.run_parts import CallBatch, CallState, StepState, Stop
from mcpagent.values.messages import Message, Text, Usage
from mcpagent.values.tools import ToolOutput


class Asked(Middleware):
    """Note which parts were entered and left, and do `what` in the part named `where`."""

    def __init__(self, where: str = "", what: str = "") -> None:
        self.where, self.what = where, what
        self.entered: list[str] = []
        self.left: list[str] = []

    def __call__(self, definition: Definition) -> Definition:
        return replace(definition, middleware=(*definition.middleware, self))

    @asynccontextmanager
    async def _around(self, name: str) -> AsyncIterator[None]:
        self.entered.append(name)
        if (self.where, self.what) == (name, "stop"):
            raise Stop("refused", "no more")
        if (self.where, self.what) == (name, "note"):
            raise Stop("refused", final_note="Enough.")
        try:
            yield
        finally:
            self.left.append(name)

    @asynccontextmanager
    async def around_run(self, run: AgentRun) -> AsyncIterator[None]:
        async with self._around("run"):
            yield

    @asynccontextmanager
    async def around_turns(self, run: AgentRun) -> AsyncIterator[None]:
        async with self._around("turns"):
            yield

    @asynccontextmanager
    async def around_step(self, run: AgentRun, step: StepState) -> AsyncIterator[None]:
        is_due = self.what != "note" or not step.is_final
        async with self._around("step" if is_due else "last step"):
            if (self.where, self.what) == ("step", "settle"):
                step.settle(ModelResponse(Message("assistant", (Text("kept"),)), Usage(), "end"))
            yield

    @asynccontextmanager
    async def around_calls(self, run: AgentRun, batch: CallBatch) -> AsyncIterator[None]:
        async with self._around("calls"):
            yield

    @asynccontextmanager
    async def around_call(self, run: AgentRun, call: CallState) -> AsyncIterator[None]:
        async with self._around("call"):
            if (self.where, self.what) == ("call", "settle"):
                call.settle(ToolOutput.of_text("kept"))
            yield

    @asynccontextmanager
    async def around_execution(self, run: AgentRun, call: CallState) -> AsyncIterator[None]:
        async with self._around("execution"):
            yield


def agent(middleware: Asked, runs: list[str]) -> Agent:
    def look(name: str) -> str:
        """Look at something."""
        runs.append(name)
        return name

    calls = [ToolCall("1", "look", {"name": "a"}), ToolCall("2", "look", {"name": "b"})]
    model = ScriptedModel([calls, "done", "done"])
    return Agent(model, tools=[look], options=RunOptions(wrappers=[middleware]))


async def test_each_part_is_entered_and_left() -> None:
    middleware, runs = Asked(), list[str]()
    async with agent(middleware, runs) as asked:
        assert await asked.ask("Look!") == "done"
    assert sorted(middleware.entered) == sorted(middleware.left)
    assert middleware.entered[:4] == ["run", "turns", "step", "calls"]
    assert (middleware.entered.count("call"), middleware.entered.count("execution")) == (2, 2)
    assert middleware.left[-2:] == ["turns", "run"]
    assert sorted(runs) == ["a", "b"]


@pytest.mark.parametrize("where", ["turns", "step", "calls", "call", "execution"])
async def test_a_stop_ends_the_run_with_a_valid_history(where: str) -> None:
    middleware, runs = Asked(where, "stop"), list[str]()
    async with agent(middleware, runs) as asked:
        result = await asked.run("Look!")
        assert (result.stop, result.answer, runs) == ("refused", "no more", [])
        open_calls = {call.id for message in asked.messages for call in message.tool_calls}
        results = [result.call_id for message in asked.messages for result in message.tool_results]
        assert where == "calls" or open_calls == set(results)
        middleware.what = ""
        assert await asked.ask("And now?") == "done"


@pytest.mark.parametrize("where", ["step", "call", "execution"])
async def test_a_stop_with_a_note_allows_one_more_answer(where: str) -> None:
    middleware, runs = Asked(where, "note"), list[str]()
    async with agent(middleware, runs) as asked:
        model = asked._runtime.model
        assert isinstance(model, ScriptedModel)
        if where == "step":
            model = ScriptedModel(["done"])
            await asked.use_model(model)
        result = await asked.run("Look!")
        assert (result.stop, result.answer, runs) == ("refused", "done", [])
        assert model.requests[-1].tool_choice == "none"
        assert "Enough." in model.requests[-1].messages[-1].text


async def test_a_middleware_may_answer_in_place_of_model_and_tool() -> None:
    runs = list[str]()
    async with agent(Asked("step", "settle"), runs) as asked:
        assert await asked.ask("Look!") == "kept"
    async with agent(Asked("call", "settle"), runs) as asked:
        assert await asked.ask("Look!") == "done"
        assert [part.text for message in asked.messages for part in message.tool_results] == ["kept", "kept"]
    assert runs == []
