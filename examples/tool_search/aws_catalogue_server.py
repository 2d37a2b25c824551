"""A large real catalogue: the operations of Amazon Web Services as MCP tools, over stdio.

Names, descriptions and input schemas come from the service models that botocore ships (Apache-2.0). A call answers
with the HTTP request that botocore would send, and sends nothing: no account, key or network is needed.

    python aws_catalogue_server.py                 the services listed below
    python aws_catalogue_server.py s3 sqs          only these
    python aws_catalogue_server.py all             everything botocore knows, some twenty thousand operations

Needs `mcp` (2.x) and `botocore`. The list of tools is built once and kept as JSON beside the Python that runs this.
"""

# mypy: disable-error-code="import-not-found,import-untyped"
# botocore is not among mcpagent's own dependencies: this file runs in an environment of its own.

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import unescape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, ListToolsResult, TextContent, ToolAnnotations
from mcp.types import Tool as McpTool

if TYPE_CHECKING:  # loaded when a call needs it: a kept list starts without botocore
    from botocore.awsrequest import AWSPreparedRequest
    from botocore.model import OperationModel, Shape, StructureShape
    from botocore.session import Session

SERVICES = (
    "acm", "apigateway", "apigatewayv2", "application-autoscaling", "appsync", "athena", "autoscaling", "backup",
    "batch", "bedrock", "bedrock-runtime", "budgets", "ce", "cloudformation", "cloudfront", "cloudtrail", "cloudwatch",
    "codebuild", "codecommit", "codepipeline", "cognito-idp", "config", "dynamodb", "ec2", "ecr", "ecs", "efs", "eks",
    "elasticache", "elbv2", "emr", "events", "firehose", "glue", "guardduty", "iam", "kafka", "kinesis", "kms",
    "lambda", "logs", "opensearch", "organizations", "polly", "rds", "redshift", "rekognition", "route53", "s3",
    "sagemaker", "scheduler", "secretsmanager", "sesv2", "sns", "sqs", "ssm", "stepfunctions", "sts", "textract",
    "transcribe", "translate", "wafv2", "xray",
)  # fmt: skip

REGION = "eu-central-1"
PAGE = 500
"""Tools per page of `tools/list`."""

UNSHOWN = frozenset(
    {
        "authorization",
        "user-agent",
        "x-amz-date",
        "amz-sdk-invocation-id",
        "amz-sdk-request",
    }
)
"""Headers about the sender and the moment, not about the call."""

MAX_DESCRIPTION_CHARACTERS = 600
MAX_PARAMETER_CHARACTERS = 160


@dataclass(frozen=True, slots=True)
class Operation:
    """Where a tool's call goes."""

    service: str
    name: str


# -- schemas ----------------------------------------------------------------------------------------------------------


def plain(html: str, limit: int) -> str:
    """The text of AWS's HTML documentation on one line, ended at a sentence within the limit where there is one."""
    text = re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", html))).strip()
    text = re.sub(r" ([.,;:)])(?= |$)", r"\1", text)
    if len(text) <= limit:
        return text
    head = text[:limit]
    end = max(head.rfind(mark) for mark in (". ", "! ", "? "))
    return head[: end + 1] if end > 0 else head[: head.rfind(" ")] + " ..."


def input_schema(operation: OperationModel) -> dict[str, Any]:
    """The operation's input as JSON Schema; structures used more than once, or within themselves, are in `$defs`."""
    shape = operation.input_shape
    if shape is None or not shape.members:
        return {"type": "object", "properties": {}}
    return _InputSchema(shape).document


