"""The ways to ask, which an agent and each of its sessions have alike, and what is heard of an answer meanwhile."""
