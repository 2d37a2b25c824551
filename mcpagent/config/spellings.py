"""The keys of a server's entry, with the spellings of other MCP clients."""

from __future__ import annotations

from collections.abc import Mapping

from mcpagent.config.server_config import TransportName

KEYS: Mapping[str, tuple[str, ...]] = {
    "command": ("command", "cmd"),
    "args": ("args",),
    "env": ("env", "envs"),
    "env_file": ("env_file", "envFile"),
    "cwd": ("cwd", "working_dir", "workingDirectory"),
    "url": ("url", "serverUrl", "httpUrl", "endpoint"),
    "headers": ("headers", "http_headers", "requestOptions"),
    "transport": ("transport", "type", "protocol", "transportType"),
    "disabled": ("disabled",),
    "enabled": ("enabled",),
    "connect_timeout_seconds": (
        "connect_timeout_seconds",
        "startupTimeout",
        "startup_timeout_sec",
        "initTimeout",
    ),
    "timeout_seconds": (
        "timeout_seconds",
        "toolTimeout",
        "tool_timeout_sec",
        "call_timeout",
    ),
    "timeout": ("timeout",),
    "total_timeout_seconds": ("total_timeout_seconds", "totalTimeout"),
    "shutdown_seconds": ("shutdown_seconds", "shutdownTimeout"),
    "keeps_running": ("keeps_running", "keepsRunning"),
    "description": ("description",),
    "required": ("required",),
    "enabled_tools": (
        "enabled_tools",
        "enabledTools",
        "allowedTools",
        "allowed_tools",
        "includeTools",
    ),
    "disabled_tools": (
        "disabled_tools",
        "disabledTools",
        "excludedTools",
        "excluded_tools",
        "excludeTools",
    ),
    "always_load": ("always_load", "alwaysLoad"),
    "eager": ("eager",),
    "safe_to_repeat": ("safe_to_repeat", "safeToRepeat"),
    "trust_hints": ("trust_hints", "trustHints", "trust"),
    "approval": ("approval",),
    "max_message_bytes": ("max_message_bytes", "maxMessageBytes"),
    "large_result_tokens": ("large_result_tokens", "largeResultTokens"),
    "allowed_callers": ("allowed_callers", "allowedCallers"),
    "log_level": ("log_level", "logLevel"),
    "elicitation": ("elicitation",),
    "sampling": ("sampling",),
    "roots": ("roots",),
    "sign_in": ("sign_in", "auth", "oauth"),
    "openapi": ("openapi",),
    "credentials": ("credentials",),
    "era": ("era", "protocol_era", "protocolEra"),
}
"""mcpagent's key -> the spellings of other clients."""

KEY_OF_SPELLING = {
    spelling: key for key, spellings in KEYS.items() for spelling in spellings
}
SECONDS_KEYS = (
    "connect_timeout_seconds",
    "timeout_seconds",
    "total_timeout_seconds",
    "shutdown_seconds",
)
TRANSPORTS: Mapping[str, TransportName] = {
    "auto": "auto",
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
    "sse": "sse",
    "remote": "auto",
}
