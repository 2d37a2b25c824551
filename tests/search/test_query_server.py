"""A search within one server finds no tool of another one, also by a name that is only similar."""

from __future__ import annotations

from mcpagent.search import ToolIndex
from mcpagent.values.messages import ToolDefinition
from tests.tables import each_row


@each_row(
    "query, server, names", [("weathr", None, ("weather",)), ("weathr", "sky", ("weather",)), ("weathr", "db", ())]
)
def test_a_similar_name_is_found_on_the_asked_server_only(
    query: str, server: str | None, names: tuple[str, ...]
) -> None:
    index = ToolIndex("bm25")
    index.replace("sky", [ToolDefinition("weather", "Report it.", {}, "sky")])
    index.replace("db", [ToolDefinition("query_rows", "Run SQL.", {}, "db")])
    assert index.search(query, server=server).names == names
