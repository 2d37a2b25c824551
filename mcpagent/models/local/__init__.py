"""Support for models on self-hosted servers: calls written as text, prompted calls, and properties learned from the
server.
"""
