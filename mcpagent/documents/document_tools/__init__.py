"""Toolsets that search, read, summarise and analyse the documents of a store, and answer questions with citations."""
