"""The last step before a body is sent, for each API: apply the provider's rules after all merges."""
