"""What every command stands on: options, settings, exit codes, error lines."""
