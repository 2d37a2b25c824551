"""The engine's queues for the runs of a model: limits, workers, and a second queue of runs that wait for their
session.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar

from mcpagent.journal.sessions.run_ended import RunRecord
from mcpagent.journal.sessions.store import Sessions, written
from mcpagent.utilities.text.safe_text import safe_line

if TYPE_CHECKING:
    from dbos import WorkflowStatus

VERSION = "mcpagent-2"
"""Version of the protocol between workers: a worker processes only runs of its own version."""

WORKFLOW_NAME = "mcpagent.run"

State: TypeAlias = Literal["waiting", "running", "done", "failed", "cancelled"]
_STATES: dict[str, State] = {
    "ENQUEUED": "waiting",
    "DELAYED": "waiting",
    "PENDING": "running",
    "SUCCESS": "done",
    "CANCELLED": "cancelled",
}

_P = ParamSpec("_P")
_T = TypeVar("_T")

_SEAT = re.compile(r"mcpagent worker ([0-9a-f]{32}) ([\w.-]{1,40}) (.{1,120})")
"""The name of an empty queue that a process registers to announce itself as a worker: its token, the version, and the
model.
"""

POLL_SECONDS = 0.2
WAITING_POLL_SECONDS = 2.0
"""Interval of polls for waiting runs: a poll takes milliseconds of CPU, and these runs are not urgent."""

MAX_COMPARED = 100
"""Maximum number of unfinished runs, oldest first, among which the first run of a session is determined."""


async def outside(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call a function of the engine outside of every workflow: inside, the call would become a step of the workflow."""
    asked = partial(Context().run, work, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(None, asked)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits for the runs of a model: concurrent runs, concurrent runs of a single user, and starts per minute."""

    at_once: int | None = None
    per_user: int | None = None
    per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class RunTurn:
    """The turn of a run: whether it is the first unfinished run of its session, and whether it is in the waiting
    queue.
    """

    is_first: bool = False
    waits: bool = False


@dataclass(frozen=True, slots=True)
class RunQueue:
    """The queue of the runs that one model answers.

    A run whose session is busy moves to the queue `waiting`, where it blocks no other run.
    """

    model: str

    @classmethod
    def of(cls, model: str) -> RunQueue:
        """Return the queue of the model with this name."""
        return cls(safe_line(model, 100))

    @property
    def name(self) -> str:
        """The name of this queue in the engine."""
        return f"mcpagent {self.model}"

    @property
    def waiting(self) -> str:
        """The name of the queue, without limits, for runs that wait for their session."""
        return f"{self.name} (waiting)"

    async def register(self, limits: Bounds, *, works: bool) -> None:
        """Register the queue. If `works` is False, limits that a worker has set stay in force."""
        from dbos import DBOS

        how: Any = "always_update" if works else "never_update"
        await DBOS.register_queue_async(
            self.name,
            global_concurrency=limits.at_once,
            partition_concurrency=limits.per_user,
            limiter={"limit": limits.per_minute, "period": 60.0}
            if limits.per_minute is not None
            else None,
            polling_interval_sec=POLL_SECONDS,
            on_conflict=how,
        )
        await DBOS.register_queue_async(
            self.waiting, polling_interval_sec=WAITING_POLL_SECONDS, on_conflict=how
        )

    def options(self, session: str, user: str, run: str) -> dict[str, Any]:
        """Return the data that the engine stores for a run besides its input."""
        return {
            "workflow_name": WORKFLOW_NAME,
            "queue_name": self.name,
            "app_version": VERSION,
            "workflow_id": run,
            "queue_partition_key": owner_of(session, user),
            "authenticated_user": session,  # queryable on both databases; attributes on PostgreSQL only
            "attributes": {
                "asked": time.time_ns()
            },  # the engine's own timestamps have only seconds
        }

    async def turn(self, session: str, run: str) -> RunTurn | None:
        """Return the turn of the run among the unfinished runs of its session; None if the run is not unfinished."""
        from dbos import DBOS

        unfinished = await outside(
            DBOS.list_workflows,
            name=WORKFLOW_NAME,
            status=["ENQUEUED", "DELAYED", "PENDING"],
            app_version=VERSION,
            queue_name=[self.name, self.waiting],
            user=session,
            limit=MAX_COMPARED,
            load_input=False,
            load_output=False,
        )
        first = min(unfinished, key=order_of, default=None)
        own = next((status for status in unfinished if status.workflow_id == run), None)
        if own is None or first is None:
            if len(unfinished) == MAX_COMPARED:
                return RunTurn()
            return None
        return RunTurn(first is own, own.queue_name == self.waiting)

    # -- Workers -------------------------------------------------------------------------------------------------------

    def _seat(self, token: str) -> str:
        return f"mcpagent worker {token} {VERSION} {self.model}"

    async def sit_down(self, token: str) -> None:
        """Register the process with this token as a worker of the queue."""
        from dbos import DBOS

        await DBOS.register_queue_async(self._seat(token), on_conflict="always_update")

    async def stand_up(self, token: str) -> None:
        """Remove the process from the workers of the queue."""
        from dbos import DBOS

        await DBOS.delete_queue_async(self._seat(token))


def run_state(status: WorkflowStatus, record: RunRecord) -> State:
    """Return the state of a run: the session's if it has stored the run, otherwise the engine's."""
    if record.ended is not None:
        return record.ended.state
    state = state_of(status)
    if record.is_under_way and state != "failed":
        return "running"
    return state


def state_of(status: WorkflowStatus) -> State:
    """Return the engine's state of a run, for a run that its session has not stored."""
    if str(status.status) == "PENDING" and str(status.queue_name).endswith("(waiting)"):
        return "waiting"
    return _STATES.get(str(status.status), "failed")


def owner_of(session: str, user: str) -> str:
    """Return a hash that identifies the owner of a run: the user if set, otherwise the session.

    The name is hashed because it may contain any characters.
    """
    if user:
        owner = f"user {user}"
    else:
        owner = f"session {session}"
    return hashlib.sha256(owner.encode(errors="surrogatepass")).hexdigest()[:32]


def order_of(status: WorkflowStatus) -> tuple[int, int, str]:
    """Return the sort key of a run by the time of its request."""
    return (
        status.created_at or 0,
        int((status.attributes or {}).get("asked") or 0),
        status.workflow_id,
    )


async def models_served(store: Sessions, version: str = VERSION) -> set[str]:
    """Return the models that a live process serves in this version; remove the entries of dead processes."""
    from dbos import DBOS

    served: set[str] = set()
    for name in [queue.name for queue in await DBOS.list_queues_async()]:
        if (seat := _SEAT.fullmatch(name)) is None:
            continue
        if not await written(store.is_alive(seat[1])):
            await DBOS.delete_queue_async(name)
        elif seat[2] == version:
            served.add(seat[3])
    return served


async def unserved_words(store: Sessions, queue_name: str, version: str) -> str:
    """Return why no worker serves that queue, and the fix; "" if a worker serves it."""
    model = queue_name.removeprefix("mcpagent ").removesuffix(" (waiting)")
    served = await models_served(store, version)
    if model in served:
        return ""
    if version != VERSION:
        return (
            f"it was begun by another version of mcpagent ({safe_line(version, 40)}), and no worker of that one is "
            "running; start one, or cancel it and ask again"
        )
    others = ", ".join(f'"{safe_line(other, 80)}"' for other in sorted(served)[:5])
    so = "no worker is running"
    if others:
        so = f"the workers that are running do those of {others}"
    return f'no worker does the runs of the model "{model}": {so}; start one: mcpagent worker -m {model}'
