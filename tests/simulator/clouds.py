"""Clouds and gateways before the simulated APIs: their addresses, framing and refusals.

Each rule has the address of its source. `CloudTransport` is an HTTP transport, so that the SDKs' own cloud clients
write the address, the headers, the credentials and the body, and read the framing.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias
from urllib.parse import unquote
from zlib import crc32

import httpx2

from tests.simulator.server import PROTOCOLS, Simulator
from tests.simulator.values import Brain, Refusal, require

Body: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One request: `path` with its query, lower-case header names, and the body."""

    path: str
    headers: Mapping[str, str]
    body: Body


@dataclass(frozen=True)
class Cloud:
    """A cloud or a gateway.

    `enter` returns the request as the API behind it reads it, or raises `Refusal`. `stream` writes the events of an
    answer, and `error` a refusal.
    """

    enter: Callable[[Call], Call]
    stream: Callable[[str, Iterable[Mapping[str, Any]]], bytes]
    error: Callable[[Refusal], Body]
    content_type: str = "text/event-stream"


class CloudTransport:
    """A cloud with a simulated API behind it.

    `pieces` cuts streamed answers into pieces of so many bytes, `most` are the bytes that arrive of one, and `size` is
    that of the last one.
    """

    def __init__(self, cloud: Cloud, brain: Brain, *, pieces: int = 0) -> None:
        self.cloud = cloud
        self.behind = Simulator(brain)
        self.refused: list[Refusal] = []
        self.paths: list[str] = []
        self.http_client = httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))
        self._pieces = pieces
        self.most: int | None = None
        self.size = 0

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        path = request.url.raw_path.decode()
        try:
            call = self.cloud.enter(Call(path, headers, json.loads(request.content)))
            answer = self.behind.answer(call.path, call.headers, call.body)
            self.paths.append(call.path)
        except Refusal as refusal:
            self.refused.append(refusal)
            return httpx2.Response(refusal.status, json=self.cloud.error(refusal))
        written = self.cloud.stream(call.path, PROTOCOLS[call.path].events(answer))
        self.size = len(written)
        written = written[: self.most]
        sent: Any = _cut(written, self._pieces) if self._pieces else written
        return httpx2.Response(200, headers={"content-type": self.cloud.content_type}, content=sent)


