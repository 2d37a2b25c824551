"""`mcpagent docs`: its commands and their options; the implementation is loaded on demand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mcpagent.cli.common import options as opt

docs_app = typer.Typer(
    help="Documents: index, search, show and remove them.", **opt.PLAIN
)

Limit = Annotated[
    int, typer.Option("-k", "--limit", metavar="N", min=1, max=1_000, help="At most.")
]
Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Its path, address, or a part of its name."),
]

_OPTIONS = ("docs_db", *opt.REPORT)


@opt.command(docs_app, "add", _OPTIONS)
def docs_add(
    options: opt.Options,
    named: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH|URL", help="Files, folders and addresses of pages."
        ),
    ],
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Also index later changes, until Ctrl-C."),
    ] = False,
) -> int:
    """Index documents; unchanged ones are not read again. Exit code 1: one could not be read."""
    from mcpagent.cli.documents_command.adding_documents import add_documents

    return add_documents(options, named, follow=follow)


@opt.command(docs_app, "search", _OPTIONS)
def docs_search(
    options: opt.Options,
    query: Annotated[list[str], typer.Argument(metavar="QUERY", help="The question.")],
    limit: Limit = 5,
    explain: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Report the rank in each ranking."),
    ] = False,
) -> int:
    """Search as agents do. Exit code 1: no match."""
    from mcpagent.cli.documents_command.documents_shown import search_documents

    return search_documents(options, " ".join(query), limit, explain=explain)


@opt.command(docs_app, "list", _OPTIONS)
def docs_list(
    options: opt.Options,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Only those with this in their names."),
    ] = None,
    limit: Limit = 50,
) -> int:
    """List the documents: title, kind, address."""
    from mcpagent.cli.documents_command.documents_shown import list_documents

    return list_documents(options, name, limit)


@opt.command(docs_app, "show", _OPTIONS)
def docs_show(options: opt.Options, name: Name) -> int:
    """Show a document: its facts, and its text with sections and pages."""
    from mcpagent.cli.documents_command.documents_shown import show_document

    return show_document(options, name)


@opt.command(docs_app, "remove", _OPTIONS)
def docs_remove(
    options: opt.Options,
    names: Annotated[
        list[str],
        typer.Argument(metavar="PATH|URL", help="Documents, or folders of them."),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Without a question.")] = False,
) -> int:
    """Remove documents from the store, after a question. The files stay."""
    from mcpagent.cli.documents_command.adding_documents import remove_documents

    return remove_documents(options, names, yes=yes)


@opt.command(docs_app, "stats", _OPTIONS)
def docs_stats(options: opt.Options) -> int:
    """Count documents, chunks and vectors, and show the size of the store."""
    from mcpagent.cli.documents_command.documents_shown import show_statistics

    return show_statistics(options)


@opt.command(docs_app, "eval", _OPTIONS)
def docs_eval(
    options: opt.Options,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help='JSON lines of {"question": "...", "uri": "FILE or address", "section": "a heading"}.',
        ),
    ],
    limit: Annotated[
        int,
        typer.Option(
            "-k", "--limit", metavar="N", min=1, max=50, help="Places that count."
        ),
    ] = 5,
    least: Annotated[
        float,
        typer.Argument(
            metavar="SHARE",
            min=0,
            max=1,
            help="Exit code 1 below this recall of documents.",
        ),
    ] = 0.0,
) -> int:
    """Measure the recall of your own questions: is the right document among the first?"""
    from mcpagent.cli.documents_command.documents_shown import evaluate_documents

    return evaluate_documents(options, file, limit, least)
