"""The last step before a body is sent, for each protocol: its provider's rules, after every merge."""
