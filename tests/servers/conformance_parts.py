"""The tools, prompts and resources that the MCP project's conformance suites ask of a server, as four servers.

The names and texts are those that the scenarios' descriptions prescribe.
"""

from __future__ import annotations

import base64
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp_types import (
    AudioContent,
    ClientCapabilities,
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from tests.servers.everyday import PNG

from mcp import MCPError

IMAGE = ImageContent(type="image", data=base64.b64encode(PNG).decode(), mime_type="image/png")
WAV = base64.b64encode(b"RIFF$\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00@\x1f\x00\x00").decode()
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
DEFAULTS: dict[str, Any] = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
TITLED = [{"const": f"value{number}", "title": f"Title {number}"} for number in (1, 2, 3)]
PLAIN = ["option1", "option2", "option3"]
ENUMS: dict[str, Any] = {
    "untitledSingle": {"type": "string", "enum": PLAIN},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {"type": "string", "enum": PLAIN, "enumNames": ["Option 1", "Option 2", "Option 3"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": PLAIN}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}


def embedded(uri: str) -> EmbeddedResource:
    contents = TextResourceContents(uri=uri, mime_type="text/plain", text="This is an embedded resource content.")
    return EmbeddedResource(type="resource", resource=contents)


def text(words: str) -> TextContent:
    return TextContent(type="text", text=words)


def tools() -> MCPServer:
    server = MCPServer("tools", version="1.0", log_level="CRITICAL")

    @server.tool(structured_output=False)
    def test_simple_text() -> str:
        """Text."""
        return "This is a simple text response for testing."

    @server.tool(structured_output=False)
    def test_image_content() -> ImageContent:
        """An image."""
        return IMAGE

    @server.tool(structured_output=False)
    def test_audio_content() -> AudioContent:
        """A sound."""
        return AudioContent(type="audio", data=WAV, mime_type="audio/wav")

    @server.tool(structured_output=False)
    def test_embedded_resource() -> EmbeddedResource:
        """A resource in a result."""
        return embedded("test://embedded-resource")

    @server.tool(structured_output=False)
    def test_multiple_content_types() -> list[Any]:
        """Text, an image and a resource."""
        return [text("Multiple content types test:"), IMAGE, embedded("test://mixed-content-resource")]

    @server.tool(structured_output=False)
    def test_error_handling() -> str:
        """Fails."""
        raise ValueError("This tool intentionally returns an error for testing")

    @server.tool(structured_output=False)
    def json_schema_2020_12_tool() -> str:
        """A schema with the keywords of 2020-12."""
        return "done"

    server._tool_manager._tools["json_schema_2020_12_tool"].parameters = SCHEMA

    @server.tool(structured_output=False)
    async def test_missing_capability(context: Context) -> str:
        """Needs a client that samples."""
        can = context.session.client_capabilities
        if can is None or can.sampling is None:
            needs: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(code=-32021, message="Missing required client capability: sampling", data=needs)
        return "done"

    @server.tool(structured_output=False)
    def test_x_mcp_header(region: str = "") -> str:
        """Its argument is in a header, too."""
        return region

    headers = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    server._tool_manager._tools["test_x_mcp_header"].parameters = headers
    return server


def questions() -> MCPServer:
    server = MCPServer("questions", version="1.0", log_level="CRITICAL")

    @server.tool(structured_output=False)
    async def test_tool_with_logging(context: Context) -> str:
        """Logs."""
        for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await context.session.send_log_message(level="info", data=words, related_request_id=context.request_id)
        return "Tool with logging executed successfully"

    @server.tool(structured_output=False)
    async def test_tool_with_progress(context: Context) -> str:
        """Reports progress."""
        for step in (0, 50, 100):
            await context.report_progress(step, 100, f"Completed step {step} of 100")
        return "done"

    @server.tool(structured_output=False)
    async def test_sampling(prompt: str, context: Context) -> str:
        """Asks the model."""
        question = SamplingMessage(role="user", content=text(prompt))
        answer = await context.session.create_message([question], max_tokens=100, related_request_id=context.request_id)
        return f"LLM response: {getattr(answer.content, 'text', '')}"

    async def ask(context: Context, message: str, properties: dict[str, Any]) -> str:
        schema = {"type": "object", "properties": properties, "required": []}
        answer = await context.session.elicit_form(message, schema, related_request_id=context.request_id)
        return f"Elicitation completed: action={answer.action}, content={answer.content}"

    @server.tool(structured_output=False)
    async def test_elicitation(message: str, context: Context) -> str:
        """Asks the person."""
        fields = {"username": {"type": "string"}, "email": {"type": "string"}}
        return await ask(context, message, fields)

    @server.tool(structured_output=False)
    async def test_elicitation_sep1034_defaults(context: Context) -> str:
        """Asks with defaults."""
        return await ask(context, "Check these", DEFAULTS)

    @server.tool(structured_output=False)
    async def test_elicitation_sep1330_enums(context: Context) -> str:
        """Asks with choices."""
        return await ask(context, "Choose", ENUMS)

    return server


def the_rest() -> MCPServer:
    server = MCPServer("rest", version="1.0", log_level="CRITICAL")

    @server.resource("test://static-text", name="text", mime_type="text/plain")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", name="binary", mime_type="image/png")
    def static_binary() -> bytes:
        return PNG

    @server.resource("test://watched-resource", name="watched", mime_type="text/plain")
    def watched() -> str:
        return "Watched resource content"

    @server.resource("test://template/{id}/data", name="of an ID", mime_type="application/json")
    def of_id(id: str) -> str:  # noqa: A002 - the scenario's name
        return f'{{"id": "{id}", "templateTest": true, "data": "Data for ID: {id}"}}'

    @server.prompt()
    def test_simple_prompt() -> str:
        """A prompt."""
        return "This is a simple prompt for testing."

    @server.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """A prompt with arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803 - the scenario's name
        """A prompt with a resource."""
        return [UserMessage(embedded(resourceUri)), UserMessage("Please process the embedded resource above.")]

    @server.prompt()
    def test_prompt_with_image() -> list[UserMessage]:
        """A prompt with an image."""
        return [UserMessage(IMAGE), UserMessage("Please analyze the image above.")]

    @server.completion()  # type: ignore[no-untyped-call,untyped-decorator]
    async def complete(ref: Any, argument: Any, context: Any) -> Completion:
        return Completion(values=[], total=0, has_more=False)

    async def nothing(*_: Any) -> EmptyResult:
        return EmptyResult()

    low = server._lowlevel_server
    low.add_request_handler("resources/subscribe", SubscribeRequestParams, nothing)
    low.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, nothing)
    return server


def elicitation(message: str, field: str) -> ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": "string"}}, "required": [field]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling() -> CreateMessageRequest:
    question = SamplingMessage(role="user", content=text("What is the capital of France?"))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[question], max_tokens=100))


def requests_for(name: str, can: ClientCapabilities | None) -> dict[str, Any]:
    """The questions of each tool."""
    name_asked = {"user_name": elicitation("What is your name?", "name")}
    if name == "sampling":
        return {"capital_question": sampling()}
    if name == "list_roots":
        return {"client_roots": ListRootsRequest()}
    if name == "multiple_inputs":
        return {**name_asked, "greeting": sampling(), "client_roots": ListRootsRequest()}
    if name == "capabilities":
        asked = {"greeting": sampling()} if can is not None and can.sampling is not None else {}
        return asked | (name_asked if can is not None and can.elicitation is not None else {})
    return name_asked


ASKING_ONCE = (
    "elicitation",
    "sampling",
    "list_roots",
    "request_state",
    "multiple_inputs",
    "tampered_state",
    "capabilities",
)


def needed(state: str, **questions: Any) -> InputRequiredResult:
    return InputRequiredResult(input_requests=questions, request_state=state)


def asking(name: str) -> Any:
    async def ask(context: Context) -> str | InputRequiredResult:
        if context.input_responses:
            return f"{name}: state-ok {sorted(context.input_responses)}"
        asked = requests_for(name, context.session.client_capabilities)
        return InputRequiredResult(input_requests=asked, request_state="first")

    return ask


def rounds() -> MCPServer:
    """Questions as the revision of 2026 has them: a result that needs input."""
    server = MCPServer("rounds", version="1.0", log_level="CRITICAL")

    for name in ASKING_ONCE:
        tool = f"test_input_required_result_{name}"
        server.tool(name=tool, description=f"Asks: {name}.", structured_output=False)(asking(name))

    @server.tool(structured_output=False)
    async def test_input_required_result_multi_round(context: Context) -> str | InputRequiredResult:
        """Asks twice."""
        given = context.input_responses or {}
        if "step2" in given:
            return "both rounds are done"
        if "step1" in given:
            return needed("two", step2=elicitation("Step 2", "color"))
        return needed("one", step1=elicitation("Step 1", "name"))

    @server.prompt()
    async def test_input_required_result_prompt(context: Context) -> str | InputRequiredResult:
        """Asks before it answers."""
        if context.input_responses:
            return "with the context that was asked for"
        return needed("prompt", user_context=elicitation("Which context?", "context"))

    @server.tool(structured_output=False)
    async def test_streaming_elicitation(context: Context) -> str | InputRequiredResult:
        """Asks, on the stream of its answer."""
        if context.input_responses:
            return "done"
        return needed("streaming", name=elicitation("What is your name?", "name"))

    @server.tool(structured_output=False)
    async def test_logging_tool(context: Context) -> str:
        """Logs."""
        await context.info("working")
        return "done"

    return server
