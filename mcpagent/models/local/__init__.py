"""Support for models on self-hosted servers: calls as text, prompted calls, and discovered server traits."""
