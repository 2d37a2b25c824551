"""OpenAI's Responses and Chat Completions, which most other servers speak too."""
