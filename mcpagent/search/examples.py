"""Example requests for tools, worded by users: searched together with each tool, and never shown to a model.

They come from the caller that creates the index, from a file of the user (`mcpagent tools examples`), and from this
package, for the bundled server and well-known public ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from mcpagent.errors import InputError
from mcpagent.search.fields import local_name
from mcpagent.utilities.filesystem.bounded_files import read_own
from mcpagent.utilities.filesystem.file_changes import write_whole
from mcpagent.utilities.json_schema.parts import required_of
from mcpagent.utilities.python.plain_data import MALFORMED
from mcpagent.values.messages import ToolDefinition

MOST_EXAMPLES = 8
"""Maximum number of example requests per tool."""

LONGEST_EXAMPLE = 200
"""Maximum length of an example request in characters."""

Examples: TypeAlias = Callable[[ToolDefinition], Sequence[str]]
"""Callback that returns a tool's example requests; it must always return the same ones for the same tool."""

_SHIPPED = Path(__file__).with_name("example_requests.json")


def examples_from(given: Mapping[str, Sequence[str]]) -> Examples:
    """Return a callback that looks a tool up by "server.tool" or offered name, then by `content_key`, then in
    `shipped_examples`.
    """
    if not given:
        return shipped_examples

    def examples(tool: ToolDefinition) -> Sequence[str]:
        named = (
            given.get(f"{tool.server}.{local_name(tool)}") or given.get(tool.name) or ()
        )
        found = dict.fromkeys(
            [*named, *given.get(content_key(tool), ()), *shipped_examples(tool)]
        )
        return [text[:LONGEST_EXAMPLE] for text in islice(found, MOST_EXAMPLES)]

    return examples


def shipped_examples(tool: ToolDefinition) -> tuple[str, ...]:
    """Return this package's examples for a tool with this name and these required parameters, whatever its server is
    called.
    """
    shipped, names = _shipped()
    if local_name(tool) in names:
        return shipped.get(signature_key(tool), ())
    return ()


def signature_key(tool: ToolDefinition) -> str:
    """Return `create_issue(owner, repo, title)`: a tool's own name and required parameters."""
    return f"{local_name(tool)}({', '.join(sorted(required_of(tool.parameters)))})"


def content_key(tool: ToolDefinition) -> str:
    """Return a hash of the tool's own texts, so that examples are not used after these texts change."""
    said = [local_name(tool), tool.title, tool.description, tool.parameters]
    return (
        "sha256:"
        + hashlib.sha256(
            json.dumps(said, sort_keys=True, default=str).encode()
        ).hexdigest()[:24]
    )


def read_examples(path: Path) -> dict[str, tuple[str, ...]]:
    """Read a file written by `write_examples`; {} if it does not exist. Raises `InputError` for any other file."""
    try:
        held = json.loads(read_own(path))
        return {key: tuple(texts) for key, texts in _checked(held["examples"])}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, *MALFORMED) as error:
        raise InputError(
            f"{path}: no file of example requests ({error}); delete it, or write it again"
        ) from None


def write_examples(path: Path, examples: Mapping[str, Sequence[str]]) -> None:
    """Write example requests by key, readable by the user only. Raises `OSError` on failure."""
    held = {key: list(examples[key]) for key in sorted(examples)}
    write_whole(
        path, json.dumps({"examples": held}, ensure_ascii=False, indent=1).encode()
    )


def _checked(held: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, Sequence[str]]]:
    for key, texts in held.items():
        if not isinstance(texts, list) or not all(
            isinstance(text, str) for text in texts
        ):
            raise ValueError(f"{key[:64]}: not a list of texts")
        yield key, texts


@cache
def _shipped() -> tuple[Mapping[str, tuple[str, ...]], Set[str]]:
    """Return the shipped examples by `signature_key`, and the names of their tools, for a quick check of other
    tools.
    """
    held = json.loads(_SHIPPED.read_text("utf-8"))
    return {key: tuple(texts) for key, texts in held.items()}, {
        key[: key.index("(")] for key in held
    }
