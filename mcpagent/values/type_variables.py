"""`Deps` and `Output`: the type variables of agents, sessions and results. Their default is `Any`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=Any)
    Output = TypeVar("Output", default=Any)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")
    Output = TypeVar("Output")
