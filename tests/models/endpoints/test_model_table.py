"""The generated table: each row has a source and a date, and the rows that are written by hand agree with it."""

from __future__ import annotations

import json
import warnings
from datetime import UTC, date, datetime
from typing import Any

from mcpagent.models.endpoints.endpoint import context_window, endpoint_of
from mcpagent.models.endpoints.model_table import TABLE, generated_on
from mcpagent.models.profiles import EFFORTS, profile_of
from mcpagent.values.messages import Origin
from tests.tables import each_row

MOST_DAYS = 60
MODELS: dict[str, dict[str, dict[str, Any]]] = json.loads(TABLE.read_text(encoding="utf-8"))["models"]


def test_a_table_older_than_60_days_is_warned_about() -> None:
    """Run `.ci/model_table` then: providers add and change models every month."""
    days = (datetime.now(UTC).date() - date.fromisoformat(generated_on())).days
    if days > MOST_DAYS:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(f"model_table.json is {days} days old; run .ci/model_table", stacklevel=1)


def test_each_row_has_a_source_and_a_date() -> None:
    for models in MODELS.values():
        for name, row in models.items():
            assert row["source"], name
            assert date.fromisoformat(row["date"]) <= datetime.now(UTC).date()
            assert set(row.get("efforts", ())) <= set(EFFORTS)
            assert set(row.get("accepts", ())) <= {"image", "pdf", "audio"}
            assert row.get("input", 1) <= row.get("window", row.get("input", 1))


@each_row(
    "provider, model, takes, total, answer",
    [
        *(("openai", f"gpt-5{kind}", 272_000, 400_000, 128_000) for kind in ("", "-mini", ".1", ".2", "-codex")),
        ("openai", "gpt-5.4-mini", 272_000, 400_000, 128_000),
        ("azure", "gpt-5", 272_000, 400_000, 128_000),
        ("openrouter", "openai/gpt-5", 272_000, 400_000, 128_000),
        ("anthropic", "claude-sonnet-4-6", 1_000_000, 1_000_000, 128_000),
        ("anthropic", "claude-haiku-5-5", 1_000_000, 1_000_000, 128_000),
        ("bedrock", "us.anthropic.claude-sonnet-4-6-v1:0", 1_000_000, 1_000_000, 128_000),
        ("deepseek", "deepseek-chat", 131_072, 131_072, 8192),
        ("deepseek", "deepseek-reasoner", 131_072, 131_072, 65_536),
    ],
)  # fmt: skip
def test_windows_and_largest_answers(provider: str, model: str, takes: int, total: int, answer: int) -> None:
    endpoint = endpoint_of(Origin(provider, "chat", model=model))
    assert (endpoint.input_tokens, endpoint.window_tokens, endpoint.output_tokens) == (takes, total, answer)


@each_row("maker, provider", [("mistral", "mistral"), ("xai", "xai"), ("google", "gemini"), ("deepseek", "deepseek")])
def test_every_listed_model_of_a_maker_is_known(maker: str, provider: str) -> None:
    unknown = [name for name, row in MODELS[maker].items() if "input" in row and not context_window(provider, name)]
    assert unknown == []


def test_rows_by_hand_and_the_table_agree_on_the_largest_answers() -> None:
    """But for previews, chat aliases and fine-tunings, whose rows here are those of their family."""
    for maker in ("anthropic", "openai"):
        for name, row in MODELS[maker].items():
            by_hand = profile_of(Origin(maker, model=name))
            if by_hand.max_output_tokens is None or "output" not in row:
                continue
            if not any(word in name for word in ("chat", "preview", "search")) and name != "gpt-4o-2024-05-13":
                assert by_hand.max_output_tokens == row["output"], name


def test_rows_by_hand_name_no_effort_that_the_table_lacks() -> None:
    for maker in ("anthropic", "openai"):
        for name, row in MODELS[maker].items():
            by_hand = profile_of(Origin(maker, model=name))
            if by_hand.thinking in ("adaptive", "effort") and "efforts" in row:
                assert set(by_hand.efforts) <= set(row["efforts"]), name