async def _cut(content: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


def _sse(path: str, events: Iterable[Mapping[str, Any]]) -> bytes:
    lines: list[str] = []
    for event in events:
        if "type" in event:
            lines.append(f"event: {event['type']}\n")
        lines.append(f"data: {json.dumps(event)}\n\n")
    if path.endswith("/chat/completions"):
        lines.append("data: [DONE]\n\n")
    return "".join(lines).encode()


def _anthropic_error(refusal: Refusal) -> Body:
    error = {"type": "invalid_request_error", "message": refusal.message}
    return {"type": "error", "error": error, "request_id": "req_1"}


def _openai_error(refusal: Refusal) -> Body:
    named = re.match(r"Invalid '([^']+)'", refusal.message)
    param = named[1] if named else None
    return {
        "error": {
            "message": refusal.message,
            "type": "invalid_request_error",
            "param": param,
            "code": refusal.code,
        }
    }


# -- Anthropic's models in clouds -------------------------------------------------------------------------------------

_OWN_FIELDS = frozenset(
    "anthropic_version anthropic_beta max_tokens messages metadata output_config output_format stop_sequences system "  # noqa: SIM905
    "temperature thinking tool_choice tools top_k top_p".split()
)
"""https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages-request-response.html"""

_CLOUD_BETAS = frozenset(
    {
        "computer-use-2025-01-24",
        "context-1m-2025-08-07",
        "context-management-2025-06-27",
        "effort-2025-11-24",
        "interleaved-thinking-2025-05-14",
        "mid-conversation-tool-changes-2026-07-01",
        "output-128k-2025-02-19",
        "token-efficient-tools-2025-02-19",
        "tool-examples-2025-10-29",
        "tool-search-tool-2025-10-19",
    }
)
"""https://github.com/BerriAI/litellm/pull/19877, with the beta of tool changes: Anthropic docs name both clouds."""

SEARCH_BETA = "tool-search-tool-2025-10-19"


def _bare(name: str) -> str:
    """Return Anthropic's own name of a model in a cloud."""
    found = re.search(r"claude-[a-z0-9.-]+", name.replace("@", "-"))
    require(found, "The provided model identifier is invalid.")
    assert found is not None
    return re.sub(r"-v\d+$", "", found[0])


def _check_in_cloud(body: Body, betas: Sequence[str]) -> None:
    """Raise `Refusal` where Bedrock and Vertex refuse what Anthropic itself accepts."""
    # https://github.com/UKGovernmentBEIS/inspect_ai/issues/3851, https://github.com/vercel/ai/issues/13986
    unknown = sorted(body.keys() - _OWN_FIELDS)
    require(not unknown, f"{unknown[0] if unknown else ''}: Extra inputs are not permitted")
    for place, tool in enumerate(body.get("tools", ())):
        # https://github.com/vercel/ai/pull/13900: deferred tools need the beta, in the clouds alone
        is_searched = tool.get("defer_loading") or str(tool.get("type")).startswith("tool_search")
        allowed = SEARCH_BETA in betas or not is_searched
        require(allowed, f"tools.{place}.custom.defer_loading: Extra inputs are not permitted")
    for place, turn in enumerate(body["messages"]):
        for number, block in enumerate(turn["content"]):
            inner = block["content"] if block["type"] == "tool_result" else [block]
            for one in inner:
                # https://platform.claude.com/docs/en/build-with-claude/vision: no addresses in the clouds, no files API
                kind = one.get("source", {}).get("type")
                where = f"messages.{place}.content.{number}.{one['type']}.source"
                require(kind not in ("url", "file"), f"{where}: Input tag '{kind}' found using 'type' does not match")


def _enter_bedrock(call: Call, *, accepts: frozenset[str] = _CLOUD_BETAS) -> Call:
    """https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModelWithResponseStream.html"""
    found = re.fullmatch(r"/model/([^/?]+)/invoke-with-response-stream", call.path)
    require(found, f"Unable to determine service/operation name to be authorized: {call.path}")
    assert found is not None
    require("authorization" in call.headers, "Missing Authentication Token")
    body = dict(call.body)
    require("anthropic_version" in body, "anthropic_version: Field required")
    for key in ("model", "stream"):
        require(key not in body, f"#: extraneous key [{key}] is not permitted")
    betas = body.pop("anthropic_beta", [])
    # https://github.com/anthropics/claude-code/issues/49370
    require(set(betas) <= accepts, "invalid beta flag")
    _check_in_cloud(body, betas)
    del body["anthropic_version"]
    inside = {**body, "model": _bare(unquote(found[1]))}
    return Call("/v1/messages", {"anthropic-beta": ",".join(betas)}, inside)


def _enter_bedrock_without_betas(call: Call) -> Call:
    """https://github.com/anthropics/claude-code/issues/49370: some models and regions refuse all betas but one."""
    return _enter_bedrock(call, accepts=frozenset({"interleaved-thinking-2025-05-14"}))


def _enter_vertex(call: Call) -> Call:
    """https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai"""
    found = re.fullmatch(
        r"/v1/projects/[^/]+/locations/[^/]+/publishers/anthropic/models/([^/?]+):streamRawPredict", call.path
    )
    require(found, f"Not found: {call.path}")
    assert found is not None
    require(call.headers.get("authorization", "").startswith("Bearer "), "Request is missing credentials.")
    body = dict(call.body)
    require("anthropic_version" in body, "anthropic_version: Field required")
    require("model" not in body, "model: Extra inputs are not permitted")
    require(body.pop("stream", False), "stream: Field required")
    betas = [beta for beta in call.headers.get("anthropic-beta", "").split(",") if beta]
    # https://github.com/vercel/ai/issues/10981
    unknown = [f"`{beta}`" for beta in betas if beta not in _CLOUD_BETAS]
    require(not unknown, f"Unexpected value(s) {', '.join(unknown)} for the `anthropic-beta` header.")
    _check_in_cloud(body, betas)
    del body["anthropic_version"]
    return Call("/v1/messages", call.headers, {**body, "model": _bare(unquote(found[1]))})


def _enter_foundry(call: Call) -> Call:
    """https://learn.microsoft.com/en-us/azure/ai-foundry/foundry-models/how-to/use-foundry-models-claude"""
    require(call.path.partition("?")[0] == "/anthropic/v1/messages", "Resource not found")
    require("x-api-key" in call.headers or "authorization" in call.headers, "Access denied due to missing key")
    require("anthropic-version" in call.headers, "anthropic-version: header is required")
    return Call("/v1/messages", call.headers, call.body)


def _aws_error(refusal: Refusal) -> Body:
    return {"message": refusal.message}


def aws_frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return one message of `application/vnd.amazon.eventstream`.

    https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html: a prelude of both lengths with its
    checksum, headers with their type (7 is a text), the payload, and the checksum of it all.
    """
    head = b""
    for name, value in headers.items():
        head += struct.pack("!B", len(name)) + name.encode()
        head += struct.pack("!BH", 7, len(value)) + value.encode()
    prelude = struct.pack("!II", 16 + len(head) + len(payload), len(head))
    message = prelude + struct.pack("!I", crc32(prelude)) + head + payload
    return message + struct.pack("!I", crc32(message))


def _aws_stream(_path: str, events: Iterable[Mapping[str, Any]]) -> bytes:
    frames: list[bytes] = []
    for event in events:
        content = base64.b64encode(json.dumps(event).encode()).decode()
        headers = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
        frames.append(aws_frame(headers, json.dumps({"bytes": content, "p": "abcd"}).encode()))
    return b"".join(frames)


# -- Chat Completions and Responses behind clouds and gateways --------------------------------------------------------

LONGEST_DESCRIPTION = 1024


def _check_descriptions(body: Body) -> None:
    """https://learn.microsoft.com/en-us/azure/ai-foundry/openai/how-to/function-calling: at most 1,024 characters.

    https://github.com/OpenHands/OpenHands/issues/4838 has the text of the refusal.
    """
    for place, tool in enumerate(body.get("tools", ())):
        field = "function.description" if "function" in tool else "description"
        size = len(tool.get("function", tool).get("description", ""))
        require(
            size <= LONGEST_DESCRIPTION,
            f"Invalid 'tools[{place}].{field}': string too long. Expected a string with maximum length "
            f"{LONGEST_DESCRIPTION}, but got a string with length {size} instead.",
            "string_above_max_length",
        )


def _enter_azure(call: Call) -> Call:
    """https://learn.microsoft.com/en-us/azure/ai-foundry/openai/reference: a deployment and a version."""
    require("api-key" in call.headers or "authorization" in call.headers, "Access denied due to missing key")
    path, _, query = call.path.partition("?")
    is_v1 = path.startswith("/openai/v1/")
    if not (is_v1 or "api-version=" in query):
        raise Refusal(404, "Resource not found", "404")
    _check_descriptions(call.body)
    body = dict(call.body)
    if found := re.fullmatch(r"/openai/deployments/([^/]+)/chat/completions", path):
        body["model"] = unquote(found[1])
    # https://github.com/vectorize-io/hindsight/issues/3518, for the models that are not OpenAI's
    is_foreign = body["model"].startswith("DeepSeek")
    unknown = "prompt_cache_key" in body and is_foreign
    require(not unknown, "Unrecognized request argument supplied: prompt_cache_key", "unrecognized_request_argument")
    end = "/v1/responses" if path.endswith("/responses") else "/v1/chat/completions"
    return Call(end, call.headers, body)


def _behind(call: Call, model: str) -> Call:
    """Return the call for the model behind a gateway; Claude caches what is marked alone."""
    body = {**call.body, "model": model}
    if "claude" in model:
        return Call("/claude/v1/chat/completions", call.headers, body)
    # https://github.com/gethnet/litellm-connector-copilot/pull/138
    marked = "cache_control" in json.dumps([body["messages"], body.get("cache_control")])
    require(not marked, "Unrecognized request argument supplied: cache_control", "unrecognized_request_argument")
    return Call("/v1/chat/completions", call.headers, body)


def _has_calls(body: Body) -> bool:
    return any(message.get("tool_calls") for message in body["messages"])


def _enter_openrouter(call: Call) -> Call:
    """https://openrouter.ai/docs/api-reference/chat-completion"""
    require(call.path == "/api/v1/chat/completions", f"Not found: {call.path}")
    require(call.headers.get("authorization", "").startswith("Bearer "), "No auth credentials found")
    model = call.body["model"]
    require("/" in model, f"{model} is not a valid model ID")
    return _behind(call, model)


def _enter_openrouter_by_user_turns(call: Call) -> Call:
    """https://github.com/earendil-works/pi/pull/584: markers in messages of the role "tool" have no effect."""
    entered = _enter_openrouter(call)
    messages: list[Body] = []
    for message in entered.body["messages"]:
        if message["role"] == "tool" and isinstance(message["content"], list):
            message = {**message, "content": "".join(piece["text"] for piece in message["content"])}
        messages.append(message)
    return replace(entered, body={**entered.body, "messages": messages})


_ANTHROPIC_THROUGH_LITELLM = frozenset(
    "max_completion_tokens max_tokens messages model parallel_tool_calls reasoning_effort response_format stop stream "  # noqa: SIM905
    "stream_options temperature thinking tool_choice tools top_p user".split()
)
"""https://docs.litellm.ai/docs/completion/input, the column of Anthropic."""


def _enter_litellm(call: Call) -> Call:
    """https://docs.litellm.ai/docs/proxy/user_keys"""
    if call.path.partition("?")[0] == "/v1/messages":
        return Call("/v1/messages", call.headers, call.body)
    if call.path == "/v1/responses":
        return Call("/v1/responses", call.headers, call.body)
    require(call.path == "/v1/chat/completions", f"Not found: {call.path}")
    model = call.body["model"]
    if "claude" in model:
        # https://github.com/BerriAI/litellm/issues/6456
        unknown = sorted(call.body.keys() - _ANTHROPIC_THROUGH_LITELLM)
        require(
            not unknown,
            f"litellm.UnsupportedParamsError: anthropic does not support parameters: {unknown}, for model={model}. "
            "To drop these, set `litellm.drop_params=True` or for proxy:\n\n`litellm_settings:\n drop_params: true`",
        )
        # https://github.com/anomalyco/opencode/issues/2915
        require(
            call.body.get("tools") or not _has_calls(call.body),
            "litellm.UnsupportedParamsError: Anthropic doesn't support tool calling without `tools=` param specified. "
            "Pass `tools=` param OR set `litellm.modify_params = True` // `litellm_settings::modify_params: True` to "
            "add dummy tool to the request.",
        )
    return _behind(call, model)


def _litellm_error(refusal: Refusal) -> Body:
    shown = refusal.message
    if "litellm." not in shown:
        shown = f"litellm.BadRequestError: OpenAIException - {shown}"
    shown += ". Received Model Group=m\nAvailable Model Group Fallbacks=None"
    return {"error": {"message": shown, "type": None, "param": None, "code": "400"}}


def _enter_portkey(call: Call) -> Call:
    """https://portkey.ai/docs/api-reference/inference-api/headers"""
    require(call.path == "/v1/chat/completions", f"Not found: {call.path}")
    routed = {"x-portkey-provider", "x-portkey-config"} & call.headers.keys() or call.body["model"].startswith("@")
    require(routed, "Either x-portkey-config or x-portkey-provider header is required")
    return _behind(call, call.body["model"])


def _portkey_error(refusal: Refusal) -> Body:
    error = {"message": f"anthropic error: {refusal.message}", "type": "invalid_request_error", "param": None}
    return {"error": {**error, "code": None}, "provider": "anthropic"}


def _enter_vllm(call: Call) -> Call:
    """https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html"""
    require(call.path == "/v1/chat/completions", f"Not found: {call.path}")
    body = call.body
    # https://github.com/vllm-project/vllm/issues/9986: by default a server is started without a parser of calls
    if body.get("tools") and body.get("tool_choice", "auto") == "auto":
        message = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        raise Refusal(400, message, "400")
    return _enter_vllm_with_tools(call)


def _enter_vllm_with_tools(call: Call) -> Call:
    """A server with a parser of calls, and a chat template that wants turns to alternate.

    https://github.com/vllm-project/vllm/issues/2112
    """
    turns = [message["role"] for message in call.body["messages"] if message["role"] != "system"]
    alternate = all(before != after or before == "tool" for before, after in pairwise(turns))
    require(alternate, "Conversation roles must alternate user/assistant/user/assistant/...")
    require(call.body.get("tools") != [], "tools: List should have at least 1 item after validation")
    return Call("/v1/chat/completions", call.headers, call.body)


def _vllm_error(refusal: Refusal) -> Body:
    return {"error": {"message": refusal.message, "type": "BadRequestError", "param": None, "code": refusal.status}}


def _enter_anywhere(call: Call) -> Call:
    """Return the call for the API that its path names, at any address."""
    path = call.path.partition("?")[0]
    if path.endswith("/messages"):
        return Call("/v1/messages", call.headers, call.body)
    if path.endswith("/responses"):
        return Call("/v1/responses", call.headers, call.body)
    if path.startswith("/v1beta/openai"):
        return Call("/v1beta/openai/chat/completions", call.headers, call.body)
    if "claude" in call.body["model"]:
        return Call("/claude/v1/chat/completions", call.headers, call.body)
    if call.headers.get("host", "").startswith("localhost"):
        return Call("/local/v1/chat/completions", call.headers, call.body)
    return Call("/v1/chat/completions", call.headers, call.body)


ANYWHERE = Cloud(_enter_anywhere, _sse, _openai_error)

CLOUDS: Mapping[str, Cloud] = {
    "bedrock": Cloud(_enter_bedrock, _aws_stream, _aws_error, "application/vnd.amazon.eventstream"),
    "bedrock without betas": Cloud(
        _enter_bedrock_without_betas, _aws_stream, _aws_error, "application/vnd.amazon.eventstream"
    ),
    "vertex": Cloud(_enter_vertex, _sse, _anthropic_error),
    "foundry": Cloud(_enter_foundry, _sse, _anthropic_error),
    "azure": Cloud(_enter_azure, _sse, _openai_error),
    "openrouter": Cloud(_enter_openrouter, _sse, _openai_error),
    "openrouter by user turns": Cloud(_enter_openrouter_by_user_turns, _sse, _openai_error),
    "litellm": Cloud(_enter_litellm, _sse, _litellm_error),
    "portkey": Cloud(_enter_portkey, _sse, _portkey_error),
    "vllm": Cloud(_enter_vllm, _sse, _vllm_error),
    "vllm with tools": Cloud(_enter_vllm_with_tools, _sse, _vllm_error),
}
