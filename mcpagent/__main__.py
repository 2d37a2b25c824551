"""`python -m mcpagent` is `mcpagent`."""

from mcpagent.cli import main

if __name__ == "__main__":
    main()
