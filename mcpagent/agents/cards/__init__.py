"""Agents described in files, and files of agents."""
