"""The prompt cache of every endpoint with its defaults: `benchmarks/prefix_cache.py`, small and whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.prefix_cache import ENDPOINTS

ROOT = Path(__file__).resolve().parents[3]
KINDS = (
    "anthropic:claude-opus-4-1",
    "anthropic:claude-sonnet-4-6",
    "openai:gpt-5.5?base_url=https://gateway.example/v1",
    "openrouter:anthropic/claude-sonnet-4.5",
    "gemini:gemini-3-flash-preview",
    "groq:llama-3.3-70b-versatile",
    "llamacpp:qwen3-32b",
)
"""One endpoint for each way of caching and of writing found tools."""


def not_held(*options: str) -> list[str]:
    """Return the endpoints below 90 % after the second question, or with more than three rewritten beginnings."""
    command = [sys.executable, "-m", "benchmarks.prefix_cache", "--json", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout, done.stderr[-2000:]
    figures = json.loads(done.stdout)["figures"]
    assert figures
    return [
        f"{one['endpoint']}, {one['tools']} tools: {one['cached_share']:.1%}, {one['breaks']} rewritten"
        for one in figures
        if one["cached_share"] < 0.9 or one["breaks"] > 3
    ]


@pytest.mark.slow
def test_each_way_of_writing_found_tools_keeps_the_cache() -> None:
    assert not_held("--tools", "60", "--search", "always", "--only", *KINDS) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(3))
def test_every_endpoint_keeps_the_cache_by_default(first: int) -> None:
    """In three parts, each of which has its own time limit."""
    assert not_held("--only", *ENDPOINTS[first::3]) == []
