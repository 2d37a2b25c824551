"""`create_analysis_toolset`: tasks over documents that a model solves with programs, in code mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagent.utilities.python import late_names

if TYPE_CHECKING:
    from mcpagent.agents.analysis.analysis_toolset import (
        AnalysisResult,
        create_analysis_toolset,
    )
    from mcpagent.agents.analysis.documents import Documents, Passage

__all__ = ["AnalysisResult", "Documents", "Passage", "create_analysis_toolset"]

__getattr__, __dir__ = late_names(
    __name__,
    {
        "analysis_toolset": ("AnalysisResult", "create_analysis_toolset"),
        "documents": ("Documents", "Passage"),
    },
)
