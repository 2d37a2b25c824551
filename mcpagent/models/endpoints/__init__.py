"""The capabilities of an address and of the model behind it, as one value from one place."""
