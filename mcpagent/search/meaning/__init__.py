"""What texts mean, as vectors: models that make them, tools that have them, and a cache on disk."""
