"""The client of a provider's SDK: credentials, connections and streams."""
