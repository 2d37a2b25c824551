"""Let a model find tools that it is not offered: the catalogue, each session's part of it, and the search tools."""
