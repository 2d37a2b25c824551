"""Read the YAML at the beginning of a Markdown file, with limits, because other people wrote it."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

MAX_DEPTH = 64
"""Maximum nesting of lists and mappings."""

MAX_DIGITS = 100
"""Maximum number of digits of an integer: reading a longer one takes more than linear time, and Python refuses to print
it.
"""

_INTEGER, _FLOAT, _TIMESTAMP = (
    f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "timestamp")
)

_FRONT_MATTER = re.compile(
    r"---[ \t]*\n(?P<fields>(?:(?!---[ \t]*(?:\n|\Z)).*(?:\n|\Z))*?)---[ \t]*(?:\n|\Z)"
)


def split_front_matter(text: str) -> tuple[str, str] | None:
    """Return the YAML between the two lines `---`, and the rest of the text; None if the text does not begin with such
    a block.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    found = _FRONT_MATTER.match(text)
    if found is None:
        return None
    return found["fields"], text[found.end() :]


def bounded_yaml(text: str | bytes, *, numbers: bool = True) -> Any:
    """Return the data of a YAML text. Without `numbers`, numbers stay text, because a version 1.10 is not 1.1.

    Raises `yaml.YAMLError` for any text that cannot be read, and for aliases, repeated keys and deep nesting.
    """
    import yaml

    try:
        return yaml.load(text, Loader=_bounded_loader(numbers))  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, UnicodeDecodeError):
        raise
    except Exception as error:  # noqa: BLE001 - the library fails in many ways at values of a wrong tag
        raise yaml.YAMLError(
            f"a value cannot be read ({type(error).__name__})"
        ) from None


@cache
def _bounded_loader(numbers: bool) -> type[yaml.SafeLoader]:
    """Return a YAML loader that refuses aliases, repeated keys and deep nesting."""
    import yaml

    class BoundedLoader(yaml.SafeLoader):
        """A `SafeLoader` that refuses repeated keys and leaves dates as text."""

        def construct_mapping(
            self, node: yaml.MappingNode, deep: bool = False
        ) -> dict[Any, Any]:
            seen: set[str] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f'"{key.value}" is given twice', key.start_mark
                    )
                seen.add(
                    getattr(key, "value", "")
                    if isinstance(key, yaml.ScalarNode)
                    else ""
                )
            return super().construct_mapping(node, deep)

        depth = 0

        def compose_node(
            self, parent: yaml.Node | None, index: Any
        ) -> yaml.Node | None:
            wrong = ""
            if self.check_event(yaml.AliasEvent):
                wrong = "an alias (*) is not allowed"
            if (
                self.depth >= MAX_DEPTH
            ):  # each further level costs the scanner more time
                wrong = f"it nests deeper than {MAX_DEPTH} levels"
            if wrong:
                mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
                raise yaml.composer.ComposerError(None, None, wrong, mark)
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> str:
            value = super().construct_scalar(node)
            if node.tag == _INTEGER and len(value) > MAX_DIGITS:
                raise yaml.constructor.ConstructorError(
                    None,
                    None,
                    f"a number has over {MAX_DIGITS} digits",
                    node.start_mark,
                )
            return str(value)

    texts = {_TIMESTAMP} if numbers else {_TIMESTAMP, _INTEGER, _FLOAT}
    BoundedLoader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in texts]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return BoundedLoader
