"""The environment of a started server: what it needs to run, and what is declared."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mcpagent.config import ServerConfig
from mcpagent.errors import ServerError
from mcpagent.mcp.server_link import ServerLink

PLANTED = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GH_TOKEN"),
    *("GITHUB_TOKEN", "GITLAB_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "NPM_TOKEN"),
    *("AZURE_CLIENT_SECRET", "DATABASE_URL", "PGPASSWORD", "MYSQL_PWD", "REDIS_URL", "SLACK_TOKEN", "STRIPE_API_KEY"),
    *("HF_TOKEN", "PYPI_TOKEN", "TWINE_PASSWORD", "DOCKER_AUTH_CONFIG", "KUBECONFIG", "SSH_AUTH_SOCK", "VAULT_TOKEN"),
    *(
        "SENTRY_DSN",
        "MCPAGENT_CLIENT_SECRET",
        "OPENROUTER_API_KEY",
        "COHERE_API_KEY",
        "MISTRAL_API_KEY",
        "CI_JOB_TOKEN",
    ),
    *("JIRA_API_TOKEN", "LINEAR_API_KEY", "NOTION_TOKEN", "SENDGRID_API_KEY", "TWILIO_AUTH_TOKEN", "GPG_PASSPHRASE"),
    *("HTTP_PROXY_PASSWORD", "PRIVATE_KEY"),
)


async def test_t6_a_server_sees_of_our_environment_what_it_needs_to_run_and_what_is_declared(tmp_path: Path) -> None:
    seen = tmp_path / "seen.json"
    program = f"import json, os; json.dump(dict(os.environ), open({str(seen)!r}, 'w'))"
    declared = {"DECLARED_TOKEN": "given", "GITHUB_TOKEN": "its own"}
    config = ServerConfig("curious", command=sys.executable, args=("-c", program), env=declared)
    ours = {"PATH": "/usr/bin:/bin", "HOME": "/home/me", "LANG": "C.UTF-8", "() { :; }": "x", "TZ": "() { :; }; id"}
    planted = {name: f"planted in {name}" for name in PLANTED}
    assert len(planted) == 40
    with pytest.raises(ServerError):
        await ServerLink(config, environ={**ours, **planted}).__aenter__()
    found = json.loads(seen.read_text("utf-8"))
    assert not [name for name, value in found.items() if value.startswith("planted in")]
    assert {name: found[name] for name in declared} == declared
    assert (found["PATH"], found["HOME"]) == (ours["PATH"], ours["HOME"])
    assert "TZ" not in found
