"""The base of adapters that use a provider's SDK: a streamed request, processed as it arrives.

An adapter defines how a request is written and how an answer is read, both as pure functions over JSON data. The SDK
provides authentication, connections and the event stream; it is imported at the first request. `exchange.py` handles
the request in progress, and `failures_and_retries.py` decides on retries.
"""

from __future__ import annotations

import asyncio
import re
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from inspect import iscoroutinefunction
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    TypedDict,
    Unpack,
)

from mcpagent.errors import McpAgentError, ModelError
from mcpagent.models.answer_size import bound, of_bounded_size
from mcpagent.models.base import (
    ModelRequest,
    ModelResponse,
    ModelSettings,
    ToolLimits,
    is_small,
)
from mcpagent.models.capabilities import SAFE, Capabilities
from mcpagent.models.endpoints.endpoint import Endpoint, endpoint_of
from mcpagent.models.endpoints.learned import FactValue, Learned, LearnedStore
from mcpagent.models.endpoints.ledger import Ledger
from mcpagent.models.endpoints.model_identity import OWN_SERVERS
from mcpagent.models.exchange import ApiFormat, Exchange, RequestVariant
from mcpagent.models.failures_and_retries import (
    Failure,
    Target,
    read_failure,
    to_error,
)
from mcpagent.models.found_tools.discovery_notes import words_for_discovery
from mcpagent.models.found_tools.proxied_calls import unproxied
from mcpagent.models.local.local_servers import sizes_at
from mcpagent.models.local.loose_schemas import (
    beyond_llamacpp,
    refuses_schemas,
    with_loose_schemas,
)
from mcpagent.models.local.model_size import SMALL, is_of_small_size
from mcpagent.models.local.textual_calls import read_textual_calls, textual_way
from mcpagent.models.model_settings import merged
from mcpagent.models.output_modes.structured_output import (
    OutputWay,
    callable_in,
    demanded,
    is_submitted,
    native_fields,
    refuses_demand,
    refuses_output,
    refuses_schema,
    schema_text,
    submitted_way,
    told_in_words,
    usual_way,
    with_fields,
    with_submit_tool,
)
from mcpagent.models.prices import cached_share, known_search_cost
from mcpagent.models.profiles import speaks_for_itself
from mcpagent.models.provider_tools.mcp_tokens import names_tokens, read_tokens
from mcpagent.models.provider_tools.provider_tool_forms import (
    WrittenTools,
    beside_ours,
    refused_tools,
    written_tools,
)
from mcpagent.models.provider_tools.provider_tool_values import ProviderTool
from mcpagent.models.provider_tools.stored_files import DOWNLOAD_SECONDS, from_openai
from mcpagent.models.refusals import (
    OPTIONAL,
    longest_answer,
    refused_caching,
    refused_option,
    refused_setting,
    refuses_thoughts,
)
from mcpagent.models.sendable_history import address_of, thoughts_of, written_for
from mcpagent.models.transport.sdk_connection import (
    ProviderSdk,
    SdkConnection,
    caught_failures,
    marked_stream,
    request_options,
)
from mcpagent.models.wellformed.sent_files import SentFiles, refused_files
from mcpagent.models.wellformed.tool_lists import (
    refused_description,
    with_short_descriptions,
)
from mcpagent.models.written_settings import WrittenSettings, written_settings
from mcpagent.utilities.python.argument_checks import expect
from mcpagent.values.events import Emit, Notice
from mcpagent.values.messages import (
    Document,
    FileId,
    Message,
    Origin,
    ToolDefinition,
    WireProtocol,
)

if TYPE_CHECKING:
    import httpx2

ANTHROPIC_URL = "https://api.anthropic.com"
OPENAI_URL = "https://api.openai.com/v1"

_OPENAI = re.compile(r"https://([a-z]+\.)?api\.openai\.com/v1/?", re.IGNORECASE)

END_SECONDS = 1.0
"""Maximum wait for the end of a stream after its answer is complete."""


