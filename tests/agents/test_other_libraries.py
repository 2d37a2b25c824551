"""Names and arguments of other libraries are answered with the name here, and a forgotten `await` names the method."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import mcpagent
from mcpagent import Agent, Limits
from mcpagent.agents.other_libraries import ARGUMENTS, METHODS, NAMES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "migrating.md"


def told(call: Callable[[], Any], kind: type[Exception]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def test_an_argument_of_another_library_is_answered_with_the_one_here() -> None:
    made: Any = Agent
    agent: Any = Agent("offline")
    for name, here in ARGUMENTS.items():
        if here.startswith("limits="):
            here = f"options=RunOptions({here})"
        assert told(partial(made, "offline", **{name: None}), TypeError).endswith(f"write {here}"), name
    assert told(lambda: made("offline", limits=Limits(turns=1)), TypeError) == (
        'Agent: no argument "limits"; write options=RunOptions(limits=...)'
    )
    assert told(lambda: made(instrutions=""), TypeError) == (
        'Agent: no argument "instrutions"; did you mean "instructions"?'
    )
    for method in ("ask", "run", "stream", "resume", "ask_sync"):
        said = told(partial(getattr(agent, method), "hi", max_turns=3), TypeError)
        assert said == f'Agent.{method}: no argument "max_turns"; write limits=Limits(turns=...)'


def test_a_method_or_a_name_of_another_library_is_answered_with_the_one_here() -> None:
    agent: Any = Agent("offline")
    for name, here in METHODS.items():
        if not hasattr(Agent, name):
            assert told(partial(getattr, agent, name), AttributeError).endswith(f"here it is {here}"), name
    assert told(lambda: agent.nonsense, AttributeError) == "'Agent' object has no attribute 'nonsense'"
    for name, here in NAMES.items():
        said = told(partial(exec, f"from mcpagent import {name}"), ImportError)
        assert said == f"mcpagent has no {name}; here it is {here}"
    assert not hasattr(mcpagent, "nonsense")


def test_no_name_here_is_taken_for_one_of_another_library() -> None:
    assert not NAMES.keys() & set(mcpagent.__all__)
    assert {here.partition("(")[0].partition(".")[0] for here in NAMES.values()} <= set(mcpagent.__all__)
    words = {here for here in METHODS.values() if here.isidentifier()}
    assert all(hasattr(Agent, word) for word in words), words


def test_the_page_for_movers_has_each_of_these_names() -> None:
    page = PAGE.read_text("utf-8")
    named = set(re.findall(r"`([A-Za-z_]+)=?`", page))
    assert {*ARGUMENTS, *METHODS, *NAMES} <= named


def forget(call: Callable[[], Any]) -> None:
    call()
    gc.collect()


async def test_a_forgotten_await_names_the_method_that_was_called() -> None:
    async with Agent("offline") as agent:
        for asked, name in ((agent, "Agent"), (agent.session(), "Session")):
            for method in ("ask", "run"):
                call = partial(getattr(asked, method), "hi")
                with pytest.warns(RuntimeWarning, match=f"coroutine '{name}.{method}' was never awaited"):
                    forget(call)
