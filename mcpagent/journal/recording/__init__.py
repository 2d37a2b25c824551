"""Record runs in a file, and replay them without a network, a key or a server.

`Recorder` writes JSON lines while an agent works: requests, answers and results of calls. `Replay` replaces the model
and all tools by the file. Both are wrappers: functions from an agent's definition to another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagent.utilities.python import late_names

if TYPE_CHECKING:
    from mcpagent.journal.recording.recorder import Recorder
    from mcpagent.journal.recording.replay import RecordingError, Replay

__all__ = ["Recorder", "RecordingError", "Replay"]

__getattr__, __dir__ = late_names(
    __name__, {"recorder": ("Recorder",), "replay": ("RecordingError", "Replay")}
)
