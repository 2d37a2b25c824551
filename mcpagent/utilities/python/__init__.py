"""Check arguments, run coroutines in another thread's event loop, and import packages when their names are first used.

Late imports keep `import mcpagent` fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def late_names(
    package: str,
    homes: Mapping[str, Sequence[str]],
    missing: Callable[[str], str | None] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for the package. `homes` maps its modules to the names that they define.

    A module that is listed under its own name is returned itself. `missing` returns a hint for a name of another
    library: `from package import NAME` then raises an `ImportError` with the hint.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in home_of:
            if missing is not None and (here := missing(name)):
                raise ImportError(
                    f"{package} has no {name}; here it is {here}", name=package
                )
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = home_of[name]
        module = import_module(f"{package}.{home}")
        if home.rpartition(".")[2] == name:
            return module
        return getattr(module, name)

    return get, lambda: sorted({*vars(sys.modules[package]), *home_of})
