"""A stand-in for model providers: it enforces their documented rules, counts tokens and caches prompts as they do."""
