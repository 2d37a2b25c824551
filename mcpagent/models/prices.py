"""What a request costs in US dollars, by the price table inside the package genai-prices; nothing is downloaded."""

from __future__ import annotations

from mcpagent.messages import Usage

MILLION = 1_000_000

_OWN_SERVERS = frozenset({"ollama", "vllm", "llamacpp", "lmstudio"})


def dollars_for(usage: Usage, provider: str, model: str, base_url: str) -> float | None:
    """The price of these tokens, the cached ones at their own; 0 for servers of one's own, None where it is not known.

    `provider` and `model` are the halves of a model's name. The address decides whose prices count.
    """
    if provider in _OWN_SERVERS:
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
        )
    except ValueError:  # counters that cannot be true, which some servers send
        return None
    try:
        return float(calc_price(tokens, model, provider_api_url=base_url).total_price)
    except (LookupError, ValueError):
        pass
    try:  # at an address that the table does not know, a gateway's: it charges what the provider behind it does
        return float(calc_price(tokens, model, provider_id=provider).total_price)
    except (LookupError, ValueError):
        return None


def cached_share(provider: str, model: str, base_url: str) -> float | None:
    """What an input token read from the prompt cache costs, as a share of one that is not; None where not known."""
    whole = dollars_for(Usage(input_tokens=MILLION), provider, model, base_url)
    cached = dollars_for(Usage(input_tokens=MILLION, cache_read_tokens=MILLION), provider, model, base_url)
    return cached / whole if whole and cached else None
