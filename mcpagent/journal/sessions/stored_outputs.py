"""Store a session's offloaded outputs in rows separate from its messages."""

from __future__ import annotations

import json

from mcpagent.errors import SessionBusyError, SessionStoreError
from mcpagent.journal.sessions.store import Sessions, written
from mcpagent.run.large_results.large_output import LargeOutput
from mcpagent.run.large_results.output_stores import MemoryOutputStore
from mcpagent.utilities.text.secrets import without_secrets
from mcpagent.values.messages import BinaryBlock, Image


class StoredOutputs(MemoryOutputStore):
    """The outputs of one session in a store. Outputs that the store does not accept stay in memory."""

    def __init__(self, store: Sessions, session: str) -> None:
        super().__init__()
        self._store, self._session = store, session
        self.is_written = True
        """False after the session was released: then new outputs are not written to the store."""

    def clean(self, text: str) -> str:
        """Return the text with secrets redacted as in messages, and without characters that no database accepts."""
        text = (
            text.replace("\0", "\N{REPLACEMENT CHARACTER}")
            .encode("utf-8", "replace")
            .decode("utf-8")
        )
        return without_secrets(text)

    async def put(self, output: LargeOutput, tool: str) -> None:
        """Store the output before its preview is used; if the store fails, its next write reports the error."""
        binaries = [[image.media_type, image.data] for image in output.images]
        binaries += [
            [block.media_type, block.data, block.address] for block in output.blocks
        ]
        images = json.dumps(binaries)
        try:
            if self.is_written:
                data = {"tool": tool, "output": output.text, "images": images}
                await written(
                    self._store.put_output(self._session, output.handle, data)
                )
                return
        except (SessionStoreError, SessionBusyError):
            pass
        await super().put(output, tool)

    async def get(self, handle: str) -> LargeOutput | None:
        """Return the stored output; None if it is missing. Raises `SessionStoreError` if the store cannot be read."""
        if (found := await super().get(handle)) is not None:
            return found
        row = await written(self._store.output(self._session, handle))
        if row is None:
            return None
        kept = [
            [str(value) for value in binary] for binary in json.loads(row["images"])
        ]
        images = tuple(
            Image(binary[0], binary[1]) for binary in kept if len(binary) == 2
        )
        return LargeOutput(
            row["output"],
            images,
            tuple(BinaryBlock(*binary) for binary in kept if len(binary) == 3),
        )
