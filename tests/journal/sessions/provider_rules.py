"""Whether providers would take a request: as their adapters write it, by the rules of `tests/simulator`."""

from __future__ import annotations

from typing import Any

from mcpagent.models.anthropic import messages_model
from mcpagent.models.base import ModelRequest
from mcpagent.models.openai import openai_chat_history, openai_responses_history
from tests.simulator import anthropic_rules, openai_rules


def require_valid(request: ModelRequest) -> None:
    """Raises `Refusal` where one of them would answer 400."""
    anthropic: dict[str, Any] = {"max_tokens": 100, **messages_model.request_body(request, "claude-haiku-4-5")}
    headers = {"anthropic-beta": ",".join(messages_model.betas_of(anthropic))}
    anthropic_rules.check(anthropic, headers)
    openai_rules.check_responses(openai_responses_history.request_body(request, "gpt-5.4"), {})
    openai_rules.check_chat(openai_chat_history.request_body(request, "gpt-5.4"), {})
