"""A program that parses one untrusted file: `python -m mcpagent.documents.document_reading.document_worker KIND`.

It reads the bytes of the file from stdin and writes JSON: a `DocumentText`, or an `error` with the reason and the
problem.
"""

from __future__ import annotations

import json
import sys
import zipfile
from typing import Any, cast

from mcpagent.documents.document_reading.parsers import parsed_document
from mcpagent.documents.document_reading.text_parts import Kind
from mcpagent.errors import DocumentReadError
from mcpagent.history.intake.file_worker import limit_process

_DEEPEST = 3_000
_PIP = "pip install 'mcpagent[documents]'"


def answer_to(data: bytes, kind: str) -> dict[str, Any]:
    """Return the worker's output for a file, as JSON: the text, or an error with the reason and the problem."""
    try:
        found = parsed_document(data, cast("Kind", kind), "")
    except DocumentReadError as error:
        return {"error": [error.reason, str(error).removeprefix(": ")]}
    except RecursionError:
        return {"error": ["too-deep", "is nested too deep; save it in another program"]}
    except MemoryError:
        return {"error": ["too-much-memory", "needs too much memory; split it"]}
    except ImportError as error:
        return {"error": ["not-installed", f"needs {error.name or 'a parser'}; {_PIP}"]}
    except Exception as error:  # noqa: BLE001 - any file may come
        return {"error": ["damaged", f"cannot be read ({_named(error)}); repair it"]}
    return found.to_json()


def _named(error: Exception) -> str:
    if isinstance(error, zipfile.BadZipFile):
        return "no valid ZIP file"
    return f"{type(error).__name__}: {error}"[:200]


def main(kind: str) -> int:
    """Parse stdin. Returns the exit status."""
    limit_process()
    sys.setrecursionlimit(_DEEPEST)
    answer = answer_to(sys.stdin.buffer.read(), kind)
    sys.stdout.buffer.write(json.dumps(answer).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
