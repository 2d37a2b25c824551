"""The example of documents: questions about the project's own pages without a key, and about a folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from examples.documents.ask import PAGES, ask

from mcpagent import InputError, ModelRequest, ScriptedModel, ToolCall

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_question_about_the_projects_pages_needs_no_key(tmp_path: Path) -> None:
    script = ROOT / "examples" / "documents" / "ask.py"
    command = [sys.executable, str(script), "How do I limit the dollars of a run?"]
    first = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert "Found 3 results:" in first.stdout
    assert (PAGES / "limits.md").as_uri() in first.stdout
    assert int(first.stderr.split()[0]) >= 50
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert (again.stdout, again.stderr) == (first.stdout, "0 documents read\n")


@pytest.mark.anyio
async def test_a_folder_that_you_name_is_the_only_one_that_is_searched(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sales.md").write_text(f"# Sales\n\nSales of {name} grew.\n", encoding="utf-8")
    store = tmp_path / "documents.db"
    await ask("offline", "sales", tmp_path / "one", store)
    seen: list[str] = []

    def reply(request: ModelRequest) -> str:
        seen.append(request.messages[-1].tool_results[0].text)
        return "Two grew [1]."

    model = ScriptedModel([ToolCall("", "search", {"query": "sales grew"}), reply])
    answer, sources = await ask(model, 'What "grew"?', tmp_path / "two", store)
    assert answer == "Two grew [1]."
    assert sources == [f"[1] {(tmp_path / 'two' / 'sales.md').as_uri()}"]
    assert "Sales of one" not in seen[0]
    with pytest.raises(InputError, match="not found"):
        await ask("offline", "?", tmp_path / "three", store)
