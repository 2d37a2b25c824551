"""What the adapters of OpenAI's two APIs share: its SDK, and its address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagent.models.http_model import OPENAI_URL, HttpModel, timeouts

if TYPE_CHECKING:
    import openai


class OpenAIModel(HttpModel):
    """A model that OpenAI's SDK talks to, at OpenAI or elsewhere."""

    usual_url = OPENAI_URL

    @property
    def at_openai(self) -> bool:
        return is_openai(self.endpoint.base_url)

    def connect(self, api_key: str) -> openai.AsyncOpenAI:
        import openai

        return openai.AsyncOpenAI(
            api_key=api_key,
            base_url=self.endpoint.base_url,
            max_retries=0,
            timeout=timeouts(self.endpoint),
            http_client=self._http_client,
        )

    def sdk_errors(self) -> tuple[type[Exception], ...]:
        import openai

        return (openai.OpenAIError,)

    def stream_class(self) -> type[openai.AsyncStream[object]]:
        import openai

        return openai.AsyncStream[object]


def is_openai(base_url: str | None) -> bool:
    """Whether this is OpenAI's own address; None stands for it."""
    return base_url is None or base_url.rstrip("/") == OPENAI_URL
