"""`create_analysis_toolset`: a tool that answers tasks about documents; a model writes programs that read them."""

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
