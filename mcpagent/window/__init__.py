"""What of a history a model is sent: a fold over it, how many tokens that is, and where it can be cut."""
