"""Tools that a model's provider runs: their values, their forms in requests, and their calls in answers."""
