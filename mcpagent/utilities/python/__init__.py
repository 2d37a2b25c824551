"""Check arguments, run work in another thread's event loop, and import packages when their names are first used.

Late imports make `import mcpagent` cost next to nothing.
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

    A module that is listed with its own name is returned itself.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = home_of[name]
        module = import_module(f"{package}.{home}")
        if home.rpartition(".")[2] == name:
            return module
        return getattr(module, name)

    return get, lambda: sorted({*vars(sys.modules[package]), *home_of})
