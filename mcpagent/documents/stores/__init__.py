"""Stores of documents: one SQLite file by default, LanceDB for large collections."""
