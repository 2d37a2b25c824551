"""The help of the top level, one composed screen; typer writes the help pages of the commands."""

from __future__ import annotations

import sys

TOP_LEVEL_HELP = """\
mcpagent - an agent with any number of MCP tools: it searches, adds what it needs, and calls it
  mcpagent                                 chat (works without a key or configuration)
  mcpagent -p "what time is it in Tokyo"   one answer on stdout
Commands
  chat                     talk to the agent in the terminal
  ask PROMPT [FILES]       one answer and exit; the same as -p; reads stdin
  tools list|show|search|learned|call|tokens|lint|eval|examples   the tools: what is found, costs
  mcp list|test|add|remove|enable|disable|import|logs|login|logout   your servers; do they work
  gateway serve|install|uninstall|status|logs   all of them as one server, for other clients
  skills list|show|lint    Agent Skills, yours and the project's
  docs add|search|list|show|remove|stats|eval   your documents: index and search them
  cards check|show         agent cards; mcpagent chat --card FILE talks to one
  doctor                   is everything there: model, keys, files, servers
  config show|path|edit    your settings and where each comes from
  keys list|set|move|remove     API keys and other secrets, in the system keyring
  permissions list|forget|explain   your answers "always"; which rule decides on a tool
  trust list|show|tool|revoke   what you agreed that a project may start, read and send
  sessions list|show|search|export|fork|rename|delete|prune|doctor   your chats
  trace show SESSION|FILE  runs as trees: times, tokens, what was offered; FILE is from --record
  completion SHELL         for bash, zsh, fish or pwsh
  demo                     see tool search at work; offline unless a model is set
  worker                   executes durable runs, also those of workers that died
  runs list|show|cancel|delete|prune   the durable runs

Options that people use (mcpagent COMMAND --help for a command, mcpagent --help all for the rest)
  -p                       print one answer and exit
  -m, --model NAME         provider:model, e.g. anthropic:claude-sonnet-5-5, ollama:qwen3, offline
  -s, --system TEXT        the model's instructions
  -c, --continue           continue the last chat of this folder
  -r, --resume [ID|WORDS]  continue another chat; without a value you choose it from a list
  --attach FILE            a text, picture, PDF or recording for the question
  --server NAME='command'  one more server, also NAME=https://...
  --config FILE            the servers of this file only
  --allow SERVER.TOOL      run these tools without asking
  -o, --output FORMAT      text, json or stream-json on stdout; --json is short for json
Every option is also a variable: MCPAGENT_MODEL for --model. --set NAME=VALUE sets what has no flag.
"""

STDOUT = 1
_INDENT = 8


def top_level_help() -> str:
    """Return the top-level help, with its lines broken at spaces on a narrow terminal."""
    if sys.stdout is None or not sys.stdout.isatty():
        return TOP_LEVEL_HELP
    from mcpagent.cli.common.line_wrapping import at_words

    return at_words(TOP_LEVEL_HELP, STDOUT, _INDENT)
