"""What the language has no words for: checked arguments, work in another thread's event loop, and packages whose names
load when they are first asked for, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def late_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for the package; `homes` maps its modules to the names that live in them.

    A module that is said to hold its own name is meant itself.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = import_module(f"{package}.{home_of[name]}")
        if home_of[name] == name:
            return home
        return getattr(home, name)

    return get, lambda: sorted({*vars(sys.modules[package]), *home_of})
