"""A sealed key opens with its password alone."""

from __future__ import annotations

import base64

from mcpagent.journal.sessions.sealed_keys import KEY_BYTES, new_sealed_key, opened_key


def test_a_key_opens_with_its_password_and_unchanged() -> None:
    text = new_sealed_key("correct horse")
    key = opened_key(text, "correct horse")
    assert key is not None
    assert len(key) == KEY_BYTES
    data = base64.b64decode(text)
    assert key not in data
    assert opened_key(text, "another") is None
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        if place % 20 == 0:
            assert opened_key(base64.b64encode(changed).decode(), "correct horse") is None
    for wrong in ("", "not base64!", "AAAA"):
        assert opened_key(wrong, "correct horse") is None
