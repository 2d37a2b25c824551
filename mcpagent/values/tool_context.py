"""State that toolsets share: pydantic models under namespaces, which are saved, sent to a client and restored together.

A change of several fields applies completely or not at all: all values are validated before the first one is set.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

from mcpagent.errors import ConfigError, InputError
from mcpagent.utilities.python.argument_checks import (
    checked,
    expect,
    expect_arguments,
    expect_options,
)
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.values.events import StateDelta, StateSnapshot

if TYPE_CHECKING:
    from pydantic import BaseModel

State = TypeVar("State", bound="BaseModel")


@dataclass(frozen=True, slots=True)
class _Namespace:
    state: BaseModel
    expose: bool = True
    client_writable: frozenset[str] = frozenset()

    def fields(self) -> dict[str, str]:
        """Return the names under which a client gets the fields, by field name. Fields excluded from dumps are not
        among them.
        """
        if not self.expose:
            return {}
        return {
            name: info.serialization_alias or info.alias or name
            for name, info in type(self.state).model_fields.items()
            if info.exclude is not True
        }


class ToolContext:
    """Typed state that the toolsets of one session share: a pydantic model under each namespace.

    All toolsets with the same context read and write the same values. It is not the context of a run or call: tool
    functions get that as `RunContext`, whose `tool_context` is this object. `state_key` is the key under which a client
    gets the state; None: at the top level.
    """

    @checked()
    def __init__(self, state_key: str | None = None) -> None:
        self.state_key = state_key
        self._namespaces: dict[str, _Namespace] = {}
        self._waiting: dict[str, dict[str, Any]] = {}

    # -- Namespaces ----------------------------------------------------------------------------------------------------

    def register(
        self,
        namespace: str,
        state: BaseModel,
        *,
        expose: bool = True,
        client_writable: Collection[str] = (),
    ) -> None:
        """Register a model under a namespace; it replaces an earlier one.

        With `expose=False`, clients never receive it; dumps still contain it. An untrusted restore may set only
        `client_writable` fields. Raises `ConfigError` if another namespace exposes a field of the same name.
        """
        from pydantic import BaseModel

        if not isinstance(state, BaseModel):
            raise ConfigError(
                f'namespace "{namespace}": expected a pydantic model, got {type(state).__name__}'
            )
        expect_arguments("ToolContext.register", ToolContext.register, locals())
        new = _Namespace(state, expose, frozenset(client_writable))
        unknown = sorted(new.client_writable - set(type(state).model_fields))
        if unknown:
            known = ", ".join(type(state).model_fields)
            raise ConfigError(
                f'namespace "{namespace}": client_writable names {", ".join(unknown)}; fields: {known}'
            )
        for other, held in self._namespaces.items():
            shared = sorted(set(new.fields().values()) & set(held.fields().values()))
            if other != namespace and shared:
                raise ConfigError(
                    f'namespaces "{other}" and "{namespace}" both expose "{shared[0]}"; rename the field, '
                    "or register one of them with expose=False"
                )
        self._namespaces[namespace] = new
        self._waiting.pop(namespace, None)

    @overload
    def get(self, namespace: str) -> BaseModel | None: ...
    @overload
    def get(self, namespace: str, state_type: type[State]) -> State | None: ...

    def get(
        self, namespace: str, state_type: type[BaseModel] | None = None
    ) -> BaseModel | None:
        """Return the model of this namespace; None if it is missing or not a `state_type`."""
        held = self._namespaces.get(namespace)
        if held is None or (
            state_type is not None and not isinstance(held.state, state_type)
        ):
            return None
        return held.state

    @checked()
    def get_or_create(
        self, namespace: str, state_type: type[State], **options: Any
    ) -> State:
        """Return the model of this namespace, or register a new one; `options` are those of `register`.

        Raises `ConfigError` if the namespace has a model of another type.
        """
        expect_options("get_or_create", ToolContext.register, options)
        held = self._namespaces.get(namespace)
        if held is None:
            state = self._restored(namespace, state_type())
            self.register(namespace, state, **options)
            return state
        if not isinstance(held.state, state_type):
            raise ConfigError(
                f'namespace "{namespace}" holds {type(held.state).__name__}, not {state_type.__name__}; '
                "use another namespace"
            )
        return held.state

    @property
    def namespaces(self) -> list[str]:
        """The names of the registered namespaces, in the order of their registration."""
        return list(self._namespaces)

    def clear_namespace(self, namespace: str) -> None:
        """Remove the namespace with its fields, if it exists."""
        self._namespaces.pop(namespace, None)
        self._waiting.pop(namespace, None)

    def clear_all(self) -> None:
        """Remove all namespaces."""
        self._namespaces.clear()
        self._waiting.clear()

    # -- Saving and restoring ------------------------------------------------------------------------------------------

    def dump_namespaces(self) -> dict[str, dict[str, Any]]:
        """Return all namespaces as plain JSON data, including unexposed ones and restored data that is not registered
        yet.
        """
        return {
            **self._waiting,
            **{
                name: _dumped(name, held.state)
                for name, held in self._namespaces.items()
            },
        }

    def restore_namespaces(self, data: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Restore the result of `dump_namespaces`, also of another process, into the registered models.

        Data of other namespaces waits until they are registered. Returns a line for each namespace whose data does not
        fit its model; that model stays unchanged.
        """
        problems: list[str] = []
        for name, fields in data.items():
            held = self._namespaces.get(name)
            if held is None:
                self._waiting[name] = dict(fields)
                continue
            try:
                fresh = _checked(
                    f'namespace "{safe_line(name, 60)}"', type(held.state), dict(fields)
                )
            except InputError as error:
                problems.append(str(error))
                continue
            for key in type(held.state).model_fields:
                held.state.__dict__[key] = getattr(fresh, key)
        return problems

    def _restored(self, namespace: str, fresh: State) -> State:
        """Return the namespace's restored model if data waits for it and fits; else `fresh`."""
        waiting = self._waiting.pop(namespace, None)
        if waiting is None:
            return fresh
        try:
            return _checked(namespace, type(fresh), waiting)
        except InputError:
            return fresh

    @checked(InputError)
    def load_namespace(
        self,
        namespace: str,
        state_type: type[State],
        data: Mapping[str, Any],
        **options: Any,
    ) -> State:
        """Register a namespace with its part of a `dump_namespaces` result. Raises `InputError` if the data does not
        fit.

        `options` are those of `register`; by default, those of an earlier registration stay.
        """
        expect_options("load_namespace", ToolContext.register, options)
        if not hasattr(state_type, "model_validate"):
            raise InputError(
                f"load_namespace: state_type: expected a pydantic model, got the class {state_type.__name__}"
            )
        state = _checked(namespace, state_type, dict(data))
        held = self._namespaces.get(namespace)
        if held is not None and not options:
            options = {"expose": held.expose, "client_writable": held.client_writable}
        self.register(namespace, state, **options)
        return state

    # -- The state that a client sees ----------------------------------------------------------------------------------

    def build_state_snapshot(self) -> dict[str, Any]:
        """Return all exposed fields in one flat object, as plain JSON data."""
        snapshot: dict[str, Any] = {}
        for name, held in self._namespaces.items():
            dumped = _dumped(name, held.state, by_alias=True)
            snapshot |= {
                wire: dumped[wire] for wire in held.fields().values() if wire in dumped
            }
        return snapshot

    def restore_state_snapshot(
        self, data: Mapping[str, Any], *, untrusted: bool = False
    ) -> list[str]:
        """Set the fields in the data on the registered models; return the names of the set fields.

        Fields that the data lacks stay unchanged; unknown fields are ignored. `untrusted`: only `client_writable`
        fields are set. Raises `InputError` with the field's path if a value does not fit; then nothing was changed.
        """
        if not isinstance(data, Mapping):
            raise InputError(f"state: expected an object, got {type(data).__name__}")
        expect("untrusted", untrusted, bool, "True or False", error=InputError)
        wanted: dict[str, dict[str, Any]] = {}
        for name, held in self._namespaces.items():
            may = None
            if untrusted:
                may = held.client_writable
            fields = {
                field_name: data[wire]
                for field_name, wire in held.fields().items()
                if wire in data and (may is None or field_name in may)
            }
            if fields:
                wanted[name] = fields
        return self._set(wanted, label="state")

    @checked(InputError)
    def update(self, changes: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Set fields by namespace and field name, all or nothing; return the names of the set fields.

        Raises `InputError` for an unknown namespace or field, or a value that does not fit.
        """
        for name, fields in changes.items():
            held = self._namespaces.get(name)
            if held is None:
                known = ", ".join(self._namespaces) or "none"
                raise InputError(
                    f'state: no namespace "{safe_line(name, 60)}"; there are: {known}'
                )
            unknown = sorted(set(fields) - set(type(held.state).model_fields))
            if unknown:
                raise InputError(
                    f'state: namespace "{name}" has no field "{safe_line(unknown[0], 60)}"'
                )
        return self._set(changes, label="state")

    def _set(self, changes: Mapping[str, Mapping[str, Any]], label: str) -> list[str]:
        checked: list[tuple[BaseModel, str, Any]] = []
        for name, fields in changes.items():
            state = self._namespaces[name].state
            # Validate the whole model, because a validator may look at several fields.
            current = {key: getattr(state, key) for key in type(state).model_fields}
            fresh = _checked(label, type(state), {**current, **fields})
            checked += [(state, key, getattr(fresh, key)) for key in fields]
        for state, key, value in checked:
            # Bypass the model's own `validate_assignment`: it would check one field at a time, and could fail midway.
            state.__dict__[key] = value
            state.__pydantic_fields_set__.add(key)
        return [key for _, key, _ in checked]

    # -- The state as one value, as in AG-UI ---------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Any]:
        """The snapshot of the exposed fields, under `state_key` if that is set."""
        snapshot = self.build_state_snapshot()
        if self.state_key is not None:
            return {self.state_key: snapshot}
        return snapshot

    def receive(self, state: Any) -> list[str]:
        """Set the `client_writable` fields from a client's state, all or nothing; the state may be flat or under
        `state_key`.

        Returns the names of the set fields.
        """
        if state is None:
            return []
        if (
            isinstance(state, Mapping)
            and self.state_key is not None
            and self.state_key in state
        ):
            state = state[self.state_key]
        return self.restore_state_snapshot(
            state if state is not None else {}, untrusted=True
        )


def _dumped(
    namespace: str, state: BaseModel, *, by_alias: bool = False
) -> dict[str, Any]:
    dumped = state.model_dump(mode="json", by_alias=by_alias)
    try:
        json.dumps(dumped, allow_nan=False)
    except ValueError:
        raise InputError(
            f'namespace "{namespace}": NaN and infinity are not JSON; use None'
        ) from None
    return dumped


def _checked(label: str, state_type: type[State], data: dict[str, Any]) -> State:
    from pydantic import ValidationError

    try:
        return state_type.model_validate(data, by_name=True, by_alias=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join((label, *(str(step) for step in first["loc"])))
        raise InputError(f"{path}: {first['msg']}; nothing was changed") from None


class StateChannel:
    """The connection of a context to one client: it stores the state that the client last received, to send only
    changes.
    """

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._sent: dict[str, Any] | None = None

    def snapshot(self) -> StateSnapshot:
        """Return the whole state, as the first state event of every run."""
        self._sent = self._context.state
        return StateSnapshot(self._sent)

    def changes(self) -> StateSnapshot | StateDelta | None:
        """Return the changes since the last snapshot or delta, as an RFC 6902 patch; None if nothing changed.

        Returns a snapshot if none was sent yet, because a patch needs one to apply to.
        """
        state = self._context.state
        if self._sent is None:
            if self._context.build_state_snapshot():
                return self.snapshot()
            return None
        if _same(state, self._sent):
            return None
        import jsonpatch

        patch = jsonpatch.make_patch(self._sent, state).patch
        self._sent = state
        if patch:
            return StateDelta(tuple(patch))
        return None


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    # Compare as JSON text: in Python, 1 == True == 1.0.
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


# -- Features of an application ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FeatureNamespace:
    """A namespace that a feature needs. `make` creates its first state; for the other fields, see
    `ToolContext.register`.
    """

    namespace: str
    make: Callable[[], BaseModel]
    expose: bool = True
    client_writable: frozenset[str] = frozenset()


class FeatureRegistry:
    """A registry of the state namespaces that each feature of an application needs."""

    def __init__(self) -> None:
        self._features: dict[str, tuple[FeatureNamespace, ...]] = {}

    def add(self, feature: str, *needs: FeatureNamespace) -> None:
        """Declare the namespaces that a feature needs, replacing an earlier declaration."""
        self._features[feature] = needs

    def needs(self, feature: str) -> tuple[FeatureNamespace, ...]:
        """Return the namespaces of a feature. Raises `ValueError` for an unknown feature; the message lists the known
        ones.
        """
        if feature not in self._features:
            known = ", ".join(sorted(self._features)) or "none"
            raise ValueError(
                f'unknown feature "{safe_line(feature, 60)}"; known: {known}'
            )
        return self._features[feature]


features = FeatureRegistry()
"""The registry of this process, in which toolsets declare the state that they need."""


def prepare_context(
    context: ToolContext,
    features: Sequence[str] = (),
    state_key: str | None = None,
    *,
    registry: FeatureRegistry = features,
) -> ToolContext:
    """Register the namespaces of the features that `context` lacks; set its `state_key` if passed. Return the context.

    Idempotent. Raises `ValueError` for an unknown feature, before anything is registered.
    """
    if isinstance(features, str):
        raise ValueError(
            f'features: expected a list of names, got a string; write ["{safe_line(features, 60)}"]'
        )
    expect_arguments("prepare_context", prepare_context, locals())
    needed = {
        item.namespace: item for feature in features for item in registry.needs(feature)
    }
    for item in needed.values():
        if context.get(item.namespace) is None:
            state = context._restored(item.namespace, item.make())
            context.register(
                item.namespace,
                state,
                expose=item.expose,
                client_writable=item.client_writable,
            )
    if state_key is not None:
        context.state_key = state_key
    return context


# -- Contexts of many conversations ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Cached:
    context: ToolContext
    used_at: float
    users: int = 0


class ToolContextCache:
    """A cache in memory with one `ToolContext` for each conversation thread.

    A context unused for `ttl_seconds` is dropped, and the longest unused one if there are more than `max_size`; a
    context in use is never dropped. `clock` must not go backwards; `time.monotonic` by default.
    """

    @checked()
    def __init__(
        self,
        ttl_seconds: float = 3600.0,
        max_size: int = 1000,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if ttl_seconds <= 0 or max_size < 1:
            raise ConfigError(
                "ToolContextCache: ttl_seconds must be above 0 and max_size 1 or more"
            )
        self._ttl_seconds = ttl_seconds
        self._max_size = max_size
        self._clock = clock
        self._cached: dict[str, _Cached] = {}

    def __len__(self) -> int:
        return len(self._cached)

    @checked(InputError)
    def get_or_create(self, thread_id: str) -> tuple[ToolContext, bool]:
        """Return the thread's context, and whether it is new."""
        entry, is_new = self._entry(thread_id)
        return entry.context, is_new

    @checked(InputError)
    @contextmanager
    def using(self, thread_id: str) -> Iterator[tuple[ToolContext, bool]]:
        """Return `get_or_create` for the duration of a run: the context is not dropped before the block ends."""
        entry, is_new = self._entry(thread_id)
        entry.users += 1
        try:
            yield entry.context, is_new
        finally:
            entry.users -= 1
            entry.used_at = self._clock()

    def in_use(self, thread_id: str) -> bool:
        """Return whether a run uses the thread's context; a second run would mix its changes into the same state."""
        entry = self._cached.get(thread_id)
        return entry is not None and entry.users > 0

    def remove(self, thread_id: str) -> None:
        """Drop the thread's context, if it exists; a run that uses it continues with it."""
        self._cached.pop(thread_id, None)

    def clear(self) -> None:
        """Drop the contexts of all threads."""
        self._cached.clear()

    def _entry(self, thread_id: str) -> tuple[_Cached, bool]:
        now = self._clock()
        self._drop_expired(now)
        entry = self._cached.pop(thread_id, None)
        is_new = entry is None
        if entry is None:
            entry = _Cached(ToolContext(), now)
        entry.used_at = now
        self._cached[thread_id] = (
            entry  # as the last entry: the dict is in order of use
        )
        self._drop_surplus(thread_id)
        return entry, is_new

    def _drop_expired(self, now: float) -> None:
        for key in [key for key, entry in self._cached.items() if entry.users == 0]:
            if now - self._cached[key].used_at >= self._ttl_seconds:
                del self._cached[key]

    def _drop_surplus(self, kept: str) -> None:
        surplus = len(self._cached) - self._max_size
        idle = [
            key
            for key, entry in self._cached.items()
            if entry.users == 0 and key != kept
        ]
        for key in idle[: max(surplus, 0)]:
            del self._cached[key]
