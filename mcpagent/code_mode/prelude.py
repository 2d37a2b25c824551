"""Define the code that a sandbox runs before a program: the functions that call tools, and those that read values.

This code is not trusted, since a program can replace each of its names. It cannot happen by accident: the names are
unusual, and each function holds references to the objects that it needs.
"""

from __future__ import annotations

from functools import cache

from mcpagent.code_mode.python_table import CALL_ERRORS, own_builtins

CALLS = "mcpagent_calls"
LAST = "_mcpagent_last"
"""Sandbox variable with the value of the last expression."""

STATEMENT = "_mcpagent_statement"
"""Sandbox variable with the number of the running top-level statement."""

MODULE, FUNCTION = "_mcpagent_module", "_mcpagent_function"
HAS, BRIEF, SHOWN = "_mcpagent_has", "_mcpagent_brief", "_mcpagent_shown"
IMAGES, NEVER = "_mcpagent_images", "_mcpagent_never"
ITERATOR, BOUND, DELETE = "_mcpagent_iterator", "_mcpagent_bound", "_mcpagent_delete"
TRACKED, YIELDED, CAST = "_mcpagent_tracked", "_mcpagent_yielded", "_mcpagent_cast"
"""Names used in the code that `rewriting.py` inserts; their definitions are below."""

_HELPERS = f"""
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
def _mcpagent_made(call, json, repr, len, isinstance, str, iter, list, type):
    waiting, shown_images = {{}}, []
    def value_of(text):
        if text[:1] == "j" or text[1:2] in ("{{", "["):
            try:
                return json.loads(text[1:])
            except ValueError:
                pass
        return text[1:]
    def tracked(name):
        def decorated(function):
            def made(*arguments, **named):
                number = waiting.get("", 0) + 1
                waiting[""], waiting[number] = number, name
                return begun(number, function(*arguments, **named))
            return made
        return decorated
    async def begun(number, coroutine):
        waiting.pop(number, None)
        return await coroutine
    def never():
        names = [waiting[number] for number in waiting if number != ""]
        waiting.clear()
        return names
    def function(name):
        async def called(**arguments):
            return value_of(await call(name, json.dumps(arguments)))
        return tracked(name)(called)
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
        if type(value).__name__ == "coroutine":
            return ""
        if is_image(value):
            shown_images.append(value)
            return ""
        return cut(value if isinstance(value, str) else repr(value), most)
    def is_image(value):
        return isinstance(value, dict) and isinstance(value.get("image"), str) and isinstance(value.get("data"), str)
    def show(*values):
        for value in values:
            for one in value if isinstance(value, list) else [value]:
                if not is_image(one):
                    raise TypeError("show() takes images, as a tool returns them; print shows text")
                shown_images.append(one)
    def images(most, size):
        found = []
        for one in shown_images[:most]:
            size = size - len(one["data"])
            if size >= 0:
                found.append([one["image"], one["data"]])
        count = len(shown_images)
        shown_images.clear()
        return [count, found]
    def bound(value, read, call):
        try:
            return read(value)
        except AttributeError:
            return call(value)
    def delete(values, key):
        values.pop(key)
    def cast(kind, value):
        return value
    return [function, tracked, never, brief, shown, show, images, bound, delete, iter, cast]
[{FUNCTION}, {TRACKED}, {NEVER}, {BRIEF}, {SHOWN}, show, *_mcpagent_more] = _mcpagent_made(
    _mcpagent_call, _mcpagent_json, repr, len, isinstance, str, iter, list, type
)
[{IMAGES}, {BOUND}, {DELETE}, {ITERATOR}, {CAST}] = _mcpagent_more
{LAST} = None
"""


@cache
def prelude() -> str:
    """Return the code that runs before the first program of a conversation."""
    own = own_builtins()
    replaced = [f"{name} = {own.variable}[{name!r}]" for name in own.members]
    errors = [f"{name} = {kind}" for name, kind in CALL_ERRORS.items()]
    return "\n".join([_HELPERS, own.code, *replaced, *errors, ""])
