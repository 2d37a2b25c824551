"""The top-level help page: examples first, one screen. A test holds it against the commands there are."""

from __future__ import annotations

TOP_LEVEL_HELP = """\
mcpagent - an agent with any number of MCP tools: it searches, adds what it needs, and calls it

  mcpagent                               chat (works without a key or configuration)
  mcpagent -p "what time is it in Tokyo" one answer on stdout
  git diff | mcpagent -p "write a commit message"
  mcpagent tools search "send mail"      what the model would find

Commands
  chat                     talk to the agent in the terminal
  ask PROMPT [FILES]       one answer and exit; the same as -p; reads stdin
  tools list|show|search   the tools of your servers, and what a search finds
  mcp list|test            your servers, and whether they work
  demo                     see how tool search works, offline, in under a minute

Common options (each also as a variable, MCPAGENT_MODEL for --model)
  -m, --model NAME         provider:model, e.g. anthropic:claude-sonnet-5-5, ollama:qwen3, offline
  --config FILE            servers to use instead of .mcp.json and ~/.config/mcpagent/mcp.json
  --server NAME='command'  one more server, also NAME=https://...
  --tool-search MODE       auto, on or off
  -h, --help               this page; mcpagent COMMAND --help tells more
  --version
"""
