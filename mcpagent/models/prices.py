"""The cost of a request in US dollars, by the price table in the package genai-prices.

Nothing is downloaded.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from mcpagent.models.endpoints.model_identity import OWN_SERVERS, is_ollama_cloud
from mcpagent.values.messages import Usage

MILLION = 1_000_000

_KEEPING, _REWRITING = 2_000, 6_000
"""Uncached tokens that a search and its further requests cost: if the provider's cache stays valid, and if not."""

_USUAL_SHARE, _LARGEST_SHARE = 0.1, 0.5
"""The usual price of cached tokens as a share of the uncached price, and the maximum share that is assumed for the cost
of a search.
"""

LEAST_SEARCH_COST, MOST_SEARCH_COST = _KEEPING / _LARGEST_SHARE, 400_000.0


def dollars_for(usage: Usage, provider: str, model: str, base_url: str) -> float | None:
    """Return the price of these tokens and web searches, with cached tokens at their own price; None if unknown.

    The user's own servers cost 0; the price of models at ollama.com is unknown. `provider` and `model` are the halves
    of a model's name. The address decides which prices apply.
    """
    if is_ollama_cloud(provider, model, base_url):
        return None
    if provider in OWN_SERVERS:
        return 0.0
    try:
        from genai_prices import Usage as PricedUsage
        from genai_prices import calc_price
    except ImportError:  # an installation without the price table still answers
        return None

    try:
        tokens = PricedUsage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            **({"web_searches": usage.web_searches} if usage.web_searches else {}),
        )
    except ValueError:  # impossible counts, which some servers send
        return None
    # For an address that is not in the table, such as a gateway, the price of the named provider applies.
    asked = (
        partial(calc_price, provider_api_url=base_url),
        partial(calc_price, provider_id=provider),
    )
    for price in asked:
        with suppress(LookupError, ValueError):
            priced = price(tokens, model)
            if (
                usage.web_searches
                and getattr(priced.model_price, "web_searches_kcount", None) is None
            ):
                return None  # the table has no price for these tokens, and would count them as free
            return float(priced.total_price)
    return None


def cached_share(provider: str, model: str, base_url: str) -> float | None:
    """Return the price of a cached input token as a share of an uncached one; None if unknown."""
    whole = dollars_for(Usage(input_tokens=MILLION), provider, model, base_url)
    cached = dollars_for(
        Usage(input_tokens=MILLION, cache_read_tokens=MILLION),
        provider,
        model,
        base_url,
    )
    if whole and cached is not None:
        return cached / whole
    return None


def known_search_cost(
    provider: str,
    model: str,
    base_url: str,
    *,
    rewrites: float,
    window_tokens: int | None,
) -> float:
    """Return the cost of a search and the further requests, as the number of cached input tokens that cost the same.

    Offering that many tokens of definitions from the start would cost as much. The result is at most half of the
    model's window, because the conversation needs room. `rewrites` is the share of searches whose tools change the
    beginning of the request, so that the conversation is no longer cached; on a self-hosted server that costs nothing.
    """
    share = cached_share(provider, model, base_url)
    if share is None:
        share = _USUAL_SHARE
    else:
        share = min(share, _LARGEST_SHARE)
    tokens: float = _KEEPING
    if provider not in OWN_SERVERS:
        tokens += rewrites * (_REWRITING - _KEEPING)
    room = min(MOST_SEARCH_COST, (window_tokens or MOST_SEARCH_COST * 2) / 2)
    if share:
        return max(min(tokens / share, room), LEAST_SEARCH_COST)
    return room


_TABLE_NAMES = {"gemini": "google", "openai-chat": "openai"}


def priced_window(provider: str, model: str, base_url: str) -> int | None:
    """Return the context window in the price table, at the address or else of the provider; None if it lists none."""
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    for named, url in (
        (None, base_url or None),
        (_TABLE_NAMES.get(provider, provider), None),
    ):
        with suppress(LookupError, ValueError):
            _, found = get_snapshot().find_provider_model(model, None, named, url)
            return found.context_window
    return None
