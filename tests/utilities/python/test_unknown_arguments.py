"""An unknown argument of the options is answered with the one that could be meant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mcpagent import Limits, RunOptions, ServerOptions, ToolSearch
from mcpagent.models.model_settings import ModelSettings

OPTIONS = (Limits, ModelSettings, RunOptions, ServerOptions, ToolSearch)


def test_the_nearest_argument_is_named_else_all() -> None:
    for create, name, words in (
        (Limits, "max_turns", 'Limits: no argument "max_turns"; did you mean "turns"?'),
        (RunOptions, "max_turns", 'RunOptions: no argument "max_turns"; there are limits, session_limits, '),
        (ModelSettings, "temprature", 'did you mean "temperature"?'),
        (ServerOptions, "startup_second", 'did you mean "startup_seconds"?'),
        (ToolSearch, "result", 'no argument "result"'),
    ):
        given: dict[str, Any] = {name: 3}
        with pytest.raises(TypeError) as error:
            create(**given)
        assert words in str(error.value)


def test_known_arguments_and_copies_work_as_before() -> None:
    for create in OPTIONS:
        assert replace(create()) == create()
    assert Limits(3) == Limits(turns=3)
    with pytest.raises(TypeError, match="positional"):
        Limits(*range(1, 9))
