"""Provider JSON for the tests of model adapters: a provider that answers from a list, and its answers."""
