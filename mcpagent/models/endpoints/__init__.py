"""What an address and the model behind it take: one value, from one place."""
