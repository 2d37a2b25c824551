"""`!command`: run the user's command in the user's shell; the output is displayed and can be sent to the model.

No text of a model, a tool, a server or a file may reach this module.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from mcpagent.cli.common.number_formats import duration
from mcpagent.utilities.processes.child_programs import ProgramOutput, run_program
from mcpagent.utilities.text.for_model import fenced
from mcpagent.utilities.text.safe_text import safe_text

SECONDS = 120.0


async def run_shell(
    command: str, folder: Path, environ: Mapping[str, str], show: Callable[[str], None]
) -> ProgramOutput:
    """Run the line in the user's shell, and show its output as it arrives, line by line and printable.

    The command has no input. After `SECONDS`, or on cancellation, it is ended with all its children. Daemons that it
    started continue, as in a shell.
    """
    if sys.platform == "win32":
        words = [environ.get("COMSPEC", "cmd.exe"), "/c", command]
    else:
        shell = environ.get("SHELL", "")
        words = [shell if shell and shutil.which(shell) else "/bin/sh", "-c", command]
    return await run_program(
        words, folder, environ, show, seconds=SECONDS, may_leave_processes=True
    )


Choose = Callable[[str], Awaitable[str]]
QUESTION = "run it? [y] yes  [m] yes, and the model gets the output  [N] no: "


async def offer_shell(
    command: str,
    folder: Path,
    environ: Mapping[str, str],
    choose: Choose,
    say: Callable[[str], None],
) -> str:
    """Ask, run the line and show its output.

    Returns the text for the next prompt, or "".
    """
    if not command:
        say("what should run? !COMMAND, for example !git status")
        return ""
    answer = (await choose(QUESTION)).lower()
    if answer not in ("y", "yes", "m"):
        say("not run")
        return ""
    started = time.monotonic()
    result = await run_shell(command, folder, environ, lambda line: say(f"  {line}"))
    say(f"{result.ending}, {duration(time.monotonic() - started)}")
    if answer != "m":
        return ""
    say("your next question takes the output along")
    return fenced(result.output, f"Output of `{safe_text(command)}` ({result.ending})")
