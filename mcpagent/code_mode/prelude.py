"""Define the code that a sandbox runs before a program: how it calls tools, and how mcpagent reads its values.

This code is not trusted, since a program can replace each of its names. A program does not do so by accident: the names
are unusual, and each function holds the objects that it needs.
"""

from __future__ import annotations

CALLS = "mcpagent_calls"
LAST = "_mcpagent_last"
"""The value of the last expression, in the sandbox."""

STATEMENT = "_mcpagent_statement"
"""The number of the running top-level statement, in the sandbox."""

MODULE, FUNCTION = "_mcpagent_module", "_mcpagent_function"
HAS, BRIEF, SHOWN = "_mcpagent_has", "_mcpagent_brief", "_mcpagent_shown"

PRELUDE = f"""
from {CALLS} import call as _mcpagent_call
import json as _mcpagent_json
class {MODULE}:
    def __init__(self, members):
        for name in members:
            setattr(self, name, members[name])
def {HAS}(read):
    try:
        read()
    except NameError:
        return False
    return True
def _mcpagent_made(call, json, repr, len, isinstance, str):
    def value_of(text):
        if text[:1] == "j" or text[1:2] in ("{{", "["):
            try:
                return json.loads(text[1:])
            except ValueError:
                pass
        return text[1:]
    def function(name):
        async def called(**arguments):
            return value_of(await call(name, json.dumps(arguments)))
        return called
    def brief(read):
        try:
            text = repr(read())
        except BaseException:
            return None
        if text.startswith("<"):
            return None
        return text if len(text) <= 160 else text[:160] + "..."
    def cut(text, most):
        if len(text) <= most:
            return text
        left = len(text) - most
        return text[: most * 3 // 4] + f"\\n[... {{left:,}} characters left out ...]\\n" + text[len(text) - most // 4 :]
    def shown(value, most):
        return cut(value if isinstance(value, str) else repr(value), most)
    return [function, brief, shown]
{FUNCTION}, {BRIEF}, {SHOWN} = _mcpagent_made(_mcpagent_call, _mcpagent_json, repr, len, isinstance, str)
{LAST} = None
"""
