"""Names of models are read in one place, however an address writes them."""

from __future__ import annotations

from mcpagent.models.endpoints.model_identity import identity_of
from tests.tables import each_row

SONNET = [
    "claude-sonnet-4-5",
    "claude-sonnet-4-5-20250929",
    "anthropic/claude-sonnet-4.5",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "claude-sonnet-4-5@20250929",
    "databricks-claude-sonnet-4-5",
    "bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
]


@each_row("name", SONNET)
def test_claude_is_the_same_model_at_every_address(name: str) -> None:
    model = identity_of(name)
    assert (model.maker, model.family, model.version) == ("anthropic", "sonnet", (4, 5))
    assert model.undated == "claude-sonnet-4-5"


@each_row(
    "name, maker, own",
    [
        ("ft:gpt-4o-2024-08-06:us::id", "openai", "gpt-4o-2024-08-06"),
        ("openai/gpt-5.5:free", "openai", "gpt-5.5"),
        ("o4-mini", "openai", "o4-mini"),
        ("google/gemini-3-flash", "google", "gemini-3-flash"),
        ("mistral.mistral-large-2402-v1:0", "mistral", "mistral-large-2402-v1"),
        ("open-mixtral-8x22b", "mistral", "open-mixtral-8x22b"),
        ("x-ai/grok-4.20", "xai", "grok-4.20"),
        ("deepseek/deepseek-chat", "deepseek", "deepseek-chat"),
        ("moonshotai/Kimi-K2-Thinking", "moonshot", "kimi-k2-thinking"),
        ("zai-org/GLM-4.6", "zai", "glm-4.6"),
        ("cohere.command-r-plus-v1:0", "cohere", "command-r-plus-v1"),
        ("qwen3:1.7b", "qwen", "qwen3"),
        ("meta-llama/llama-4-scout-17b", "meta", "llama-4-scout-17b"),
        ("my-deployment", "", "my-deployment"),
        ("", "", ""),
    ],
)
def test_the_maker_is_read_out_of_the_models_own_name(name: str, maker: str, own: str) -> None:
    model = identity_of(name)
    assert (model.maker, model.name) == (maker, own)


def test_versions_of_gpt_are_read_too() -> None:
    assert identity_of("gpt-5.4-mini-2026-03-17").version == (5, 4)
    assert identity_of("gpt-5.4-nano").family == "gpt-nano"
    assert identity_of("openai/gpt-4o-mini").family == "gpt-4o"
    assert identity_of("gpt-oss-120b").version == (0, 0)
