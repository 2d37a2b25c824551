"""OpenAI's Responses and Chat Completions APIs, which most other servers also support."""
