"""The keys of `sign_in` in a server's entry, and the check that their values are consistent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from mcpagent.config.server_config import SignInConfig

BY_PERSON = "oauth"
"""The text that other clients write instead of an object, for a sign-in by the user."""

SIGN_IN_TEXTS = (
    "client_id",
    "client_secret",
    "private_key",
    "algorithm",
    "token",
    "idp_token_endpoint",
    "idp_client_id",
    "idp_client_secret",
    "issuer",
    "client_metadata_url",
)

_OTHERS = (
    "grant",
    "private_key_file",
    "token_file",
    "scopes",
    "callback_port",
    "proof_of_possession",
)
KEY_OF_SIGN_IN: Mapping[str, str] = {
    **{key: key for key in (*SIGN_IN_TEXTS, *_OTHERS)},
    "grant_type": "grant",
    "scope": "scopes",
    "redirect_port": "callback_port",
    "dpop": "proof_of_possession",
}
"""Other spellings, in lower case with underscores -> mcpagent's keys."""


def folded(name: str) -> str:
    """Return a key in lower case with underscores."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|-", "_", name).lower()


def sign_in_problem(config: SignInConfig) -> str:
    """Return a message about the first missing or superfluous setting, with the fix, or ""."""
    return next(
        (
            problem
            for is_so, problem in (*_combinations(config), *_addresses(config))
            if is_so
        ),
        "",
    )


def _combinations(config: SignInConfig) -> Iterator[tuple[bool, str]]:
    keys, tokens = (
        (config.private_key, config.private_key_file),
        (config.token, config.token_file),
    )
    of_client = config.grant == "client_credentials"
    proofs = [
        proof
        for proof in (config.client_secret, *keys, *(tokens if of_client else ()))
        if proof
    ]
    yield all(keys), "has a private key and a file with one; keep one of them"
    yield all(tokens), "has a token and a file with one; keep one of them"
    yield (
        len(proofs) > 1,
        "has several proofs of the client; keep one of client_secret, private_key and token",
    )
    yield (bool(proofs) or of_client) and not config.client_id, 'needs "client_id"'
    yield (
        of_client and not proofs,
        'needs "client_secret", "private_key_file" or "token_file"',
    )
    yield (
        config.grant == "jwt-bearer" and not any(tokens),
        'needs "token" or "token_file": the JWT that is exchanged',
    )
    yield (
        not config.is_unattended and any(tokens),
        '"token" is for "grant": "jwt-bearer" or "client_credentials"',
    )
    yield (
        not config.is_unattended and any(keys),
        'a private key is for "grant": "client_credentials" or "jwt-bearer"',
    )
    about_idp = (
        config.idp_token_endpoint or config.idp_client_id or config.idp_client_secret
    )
    yield (
        bool(about_idp) and config.grant != "jwt-bearer",
        'what begins with "idp_" is for "grant": "jwt-bearer"',
    )
    yield (
        bool(about_idp) and not config.idp_token_endpoint,
        'needs "idp_token_endpoint"',
    )


def _addresses(config: SignInConfig) -> Iterator[tuple[bool, str]]:
    for key in ("issuer", "idp_token_endpoint", "client_metadata_url"):
        address = str(getattr(config, key))
        try:
            parts = urlsplit(address)
        except ValueError:
            yield True, f'"{key}" is no address'
            continue
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname)
        yield (
            bool(address) and not is_one,
            f'"{key}" is no address; write https://host/path',
        )
        if key == "client_metadata_url" and address:
            is_document = parts.scheme == "https" and parts.path not in ("", "/")
            yield (
                not is_document,
                '"client_metadata_url" is an https address with a path',
            )
