"""One tool call in full, for Ctrl+T: what it was called with and all it gave."""

from __future__ import annotations

import json

from rich.text import Text

from mcpagent.cli.figures import duration
from mcpagent.events import ToolCallFinished
from mcpagent.messages import Image
from mcpagent.safe_text import safe_line, safe_text

MAX_LINES = 500


def unfolded_lines(event: ToolCallFinished, back: int, of: int) -> list[Text]:
    """The call that is `back` calls before the end of the last `of`, 1 being the last one."""
    result = event.result
    where = "the last call" if back == 1 else f"call {back} from the end, of {of}"
    how = (result.error or "").replace("_", " ") or f"{len(result.text):,} characters"
    name = safe_line(f"{event.server}.{event.call.name}" if event.server else event.call.name, 120)
    lines = [Text.assemble((name, "tool"), (f"  {where}, {duration(result.seconds)}, {how}", "dim"))]
    arguments = event.call.malformed or json.dumps(event.call.arguments, indent=2, ensure_ascii=False, default=str)
    lines += [Text(f"  {line}", "dim") for line in safe_text(arguments).splitlines()[:MAX_LINES]]
    said = safe_text(result.text).expandtabs(4).splitlines()
    lines += [Text(f"  {line}") for line in said[:MAX_LINES]]
    if len(said) > MAX_LINES:
        lines.append(Text(f"  {len(said) - MAX_LINES:,} more lines; /save keeps all of it", "dim"))
    if images := sum(isinstance(part, Image) for part in result.content):
        lines.append(Text(f"  {images} image(s); /export html shows them", "dim"))
    return lines
