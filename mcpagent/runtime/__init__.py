"""The private side of an agent: what all its sessions share while it runs."""
