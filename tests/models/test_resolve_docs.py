"""The examples of docs/models.md run, and its tables say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mcpagent.models.resolve import PROVIDERS, parse_spec
from tests.tables import each_row

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 4


@each_row("example", EXAMPLES)
def test_an_example_runs(example: str) -> None:
    exec(compile(example, "docs/models.md", "exec"), {"__name__": "example"})


def test_every_prefix_and_key_is_in_the_table() -> None:
    for prefix, provider in PROVIDERS.items():
        [row] = [line for line in PAGE.splitlines() if line.startswith(f"| `{prefix}:`")]
        for variable in provider.key_variables:
            assert variable in row


def test_every_option_is_in_the_table() -> None:
    with pytest.raises(Exception, match="known options: ") as caught:
        parse_spec("ollama:x?nonsense=1")
    for option in str(caught.value).partition("known options: ")[2].split(", "):
        assert f"| `{option}` |" in PAGE
