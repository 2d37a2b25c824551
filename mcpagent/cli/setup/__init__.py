"""First steps, doctor, configuration, keys, cards and completion."""
