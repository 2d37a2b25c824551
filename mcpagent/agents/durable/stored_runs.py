"""`StoredRuns`: the runs in a database, to list, cancel and delete them without an agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcpagent.agents.durable.database import EngineConnection, EngineDatabase
from mcpagent.agents.durable.queues import WORKFLOW_NAME, State, order_of, run_state
from mcpagent.errors import InputError, McpAgentError
from mcpagent.journal.sessions.run_ended import RunEnded
from mcpagent.journal.sessions.store import Sessions
from mcpagent.utilities.text.safe_text import safe_line

if TYPE_CHECKING:
    from dbos import DBOSClient, WorkflowStatus

UNFINISHED = ("waiting", "running")
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A stored run. `asked` and `changed` are in seconds since 1970; `ended` is the end that its session stored, or
    None.
    """

    id: str
    session: str
    state: State
    asked: float
    changed: float
    ended: RunEnded | None = None

    @property
    def is_unfinished(self) -> bool:
        """True if a worker still has to work on the run."""
        return self.state in UNFINISHED


class StoredRuns:
    """The runs in the engine's database; `store` has their sessions, with the outcomes.

    Raises `ConfigError` for an invalid database, and `SessionStoreError` for an unusable one.
    """

    def __init__(self, database: str | Path | None, store: Sessions) -> None:
        self._database, self._store = EngineDatabase.of(database), store

    @property
    def where(self) -> str:
        """The file, or the address of the database without its password."""
        return self._database.where

    def listed(
        self, limit: int | None = None, session: str | None = None
    ) -> list[StoredRun]:
        """Return the runs, newest first; only those of `session` if it is not None."""
        with self._client() as client:
            if client is None:
                return []
            found = client.list_workflows(
                name=WORKFLOW_NAME,
                user=session,
                limit=limit,
                sort_desc=True,
                load_input=False,
                load_output=False,
            )
            return [
                self._run(status)
                for status in sorted(found, key=order_of, reverse=True)
            ]

    def find(self, run: str) -> StoredRun:
        """Return the run of this ID. Raises `InputError` for an unknown ID."""
        with self._client() as client:
            return self._found(client, run)

    def prompt(self, run: str) -> str:
        """Return the prompt of a run; "" if answers to calls started the run."""
        with self._client() as client:
            found = []
            if client is not None:
                found = client.list_workflows(workflow_ids=[run], load_output=False)
        if not found or found[0].input is None:
            return ""
        return str(json.loads(found[0].input["args"][0]).get("prompt", ""))

    def cancel(self, run: str) -> StoredRun:
        """End a run before its next step, and return its previous state. Raises `InputError` for a run that has
        ended.
        """
        with self._client() as client:
            found = self._found(client, run)
            if not found.is_unfinished:
                raise InputError(
                    f'run "{safe_line(run, 60)}" is {found.state}; there is nothing to cancel'
                )
            assert client is not None
            self._store.cancel_run(found.session, run).result()
            client.cancel_workflow(run)
            return found

    def delete(self, run: str) -> None:
        """Delete a run; its messages stay in the session. Raises `InputError` for a run that has not ended."""
        with self._client() as client:
            found = self._found(client, run)
            if found.is_unfinished:
                raise InputError(
                    f'run "{safe_line(run, 60)}" is {found.state}; cancel it first: mcpagent runs cancel'
                )
            self._delete(client, [found])

    def prune(self, before: float) -> list[StoredRun]:
        """Delete the runs that ended before this time (seconds since 1970), and return them."""
        old = [
            run
            for run in self.listed()
            if run.changed < before and not run.is_unfinished
        ]
        with self._client() as client:
            self._delete(client, old)
        return old

    def _delete(self, client: DBOSClient | None, runs: list[StoredRun]) -> None:
        for run in runs:
            self._store.forget_run(run.session, run.id).result()
        ids = [run.id for run in runs]
        while ids and client is not None:
            client.delete_workflows(ids[:_AT_ONCE])
            del ids[:_AT_ONCE]

    def _found(self, client: DBOSClient | None, run: str) -> StoredRun:
        found = []
        if client:
            found = client.list_workflows(
                workflow_ids=[run], name=WORKFLOW_NAME, load_input=False
            )
        if not found:
            raise InputError(
                f'{self.where}: there is no run "{safe_line(run, 60)}"; see mcpagent runs list'
            )
        return self._run(found[0])

    def _run(self, status: WorkflowStatus) -> StoredRun:
        run, session = status.workflow_id, str(status.authenticated_user)
        record = self._store.run_record(session, run).result()
        asked, changed = status.created_at or 0, status.updated_at or 0
        state = run_state(status, record)
        return StoredRun(
            run, session, state, asked / 1_000, changed / 1_000, record.ended
        )

    @contextmanager
    def _client(self) -> Iterator[DBOSClient | None]:
        """Open the engine's client; None if the database does not exist, because the client would create it."""
        from dbos import DBOSClient
        from sqlalchemy import create_engine

        if self._database.file is not None and not self._database.file.exists():
            yield None
            return
        self._database.make_ready()
        made: dict[str, Any] = {"system_database_url": self._database.address}
        engine = None
        if self._database.file is not None:
            engine = create_engine(
                self._database.address, connect_args={"factory": EngineConnection}
            )
            made = {"system_database_engine": engine}
        try:
            client = DBOSClient(**made, retry_connection_errors=False)
            try:
                yield client
            finally:
                client.destroy()
        except McpAgentError:
            raise
        except Exception as error:  # noqa: BLE001 - any error of the engine's database
            raise self._database.problem(error) from None
        finally:
            if engine is not None:
                engine.dispose()