class _InputSchema:
    def __init__(self, root: StructureShape) -> None:
        self.uses: dict[str, int] = {}
        self._count(root)
        self.definitions: dict[str, Any] = {}
        self.document = self._structure(root)
        if self.definitions:
            self.document["$defs"] = dict(sorted(self.definitions.items()))

    def _count(self, shape: Shape) -> None:
        if shape.type_name == "structure":
            self.uses[shape.name] = self.uses.get(shape.name, 0) + 1
            if self.uses[shape.name] > 1:
                return
        for inner in _inner(shape):
            self._count(inner)

    def _schema(self, shape: Shape) -> dict[str, Any]:
        if shape.type_name == "structure":
            if self.uses[shape.name] == 1:
                return self._structure(shape)
            if shape.name not in self.definitions:
                self.definitions[
                    shape.name
                ] = {}  # stands in while the structure is within itself
                self.definitions[shape.name] = self._structure(shape)
            return {"$ref": f"#/$defs/{shape.name}"}
        if shape.type_name == "list":
            return {"type": "array", "items": self._schema(shape.member)}
        if shape.type_name == "map":
            return {"type": "object", "additionalProperties": self._schema(shape.value)}
        return _scalar(shape)

    def _structure(self, shape: StructureShape) -> dict[str, Any]:
        properties = {}
        for name, member in shape.members.items():
            schema = self._schema(member)
            if text := plain(member.documentation, MAX_PARAMETER_CHARACTERS):
                schema = {**schema, "description": text}
            properties[name] = schema
        found: dict[str, Any] = {"type": "object", "properties": properties}
        if shape.required_members:
            found["required"] = list(shape.required_members)
        return found


def _inner(shape: Shape) -> list[Shape]:
    match shape.type_name:
        case "structure":
            return list(shape.members.values())
        case "list":
            return [shape.member]
        case "map":
            return [shape.value]
        case _:
            return []


def _scalar(shape: Shape) -> dict[str, Any]:
    if shape.type_name == "string" and shape.enum:
        return {"type": "string", "enum": list(shape.enum)}
    kinds: dict[str, dict[str, Any]] = {
        "boolean": {"type": "boolean"},
        "integer": {"type": "integer"},
        "long": {"type": "integer"},
        "float": {"type": "number"},
        "double": {"type": "number"},
        "blob": {"type": "string", "contentEncoding": "base64"},
        "timestamp": {"type": "string", "format": "date-time"},
    }
    return kinds.get(shape.type_name, {"type": "string"})


# -- the catalogue ----------------------------------------------------------------------------------------------------


def _session() -> Session:
    from botocore.session import Session

    return Session()


def build(services: Sequence[str], session: Session) -> list[dict[str, Any]]:
    """Every operation of the services as an MCP tool in wire form, with its operation under `_meta`."""
    from botocore import xform_name

    tools = []
    for service in services:
        model = session.get_service_model(service)
        for name in model.operation_names:
            operation = model.operation_model(name)
            tools.append(
                {
                    "name": f"{service.replace('-', '_')}_{xform_name(name)}",
                    "description": plain(
                        operation.documentation, MAX_DESCRIPTION_CHARACTERS
                    ),
                    "inputSchema": input_schema(operation),
                    "_meta": {"aws/service": service, "aws/operation": name},
                }
            )
    return tools


def catalogue(services: Sequence[str]) -> list[dict[str, Any]]:
    """The tools, from the kept list where it fits these services and this botocore."""
    made_of = json.dumps(
        [Path(__file__).read_text("utf-8"), version("botocore"), list(services)]
    )
    kept = (
        Path(sys.prefix)
        / f"aws-catalogue-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.json"
    )
    with contextlib.suppress(OSError, ValueError):
        tools: list[dict[str, Any]] = json.loads(kept.read_text("utf-8"))
        return tools
    tools = build(services, _session())
    with contextlib.suppress(OSError):
        _write_whole(kept, json.dumps(tools))
    return tools


def _write_whole(path: Path, text: str) -> None:
    """Never leaves half a file, also when two of these start at once."""
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, delete=False, encoding="utf-8"
    ) as file:
        file.write(text)
    os.replace(file.name, path)


# -- calls ------------------------------------------------------------------------------------------------------------


