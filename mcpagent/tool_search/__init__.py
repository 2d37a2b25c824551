"""Let a model find tools that are not offered: the catalogue, each session's part of it, and the search tools."""
