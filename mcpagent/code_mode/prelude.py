"""What stands in a sandbox before a program: how it calls tools, and how we read its values.

Nothing of it is trusted: a program can put something else in the place of each of these.
"""

from __future__ import annotations

CALLS = "mcpagent_calls"
PRELUDE = f"""
from {CALLS} import call as _call
import json as _json
class _Module:
    def __init__(self, members):
        for name in members:
            setattr(self, name, members[name])
def _value(text):
    if text[:1] == "j" or text[1:2] in ("{{", "["):
        try:
            return _json.loads(text[1:])
        except ValueError:
            pass
    return text[1:]
def _function(name):
    async def call(**arguments):
        return _value(await _call(name, _json.dumps(arguments)))
    return call
def _has(read):
    try:
        read()
    except NameError:
        return False
    return True
def _brief(read):
    try:
        text = repr(read())
    except BaseException:
        return None
    if text.startswith("<"):
        return None
    return text if len(text) <= 160 else text[:160] + "..."
def _cut(text, most):
    if len(text) <= most:
        return text
    left = len(text) - most
    return text[: most * 3 // 4] + f"\\n[... {{left:,}} characters left out ...]\\n" + text[len(text) - most // 4 :]
def _shown(value, most):
    return _cut(value if isinstance(value, str) else repr(value), most)
_last = None
"""
