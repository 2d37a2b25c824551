"""`mcpagent doctor|config|completion`: their options. Each only gathers values; what it does is loaded when it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from mcpagent.cli import options as opt


def doctor(
    model: opt.Model = None,
    config: opt.Config = None,
    server: opt.Server = None,
    trust_project: opt.TrustProject = False,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what needs no question: who can read your files.")] = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
    color: opt.Color = opt.ColorMode.auto,
) -> int:
    """Looks whether everything works: model, keys, files, servers. Exit code 5: a required server, or all, failed."""
    from mcpagent.cli.doctor import run_doctor

    options = opt.server_options(config, server, json, debug, color, trust_project=trust_project)
    return run_doctor(replace(options, model=model), fix=fix)