class _NotSentError(Exception):
    """Carries the finished request out of botocore in place of sending it."""

    def __init__(self, request: AWSPreparedRequest) -> None:
        super().__init__("dry run")
        self.request = request


def _keep_from_sending(request: AWSPreparedRequest, **_more: Any) -> None:
    raise _NotSentError(request)


@cache
def _client(service: str) -> Any:
    from botocore.config import Config

    client = _session().create_client(
        service,
        region_name=REGION,
        aws_access_key_id="DRYRUN",
        aws_secret_access_key="dry-run",
        config=Config(
            retries={"total_max_attempts": 1}, endpoint_discovery_enabled=False
        ),
    )
    client.meta.events.register("before-send", _keep_from_sending)
    return client


def dry_run(operation: Operation, arguments: Mapping[str, Any]) -> str:
    """The request that this call would send, as text. Raises `ValueError` for arguments that botocore refuses."""
    from botocore import xform_name
    from botocore.exceptions import BotoCoreError

    try:
        getattr(_client(operation.service), xform_name(operation.name))(**arguments)
    except _NotSentError as held:
        request = held.request
    except BotoCoreError as problem:
        raise ValueError(str(problem)) from problem
    headers = [
        f"{name}: {_text(value)}"
        for name, value in request.headers.items()
        if name.lower() not in UNSHOWN
    ]
    body = _text(request.body)
    return "\n".join(
        [
            f"Dry run: nothing was sent to AWS. {operation.service} {operation.name} would send this request:",
            "",
            f"{request.method} {request.url}",
            *headers,
            *(["", body] if body else []),
        ]
    )


def _text(value: Any) -> str:
    if hasattr(value, "read"):
        value = value.read()
    return (
        value.decode("utf-8", "replace")
        if isinstance(value, bytes | bytearray)
        else str(value or "")
    )


# -- the server -------------------------------------------------------------------------------------------------------


def build_server(tools: Sequence[Mapping[str, Any]]) -> Server[Any]:
    operations = {
        tool["name"]: Operation(
            tool["_meta"]["aws/service"], tool["_meta"]["aws/operation"]
        )
        for tool in tools
    }
    # Whatever an operation would do: a call of it here sends nothing.
    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    listed = [McpTool.model_validate({**tool, "annotations": reads}) for tool in tools]

    async def list_tools(_context: Any, params: Any) -> ListToolsResult:
        start = int(params.cursor) if params is not None and params.cursor else 0
        end = start + PAGE
        return ListToolsResult(
            tools=listed[start:end], next_cursor=str(end) if end < len(listed) else None
        )

    async def call_tool(_context: Any, params: Any) -> CallToolResult:
        operation = operations.get(params.name)
        if operation is None:
            return _answer(f'no tool "{params.name}"', failed=True)
        try:
            # In a thread: loading a service's model takes up to a second.
            return _answer(
                await asyncio.to_thread(dry_run, operation, params.arguments or {})
            )
        except (TypeError, ValueError) as problem:
            return _answer(str(problem), failed=True)

    return Server(
        "aws-catalogue",
        version=version("botocore"),
        title="Amazon Web Services, dry run",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _answer(text: str, *, failed: bool = False) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)], is_error=failed
    )


async def serve(tools: Sequence[Mapping[str, Any]]) -> None:
    server = build_server(tools)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    parser = argparse.ArgumentParser(
        description="AWS operations as MCP tools; calls are dry runs."
    )
    parser.add_argument("services", nargs="*", help="service names, or `all`")
    asked = parser.parse_args().services
    if asked == ["all"]:
        asked = _session().get_available_services()
    elif unknown := sorted(
        set(asked) - set(_session().get_available_services()) if asked else ()
    ):
        parser.error(f"no such service: {', '.join(unknown)}")
    asyncio.run(serve(catalogue(asked or SERVICES)))


if __name__ == "__main__":
    main()
