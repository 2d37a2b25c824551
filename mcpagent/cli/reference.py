"""`python -m mcpagent.cli.reference > docs/cli.md`: the page about the command, written from its declarations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from mcpagent.cli import approvals
from mcpagent.cli.app import command_line
from mcpagent.cli.commands.table import COMMANDS, GROUPS, KEYS, PREFIXES
from mcpagent.cli.event_schema import DOCUMENTS, SCHEMA
from mcpagent.cli.exit_codes import MEANINGS
from mcpagent.cli.help import TOP_LEVEL_HELP, command_help

HEAD = """\
# The command line

This page is written by `python -m mcpagent.cli.reference`; change the commands, not the page.

Without a key the built-in offline model answers: rules, no language model, but it really searches, adds and calls
tools. Without a configuration a bundled server with everyday tools stands in. Both say so on stderr.

```text
"""

STREAMS = f"""
## Streams

stdout holds the answer and nothing else: the text as the model wrote it and a line break, or with `--output json` one
document, or with `--output stream-json` one document per line. Everything else goes to stderr; in a pipe only what went
wrong and, without a key or a configuration, one line about each; with `-v` every step. Colours appear on a terminal
only; `--color` wins over `NO_COLOR`, that over `FORCE_COLOR`.

What is piped in is added to the question as a fenced block, or is the question where none is given. Files named after
the question are added in the same way.

## Servers

Read in this order, a later one wins by name: the user's `mcp.json` (`~/.config/mcpagent/` on Linux, or
`$MCPAGENT_HOME/config/`), then from the folder with `.git` down to this one each `.mcp.json` or, where that is absent,
`mcp_servers.json`. `--config` replaces all of these, `--server` adds to them. Both `mcpServers` and `servers` are read.
Servers of a project's file are started after one yes only; see [configuration](configuration.md#trust).

A server that fails is named with its reason and the others work. Where all fail, nothing is asked and the exit code is
5.

## Approval

{(approvals.__doc__ or "").strip()}

An answer "always" is kept in `approvals.json` in the state folder (`~/.local/state/mcpagent/` on Linux, or
`$MCPAGENT_HOME/state/`), for the server as it is configured: another command, address or key under the same name is
asked about anew. "Always this tool" and "this session" hold for the tool as it was shown, so one that its server
changed is asked about anew too. `mcpagent approvals` lists what is kept, `mcpagent approvals forget git.push`
takes it back.

An answer takes Enter; whatever is no answer is a reason for "no", and the model is told it. What was typed before the
question appeared is dropped. Of several calls at once each is asked about, one after the other.

In one-shot runs a denied call makes the exit code 6, with one line on stderr that names the flag which would have
allowed it, and an entry in `denials`.

```text
$ mcpagent -p "push it"; echo $?
denied: git.git_push (no one can be asked here). allow it with --allow git.git_push
6
```

## What is kept

`tools` commands read the lists of servers from `catalog/` in the cache folder (`~/.cache/mcpagent/` on Linux, or
`$MCPAGENT_HOME/cache/`) for seven days, or as long as the server itself says, and start no server then; `tools call`
starts the one that it needs. `--refresh` asks anew.

## JSON documents

Each document has `type`. The first one of a run has `"schema": "{SCHEMA}"`. [Events](events.md) tells more and has
their JSON Schema.
"""


def page() -> str:
    """The whole page."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield HEAD + TOP_LEVEL_HELP + "```\n"
    yield STREAMS + "\n| `type` | when | fields |\n|---|---|---|\n"
    for name, kind in DOCUMENTS.items():
        yield f"| `{name}` | {kind.when} | {', '.join(f'`{field}`' for field in kind.names)} |\n"
    yield "\n## Exit codes\n\n| code | meaning |\n|---|---|\n"
    yield from (f"| {code.value} | {meaning} |\n" for code, meaning in MEANINGS.items())
    yield "\n## In the chat\n\n| command | |\n|---|---|\n"
    for names in GROUPS.values():
        yield from (
            f"| `{f'{name} {COMMANDS[name].parameter}'.strip()}` | {COMMANDS[name].about} |\n" for name in names
        )
    yield "\nPrefixes:\n\n" + "".join(f"- {line.strip()}\n" for line in PREFIXES)
    yield "\nKeys:\n\n" + "".join(f"- {line.strip()}\n" for line in KEYS)
    yield "\n## Commands\n"
    for path, command in _leaves(command_line(), "mcpagent"):
        yield f"\n### {path}\n\n```text\n{command_help(command, path)}```\n"


def _leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, item in command.commands.items():
        if hasattr(item, "commands"):
            yield from _leaves(item, f"{path} {name}")
        else:
            yield f"{path} {name}", item


if __name__ == "__main__":
    sys.stdout.write(page())
