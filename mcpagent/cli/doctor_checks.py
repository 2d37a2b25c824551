"""What `mcpagent doctor` looks at beside the servers: the model and its key, blank keys, files that others can read."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.options import Options
from mcpagent.config import state_folder, user_config_folder, user_data_folder
from mcpagent.errors import ConfigError, CredentialsError
from mcpagent.safe_text import safe_line

Level: TypeAlias = Literal["ok", "warning", "error", "fixed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `mend` says what to do, `fix` does it; `code` is the exit code where it is an error."""

    about: Literal["environment", "model", "key", "config", "files"]
    level: Level
    text: str
    mend: str = ""
    fix: Callable[[], None] | None = None
    code: ExitCode = ExitCode.OK

    def mended(self) -> Finding:
        """The same after its fix, where it has one and that works."""
        if self.fix is None:
            return self
        try:
            self.fix()
        except OSError as error:
            return replace(self, text=f"{self.text}; not fixed: {safe_line(str(error))}", fix=None)
        return replace(self, level="fixed", code=ExitCode.OK)

    def document(self) -> dict[str, Any]:
        return {"about": self.about, "level": self.level, "text": self.text, "mend": self.mend or None}


def model_finding(options: Options) -> Finding:
    """Which model answers, and where its key comes from; of the key only the last four characters."""
    from mcpagent.models.resolve import resolve_model

    spec = options.model or options.environ.get("MCPAGENT_MODEL", "").strip() or None
    try:
        model = resolve_model(spec, environ=options.environ)
    except CredentialsError as error:
        return Finding("model", "error", f"model {safe_line(spec or '', 80)}: {error}", code=ExitCode.CREDENTIALS)
    except ConfigError as error:
        return Finding("model", "error", str(error), code=ExitCode.CONFIG)
    name = safe_line(model.name, 80)
    if name.startswith("offline"):
        text = "model offline: rules, no language model" + ("" if spec else ", since no key is set")
        mend = (
            "" if spec else "export ANTHROPIC_API_KEY=..., or mcpagent keys set ANTHROPIC_API_KEY, or -m ollama:<model>"
        )
        return Finding("model", "ok" if spec else "warning", text, mend)
    return Finding("model", "ok", f"model {name}, {_key_source(spec or name, options.environ)}")


def _key_source(spec: str, environ: Mapping[str, str]) -> str:
    """`key from env ANTHROPIC_API_KEY (…x9Qa)`."""
    from mcpagent.models.resolve import PROVIDERS, parse_spec

    parsed = parse_spec(spec)
    named = parsed.options.get("api_key_env")
    variables = (named,) if named else PROVIDERS[parsed.prefix].key_variables
    if "base_url" in parsed.options and not named:
        return "no key"
    for place, source in (("env", _plain(environ)), ("keys set", environ)):
        for variable in variables:
            if (value := source.get(variable, "")).strip():
                return f"key from {place} {variable} ({last_four(value)})"
    return "no key"


def _plain(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment alone, without the keys that were set for us."""
    from mcpagent.secret_store import EnvironmentWithKeys

    return environ.environ if isinstance(environ, EnvironmentWithKeys) else environ


def last_four(key: str) -> str:
    """`…x9Qa`; of a short key nothing, since that would be most of it."""
    return f"…{safe_line(key[-4:], 4)}" if len(key) >= 16 else "…"


def key_findings(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Keys that are set and cannot be used: a blank one counts as none, which is easily missed."""
    from mcpagent.models.http_model import usable_key
    from mcpagent.models.resolve import PROVIDERS

    plain = _plain(environ)
    for variable in dict.fromkeys(name for provider in PROVIDERS.values() for name in provider.key_variables):
        if variable not in plain:
            continue
        if not plain[variable].strip():
            yield Finding(
                "key", "warning", f"{variable} is empty (set but blank)", f"unset {variable}, or give it a value"
            )
            continue
        try:
            usable_key(plain[variable], variable)
        except CredentialsError as error:
            yield Finding("key", "warning", str(error))


def settings_findings(options: Options, command: Any) -> Iterator[Finding]:
    """The `config.toml` files: what cannot be read and what is left out."""
    from mcpagent.cli.settings import read_settings, settable

    try:
        settings = read_settings(options.folder, options.environ, settable(command))
    except ConfigError as error:
        yield Finding("config", "error", str(error), "mend it: mcpagent config edit", code=ExitCode.CONFIG)
        return
    yield from (Finding("config", "warning", warning) for warning in settings.warnings)


def file_findings(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Files of this user that hold keys, conversations or decisions, and that others can read or write."""
    if sys.platform == "win32":
        return
    for path in _private_files(environ):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        others = mode & 0o077
        if others:
            verb = "can be changed by others" if others & 0o022 else "can be read by others"
            wanted = mode & 0o700
            yield Finding(
                "files",
                "warning",
                f"{path} {verb} (mode {mode:04o})",
                f"chmod {wanted:o} {path}",
                fix=_changer(path, wanted),
            )


def _private_files(environ: Mapping[str, str]) -> Iterator[Path]:
    yield user_config_folder(environ) / "mcp.json"
    state = state_folder(environ)
    yield from (state / name for name in ("trust.json", "approvals.json", "history"))
    for folder in (user_data_folder(environ) / "keys", user_data_folder(environ) / "tokens"):
        yield folder
        yield from sorted(folder.glob("*.json"))


def _changer(path: Path, mode: int) -> Callable[[], None]:
    def change() -> None:
        os.chmod(path, mode)

    return change
