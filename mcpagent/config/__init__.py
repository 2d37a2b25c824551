"""Read server configuration: the `mcpServers` JSON that MCP clients share.

A single broken server becomes a `ServerProblem`, and the other servers still load. A mistake in the file itself raises
a `ConfigError` with file, line, column and the fix. No function here starts a program or opens a connection.
"""

from __future__ import annotations

from mcpagent.config.server_config import (
    Era,
    LogLevel,
    McpServer,
    ServerConfig,
    ServerProblem,
    ServersConfig,
    ServersSource,
    SignInConfig,
    TransportName,
    tool_prefix,
)
from mcpagent.config.server_files import (
    find_config_files,
    load_found_servers,
    load_named_servers,
    load_servers,
)
from mcpagent.utilities.filesystem.user_folders import (
    cache_folder,
    state_folder,
    user_config_folder,
    user_data_folder,
)

__all__ = [
    "Era",
    "LogLevel",
    "McpServer",
    "ServerConfig",
    "ServerProblem",
    "ServersConfig",
    "ServersSource",
    "SignInConfig",
    "TransportName",
    "cache_folder",
    "find_config_files",
    "load_found_servers",
    "load_named_servers",
    "load_servers",
    "state_folder",
    "tool_prefix",
    "user_config_folder",
    "user_data_folder",
]