class Connection(TypedDict, total=False):
    """The connection options that every adapter accepts as keywords, in addition to its own.

    - `api_key`: None reads the variable `key_variable` at the first request; "" sends no real key, for servers without
      one.
    - `base_url`: None is the provider's own address.
    - `http_client` and `client` are used unchanged and not closed. `client` is a client of the API's SDK:
      `AsyncAnthropicBedrock`, `AsyncAnthropicVertex`, `AsyncAzureOpenAI` and the like.
    - `settings`: defaults, which a request's own settings override.
    - `capabilities`: overrides the known capabilities of the model.
    - `silent_seconds`: maximum wait for the next byte.
    - `sleep`, `now`: the wait between attempts, and the time in seconds since 1970, for tests.
    - `traits`: stores learned facts about a self-hosted server beyond the life of this object.
    """

    api_key: str | None
    base_url: str | None
    http_client: httpx2.AsyncClient | None
    client: Any
    max_retries: int
    settings: ModelSettings | None
    capabilities: Capabilities | None
    silent_seconds: float
    key_variable: str | None
    sleep: Callable[[float], Awaitable[None]]
    now: Callable[[], float]
    traits: LearnedStore | None


class HttpModel(ApiFormat):
    """A model behind a provider's HTTP API. The constructor needs no key and does no I/O."""

    path: ClassVar[str]
    protocol: ClassVar[WireProtocol]
    usual_url: ClassVar[str]

    def __init__(
        self,
        provider: str,
        model_name: str,
        usual_key: str,
        *,
        hint: str = "",
        **connection: Unpack[Connection],
    ) -> None:
        for key in connection:
            if key not in Connection.__annotations__:
                raise TypeError(
                    f"{type(self).__name__}() got an unexpected keyword argument {key!r}"
                )
        own: Any = connection.get("client")
        expect(
            "client",
            own,
            object,
            "an async client of the protocol's SDK, or None",
            holds=_is_client,
        )
        url = connection.get("base_url") or (
            str(own.base_url) if own is not None else self.usual_url
        )
        named = connection.get("key_variable")
        if named is not None:
            variable = named
        else:
            variable = usual_key
        silent = connection.get("silent_seconds", 300.0)
        self.provider = provider
        self.model_name = model_name
        self.origin = Origin(provider, self.protocol, address_of(url), model_name)
        self.endpoint: Endpoint = endpoint_of(self.origin)
        self.settings = connection.get("settings") or ModelSettings()
        if own is not None:
            own = own.with_options(max_retries=0)
        self._connection = SdkConnection(
            Target(provider, model_name, url, variable, hint, silent_seconds=silent),
            self.usual_url,
            connection.get("api_key"),
            connection.get("http_client"),
            own,
        )
        self._max_retries = connection.get("max_retries", 2)
        self._sleep = connection.get("sleep", asyncio.sleep)
        self.capabilities = connection.get("capabilities") or self.endpoint.can
        store = connection.get("traits")
        self._now = connection.get("now", time.time)
        self.ledger = Ledger(url, model_name, store, store.now if store else self._now)
        self._refused: frozenset[str] = frozenset()
        self._gone: frozenset[str] = frozenset()
        self._tokens: dict[ProviderTool, str] = {}
        self._files = SentFiles()
        self._told: set[str] = set()

    @property
    def target(self) -> Target:
        """The address, the timeouts, and the names for errors."""
        return self._connection.target

    @target.setter
    def target(self, target: Target) -> None:
        """Set the address, the timeouts, and the names for errors."""
        self._connection.target = target

    @property
    def able(self) -> Capabilities:
        """The model's capabilities, without references to found tools if its address refused them."""
        is_refused = not self.server().flag("references")
        if is_refused and self.capabilities.discovery == "references":
            return replace(SAFE, limits=self.capabilities.limits)
        return self.capabilities

    @property
    def name(self) -> str:
        """The model's name, `provider:model`."""
        return f"{self.provider}:{self.model_name}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def request_body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the JSON of a request, with the parts of the history that this model may receive."""
        run = self.run_for(request)
        body = self.write(replace(request, messages=self._written(request, run)))
        body = self.write_beside(body, run, request)
        settings = self.settings_of(request).fields
        unwanted = self.server().group("field")
        for name in OPTIONAL & unwanted.keys():
            body.pop(name, None)
        kept = {
            **body,
            **{name: value for name, value in settings.items() if name not in unwanted},
        }
        kept = self._with_output(kept, request)
        extra = request.settings.extra
        theirs = extra.get("tools")
        # Provider tools come before mcpagent's, so that tools found later are added at the end.
        if isinstance(theirs, list):
            extra = {**extra, "tools": [*theirs, *kept.get("tools", ())]}
        return self.wellformed(self.fitted({**kept, "stream": True, **extra}))

    @abstractmethod
    def wellformed(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body in the form that the API demands. This is the last step, after all merges."""

    def _written(self, request: ModelRequest, run: WrittenTools) -> tuple[Message, ...]:
        named = (
            *run.fields.get("mcp_servers", ()),
            *listed_in(request.settings.extra, "mcp_servers"),
        )
        servers = {str(server.get("name")) for server in named}
        known: dict[str, Any] = {
            "searches": self.able.searches,
            "servers": servers,
        }
        messages = self._files.written(
            request.messages, self.accepted_files(), self.provider
        )
        return written_for(
            messages, self.origin, refused=self._refused, gone=self._gone, **known
        )

    def accepted_files(self) -> frozenset[str]:
        """Return the inputs other than text that the model accepts and has not refused: "image", "pdf", "audio"."""
        return self.endpoint.accepts - self.server().group("input").keys()

    def lose(self, containers: Collection[str], emit: Emit) -> None:
        """Stop using these containers from now on, and emit a notice."""
        self._gone |= frozenset(containers)
        emit(
            Notice(
                f"{self.name}: the container of this conversation is gone; code runs in a new one",
                "warning",
            )
        )

    def settings_of(self, request: ModelRequest) -> WrittenSettings:
        """Return the request's settings as the model accepts them, and the unsupported ones."""
        return written_settings(request, self.origin, run=self.run_for(request))

    def runs_provider_tools(self) -> bool:
        """Return True: the model reports unsupported provider tools itself."""
        return True

    def takes_output(self) -> bool:
        """Return True: the model chooses its own mode of structured output."""
        return True

    def _with_output(
        self, body: dict[str, Any], request: ModelRequest
    ) -> dict[str, Any]:
        """Return the body with the output schema, in the request's mode of structured output."""
        if request.output is None:
            return body
        if is_submitted(request):
            if self.server().flag("demands"):
                return demanded(body, request, self.protocol)
            return _undemanded(body)
        return with_fields(
            body, native_fields(request.output, self.protocol, subset=self.wants_subset)
        )

    @property
    def wants_subset(self) -> bool:
        """Return whether an output schema must be in OpenAI's strict subset."""
        return True

    def output_way(self, request: ModelRequest, *, can_call: bool = True) -> OutputWay:
        """Return the mode of structured output: the usual one of the model, or another one if that was refused."""
        most = self.tool_limits().max_tools
        way = usual_way(request, self.origin, most_tools=most, can_call=can_call)
        if way != "native" or not self._refused_output(request):
            return way
        if can_call:
            return "tool"
        return "text"

    def _refused_output(self, request: ModelRequest) -> bool:
        refused = self.server().group("output")
        return "" in refused or _schema_key(request) in refused

    def run_for(self, request: ModelRequest) -> WrittenTools:
        """Return the provider tools of the request in the form of this API."""
        if not request.provider_tools:
            return WrittenTools()
        offered = [tool.name for tool in (*request.tools, *request.deferred_tools)]
        theirs = listed_in(request.settings.extra, "tools")
        offered += [str(tool.get("name") or tool.get("type")) for tool in theirs]
        about: dict[str, Any] = {
            "offered": offered,
            "refused": self.server().group("tool"),
            "tokens": self._tokens,
        }
        return written_tools(request.provider_tools, self.origin, **about)

    def write_beside(
        self, body: dict[str, Any], run: WrittenTools, request: ModelRequest
    ) -> dict[str, Any]:
        """Return the body with the provider tools added."""
        return beside_ours(
            body, run, self.origin, may_call=request.tool_choice != "none"
        )

    @abstractmethod
    def write(self, request: ModelRequest) -> dict[str, Any]:
        """Return the JSON of a request without its settings. Its history has only parts that the model may receive."""

    @abstractmethod
    def sdk(self) -> ProviderSdk:
        """Return the parts of the provider's SDK that are used; importing happens here."""

    def address_for(self, body: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return the path and query of a request, as the SDK's own clients write them."""
        return self.path

    def request_options(self, body: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Return the request options for the SDK, such as headers."""
        return {}

    def search_problem(self, strategy: str, deferred: Sequence[ToolDefinition]) -> str:  # noqa: ARG002
        """Return why the provider cannot search these `deferred_tools` itself; "" if it can."""
        return f"{self.name} has no tool search of its own"

    def search_cost(self) -> float:
        """Return the cost of a search in cached input tokens, by the price table and the way in which found tools are
        sent.
        """
        rewrites = self.able.rewrites
        window = None
        if self.provider not in OWN_SERVERS:
            window = self.endpoint.input_tokens
        where = (self.provider, self.model_name, self.target.base_url)
        return known_search_cost(*where, rewrites=rewrites, window_tokens=window)

    def discovery_note(self, tokens: int) -> str:
        """Return a note for a person: how requests to this model contain found tools, and what the alternative would
        cost.

        `tokens` is the size of the request.
        """
        share = None
        if self.provider not in OWN_SERVERS:
            share = cached_share(self.provider, self.model_name, self.target.base_url)
        return words_for_discovery(self.able.discovery, tokens, share)

    def tool_limits(self) -> ToolLimits:
        """Return the limits on tools: from `capabilities`, else as the server reported them, else as known for the
        address.
        """
        given, known = self.capabilities.limits, self.endpoint.limits
        window = given.window_tokens or self.reported_window() or known.window_tokens
        return ToolLimits(given.max_tools or known.max_tools, window, self.able.joining)

    def is_small(self, settings: ModelSettings) -> bool:
        """Return whether the model is small: by the settings, else by the data of its own server; False at a
        provider.
        """
        if said := settings.profile or self.settings.profile:
            return said == "small"
        if self.provider not in OWN_SERVERS and not self.is_elsewhere:
            return False
        found = self.server()
        return is_of_small_size(self.model_name, found.window_tokens, found.parameters)

    async def look_up(self) -> None:
        """Ask a server on this computer for the model's window and size, if the answer can be cached."""
        is_asked = (
            self.ledger.store is not None and self._connection.http_client is None
        )
        if self.provider in OWN_SERVERS and is_asked:
            where = (self.provider, self.target.base_url, self.model_name)
            found = await asyncio.to_thread(sizes_at, *where)
            known = self.server()
            if any(size != getattr(known, name) for name, size in found.items()):
                self.learn(None, **found)

    @property
    def is_elsewhere(self) -> bool:
        """Return whether requests go to another server than the provider's own."""
        return self._connection.is_elsewhere

    def way(self, request: ModelRequest, emit: Emit) -> RequestVariant:
        """Return the form in which to send the request, and emit one notice for each setting that the model does not
        support.

        At an address other than the provider's own, a model may write a call as text. So text that may be a call is
        emitted only when it is certain that it is none.
        """
        left_out = {
            **self.run_for(request).left_out,
            **self.settings_of(request).left_out,
            **dict.fromkeys(self.server().group("field").values(), "it was refused"),
        }
        for name, why in left_out.items():
            if name and name not in self._told:
                self._told.add(name)
                emit(Notice(f"{self.name}: {name} is left out: {why}", "warning"))
        changed = dict(self.settings_of(request).changed)
        if cut := self._cut_descriptions(request):
            changed["tools"] = cut
        for name, what in changed.items():
            if what not in self._told and name not in left_out:
                self._told.add(what)
                emit(Notice(f"{self.name}: {name}: {what}", "warning"))
        return self.formed_way(request, emit)

    def _cut_descriptions(self, request: ModelRequest) -> str:
        """Return a note that the descriptions of tools are cut; "" if none is."""
        longest = self.longest_description
        if longest is None or all(
            len(tool.description) <= longest for tool in request.tools
        ):
            return ""
        return f"descriptions beyond {longest:,} characters are cut"

    def formed_way(
        self, request: ModelRequest, emit: Emit, *, can_call: bool = True
    ) -> RequestVariant:
        """Return the form in which to send the request, with its mode of structured output if it has an `output`."""
        output = request.output
        if output is None:
            if self.is_elsewhere:
                return textual_way(request, emit)
            return RequestVariant(request, emit)
        match self.output_way(request, can_call=can_call):
            case "native":  # in this mode, JSON text is never a call
                return RequestVariant(request, emit)
            case "tool":
                return submitted_way(
                    RequestVariant(with_submit_tool(request, output), emit), emit
                )
            case _:
                return RequestVariant(
                    replace(told_in_words(request), output=None), emit
                )

    def read_answer(
        self, answer: Mapping[str, Any], request: ModelRequest
    ) -> ModelResponse:
        """Return the answer; at other addresses than the provider's own, including calls that the model wrote as
        text.
        """
        response = super().read_answer(answer, request)
        if self.is_elsewhere:
            response = read_textual_calls(
                response,
                callable_in(request),
                of_any_tool=not speaks_for_itself(self.origin),
            )
        return unproxied(response)

    @property
    def longest_description(self) -> int | None:
        """The maximum length of a tool's description at this server, in characters; None if there is no limit."""
        return self.server().description or self.endpoint.server.description

    def fitted(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body with tool descriptions and schemas changed to what the server accepts."""
        if (longest := self.longest_description) is not None:
            body = with_short_descriptions(body, longest)
        if not self.is_elsewhere:
            return body
        if not self.server().takes_schemas:
            return with_loose_schemas(body)
        if self.provider == "llamacpp":
            return with_loose_schemas(body, beyond_llamacpp)
        return body

    def learns(self, failure: Failure, way: RequestVariant) -> bool:
        """Learn from a failure; return whether to repeat the request in another form.

        It learns which options, tools and output modes the model refuses, and which reasoning in the history; the
        conversation continues without these. For a self-hosted server, it also learns the window, which does not change
        this request, and the schemas that it accepts.
        """
        if self._leaves_out_files(failure, way):
            return True
        if (
            failure.status in (400, 422)
            and not failure.is_overflow
            and self._leaves_out(failure, way.request)
        ):
            return True
        if failure.status in (403, 404, 424) and (
            tools := refused_tools(failure.message, self.run_for(way.request))
        ):
            return self.learn(
                failure, **{f"tool:{name}": why for name, why in tools.items()}
            )
        # Other servers may accept the refused schema with fewer keywords.
        is_final = not self.is_elsewhere or not refuses_schema(failure)
        if is_final and self._asks_otherwise(failure, way.request):
            return True
        if (
            failure.window_tokens
            and failure.window_tokens != self.server().window_tokens
        ):
            self.learn(window_tokens=failure.window_tokens)
        if not self.is_elsewhere:
            return False
        if (
            failure.status in (400, 422, 500)
            and refuses_schemas(failure.message)
            and self.server().takes_schemas
        ):
            body = self.request_body(way.request)
            if with_loose_schemas(body) != body:
                return self.learn(failure, takes_schemas=False)
        return self._asks_otherwise(failure, way.request)

    def _leaves_out_files(self, failure: Failure, way: RequestVariant) -> bool:
        """Return whether the failure refuses files in the history; from now on, these are sent as descriptions."""
        messages = self._files.written(
            way.request.messages, self.accepted_files(), self.provider
        )
        refused, kind = refused_files(
            failure, lambda: self.request_body(way.request), messages
        )
        if not self._files.refuse(refused, way.listen, self.name, failure.message):
            return False
        if kind:
            return self.learn(failure, **{f"input:{kind}": "refused"})
        return True

    def _asks_otherwise(self, failure: Failure, request: ModelRequest) -> bool:
        """Return whether the failure refuses the mode of structured output, so that another mode is used."""
        if request.output is None or failure.status not in (400, 404, 422, 500):
            return False
        if is_submitted(request):
            return (
                self.server().flag("demands")
                and refuses_demand(failure)
                and self.learn(failure, demands=False)
            )
        if not refuses_output(failure) or self._refused_output(request):
            return False
        refused = ""
        if refuses_schema(failure):
            refused = _schema_key(request)
        return self.learn(failure, **{f"output:{refused}": "refused"})

    def _leaves_out(self, failure: Failure, request: ModelRequest) -> bool:
        """Return whether the failure refuses an optional part of the request; later requests omit it.

        Such a part is an optional field, a long tool description, cache markers, a provider tool, reasoning in the
        history, or a setting.
        """
        body = self.request_body(request)
        if named := refused_option(failure, body):
            return self.learn(failure, **{f"field:{named}": ""})
        if longest := refused_description(failure):
            return self.learn(failure, description=longest)
        if refused := refused_caching(failure, body):
            return self.learn(failure, **{refused: False})
        if tools := refused_tools(failure.message, self.run_for(request)):
            return self.learn(
                failure, **{f"tool:{name}": why for name, why in tools.items()}
            )
        if refuses_thoughts(failure):
            sent = thoughts_of(self._written(request, self.run_for(request)))
            self._refused |= sent
            if sent:
                return True
        known = self.server().group("field").keys()
        made = refused_setting(
            failure, request, lambda asked: self.settings_of(asked).fields, known
        )
        return bool(made) and self.learn(
            failure, **{f"field:{name}": setting for name, setting in made.items()}
        )

    def server(self) -> Learned:
        """Return the learned facts about the model at its address."""
        return self.ledger.current()

    def learn(self, failure: Failure | None = None, /, **found: FactValue) -> bool:
        """Record facts, with the failure as their evidence. Returns True, for callers that return it."""
        self.ledger.learn(failure, found)
        return True

    def reported_window(self) -> int | None:
        """Return the maximum number of tokens as a failure reported it, perhaps to an earlier process; None if
        unknown.
        """
        return self.server().window_tokens

    async def respond(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """Return one answer. Raises `ModelError` or `CredentialsError` with one line, never an exception of the SDK.

        Only this method does I/O with the SDK; the `Exchange` decides what is sent, emitted and retried.
        """
        merged_request = replace(request, settings=await self._settled(request))
        await self._files.prepare(
            request.messages, self.accepted_files(), self.provider, emit, self.name
        )
        exchange = Exchange(self, merged_request, emit, self._max_retries)
        sdk, connection = self.sdk(), self._connection
        client = connection.client(sdk)
        bound(client)
        stream: Any
        caught = caught_failures(sdk.error)
        delay = 0.0
        while (body := exchange.next_body()) is not None:
            if delay:
                await self._sleep(delay)
            delay, stream = 0.0, None
            options = request_options(
                merged_request.settings, self.request_options(body)
            )
            try:
                async with asyncio.timeout(self.target.total_seconds) as limit:
                    with connection.signing(caught, self.provider), of_bounded_size():
                        stream = await client.post(
                            self.address_for(body),
                            cast_to=object,
                            **connection.content(body),
                            options=options,
                            stream=True,
                            stream_cls=sdk.stream,
                        )
                    if not exchange.streams(stream.response):
                        exchange.take(await stream.response.aread())
                        connection.has_answered = True
                        continue
                    async for event in stream:
                        if exchange.add(
                            event
                        ):  # read to the end, so that the connection can be reused
                            limit.reschedule(
                                asyncio.get_running_loop().time() + END_SECONDS
                            )
                    exchange.end(was_marked=getattr(stream, "was_marked", False))
                connection.has_answered = True
            except caught as error:
                if exchange.reopens(error, was_used=connection.has_answered):
                    continue
                try:
                    delay = exchange.failed(error)
                except McpAgentError:
                    self.ledger.forget_untried()
                    raise
            finally:
                if stream is not None:
                    await stream.response.aclose()
        self.ledger.confirm()
        return exchange.response()

    async def download(self, file: FileId) -> Document | None:
        """Return a file that this provider stores; None for a file of another provider. Raises `ModelError` with one
        line.
        """
        if file.provider != self.provider:
            return None
        sdk = self.sdk()
        client = self._connection.client(sdk)
        if not hasattr(client, "files"):
            said = f"{self.name}: files cannot be downloaded from there"
            raise ModelError(said, provider=self.provider)
        try:
            async with asyncio.timeout(DOWNLOAD_SECONDS):
                return await sdk.download(client, file)
        except caught_failures(sdk.error) as error:
            raise to_error(read_failure(error), self.target) from None

    async def _settled(self, request: ModelRequest) -> ModelSettings:
        """Return the settings of a request merged with the model's own, after reading tokens that provider tools
        need.
        """
        if names_tokens(request.provider_tools):
            self._tokens |= await asyncio.to_thread(read_tokens, request.provider_tools)
        settings = merged(self.settings, request.settings)
        if is_small(self, settings):
            return merged(SMALL, settings)
        return settings

    def key(self) -> str:
        """Return the key to send. Raises `CredentialsError` if it is required and missing, or invalid."""
        return self._connection.key()

    async def aclose(self) -> None:
        """Close its own connections; an `http_client` that the caller passed stays open."""
        await self._connection.aclose()


class OpenAIModel(HttpModel):
    """A model that OpenAI's SDK can call, at OpenAI or elsewhere."""

    usual_url = OPENAI_URL

    @property
    def speaks_as_openai(self) -> bool:
        """Return whether requests go to OpenAI, at any of its addresses, or to Azure."""
        return self.endpoint.server.dialect == "openai"

    def most_output(self, failure: Failure) -> int | None:
        """Return the maximum output that the model accepts, or that fits into the window, if the error states it."""
        return longest_answer(failure)

    def sdk(self) -> ProviderSdk:
        """Return the parts of OpenAI's SDK that are used, for any address."""
        import openai

        header = ("Authorization", "Bearer {}", openai.Omit())
        return ProviderSdk(
            openai.AsyncOpenAI,
            openai.OpenAIError,
            marked_stream(),
            *header,
            from_openai,
        )


def _schema_key(request: ModelRequest) -> str:
    """Return the key of an output schema among the learned facts."""
    return sha256(schema_text(request).encode("utf-8", "replace")).hexdigest()[:16]


def _undemanded(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body without `tool_choice`, for servers that accept only one form of it."""
    return {name: value for name, value in body.items() if name != "tool_choice"}


def listed_in(extra: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the objects in a list that the caller passed in `extra` under this name, or []."""
    listed = extra.get(name)
    if isinstance(listed, list):
        return [one for one in listed if isinstance(one, Mapping)]
    return []


def is_openai(base_url: str | None) -> bool:
    """Return whether this is an address of OpenAI, such as https://eu.api.openai.com/v1; None is the default
    address.
    """
    return base_url is None or bool(_OPENAI.fullmatch(base_url))


def _is_client(given: Any) -> bool:
    return given is None or (
        hasattr(given, "with_options")
        and iscoroutinefunction(getattr(given, "post", None))
    )
