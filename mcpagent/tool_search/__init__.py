"""How a model finds tools that it is not offered: the catalogue, a session's share of it, and the tools for that."""
