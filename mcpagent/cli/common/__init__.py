"""The shared base of all commands: options, settings, exit codes, error lines."""
