"""The ways in which a model can call tools that were found after the conversation began."""
