"""Compare texts by meaning: embedding models, the vectors of tools, and a cache on disk."""
