"""The offline model: a rule-based stand-in that really searches, adds and calls tools."""

from mcpagent.models.offline.model import OfflineModel

__all__ = ["OfflineModel"]
