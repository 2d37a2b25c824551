"""Encrypt a key in a database row with the database's password, so that only its users can read it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

KEY_BYTES = 32
_SALT_BYTES = 16


def new_sealed_key(password: str) -> str:
    """Return a new random key as text that `opened_key` opens with the same password."""
    salt, key = secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(KEY_BYTES)
    pad, proof = _pads(password, salt)
    hidden = salt + _combined(key, pad)
    return base64.b64encode(hidden + _tag(proof, hidden)).decode()


def opened_key(text: str, password: str) -> bytes | None:
    """Return the key; None if it was sealed with another password, or changed."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    hidden, tag = data[: _SALT_BYTES + KEY_BYTES], data[_SALT_BYTES + KEY_BYTES :]
    salt, ciphered = hidden[:_SALT_BYTES], hidden[_SALT_BYTES:]
    pad, proof = _pads(password, salt)
    if len(ciphered) != KEY_BYTES or not hmac.compare_digest(_tag(proof, hidden), tag):
        return None
    return _combined(ciphered, pad)


def _pads(password: str, salt: bytes) -> tuple[bytes, bytes]:
    made = hashlib.scrypt(
        password.encode(), salt=salt, n=2**14, r=8, p=1, dklen=2 * KEY_BYTES
    )
    return made[:KEY_BYTES], made[KEY_BYTES:]


def _combined(one: bytes, other: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(one, other, strict=True))


def _tag(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()
