"""The classes that users meet stay small: parameters and public names are counted, inherited ones too."""

from __future__ import annotations

from mcpagent import RunContext
from tests.tables import each_row

MOST_NAMES: dict[type, int] = {RunContext: 14}


def public_names(owner: type) -> list[str]:
    return [name for name in dir(owner) if not name.startswith("_")]


@each_row("owner", MOST_NAMES)
def test_a_class_has_few_public_names(owner: type) -> None:
    names = public_names(owner)
    assert len(names) <= MOST_NAMES[owner], f"{len(names)} names: {' '.join(names)}"
