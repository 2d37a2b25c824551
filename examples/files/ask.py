"""Ask one question about files, and save the files that the answer has.

    python examples/files/ask.py MODEL QUESTION FILE... [--folder FOLDER]
    python examples/files/ask.py anthropic:claude-sonnet-5-5 "What grew?" report.pdf chart.png

The bytes of a file decide what the model gets: text, a picture, a PDF or a recording. A model that does not accept one
gets the best that it does, such as the text of a PDF, and a line on standard error says so.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from mcpagent import Agent, File, McpAgentError
from mcpagent.models import Model
from mcpagent.values.events import Event, Notice
from mcpagent.values.messages import Document


def listen(event: Event) -> None:
    """Print warnings, such as that of a file that the model gets in another form."""
    if isinstance(event, Notice):
        print(event.text, file=sys.stderr)


async def ask(
    model: str | Model, question: str, files: Sequence[str], folder: Path
) -> str:
    """Return the answer; generated files are written into the folder, under the names that they have there."""
    async with Agent(model, on_event=listen) as agent:
        result = await agent.run([question, *map(File, files)])
    for file in result.files:
        if isinstance(file, Document):
            path = folder / Path(file.name).name
            path.write_bytes(file.content)
            print(f"saved {path}", file=sys.stderr)
        else:
            print(
                f"{file.name or 'a file'} is stored at {file.provider} as {file.id}",
                file=sys.stderr,
            )
    return str(result.output)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("question")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--folder", type=Path, default=Path.cwd())
    chosen = parser.parse_args()
    try:
        print(
            asyncio.run(ask(chosen.model, chosen.question, chosen.files, chosen.folder))
        )
    except McpAgentError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
