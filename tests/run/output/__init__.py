"""Answers as data."""
