"""Reciprocal rank fusion."""

from __future__ import annotations

from mcpagent.documents.stores.rank_fusion import fused


def test_items_that_two_rankings_have_precede_the_best_of_one() -> None:
    found = fused({"keywords": ["a", "b", "c"], "embeddings": ["d", "b"]})
    assert [item.key for item in found] == ["b", "a", "d", "c"]
    assert found[0].ranks == {"keywords": 2, "embeddings": 2}
    assert found[0].score == 2 / 62
    assert fused({}) == []
