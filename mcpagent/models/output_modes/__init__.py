"""Request structured output in a mode that the model and its server support, and read the answer."""
