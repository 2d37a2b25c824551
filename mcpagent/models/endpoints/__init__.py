"""The features and limits of a model at an address, as one value from one place."""
