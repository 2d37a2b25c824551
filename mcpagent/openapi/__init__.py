"""HTTP APIs with an OpenAPI document: each operation becomes a tool, and a call of it becomes a request."""
