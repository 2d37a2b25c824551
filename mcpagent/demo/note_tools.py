"""Notes and a todo list, stored in the memory of the server process."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from mcpagent.demo import DemoToolError

_MOST = 1000
Title = Annotated[
    str, Field(description="Title of the note", min_length=1, max_length=200)
]


@dataclass
class _Todo:
    id: int
    task: str
    priority: str
    done: bool = False


_notes: dict[str, str] = {}
_todos: list[_Todo] = []


def _note_title(title: str) -> str:
    found = next(
        (known for known in _notes if known.casefold() == title.strip().casefold()),
        None,
    )
    if found is None:
        raise DemoToolError(
            f"no note {title!r}; there is {', '.join(_notes) or 'none yet'}"[:500]
        )
    return found


def add_note(
    text: Annotated[
        str, Field(description="What to write down", min_length=1, max_length=20_000)
    ],
    title: Annotated[
        str,
        Field(
            description="Title of the note; empty takes its first words", max_length=200
        ),
    ] = "",
) -> str:
    """Write down a note to remember; it is kept until the server stops."""
    if len(_notes) >= _MOST:
        raise DemoToolError(f"there are {_MOST} notes already; delete_note first")
    name = title.strip() or " ".join(text.split()[:5])
    _notes[name] = text
    return f"Noted as {name!r}."


def list_notes() -> list[str]:
    """List the titles of all notes."""
    return list(_notes)


def read_note(title: Title) -> str:
    """Read one note."""
    return _notes[_note_title(title)]


def search_notes(
    query: Annotated[str, Field(description="Words to look for")],
) -> dict[str, str]:
    """Search the notes for words."""
    words = query.casefold().split()
    return {
        title: text
        for title, text in _notes.items()
        if all(word in f"{title} {text}".casefold() for word in words)
    }


def delete_note(title: Title) -> str:
    """Delete one note."""
    name = _note_title(title)
    del _notes[name]
    return f"Deleted note {name!r}."


def _find_todo(task: str) -> _Todo:
    wanted = task.strip().casefold().lstrip("#")
    exact = [todo for todo in _todos if wanted in (str(todo.id), todo.task.casefold())]
    near = exact or [
        todo for todo in _todos if wanted and wanted in todo.task.casefold()
    ]
    if len(near) != 1:
        raise DemoToolError(
            f"{len(near)} todo entries match {task!r}; give the number that list_todos shows"
        )
    return near[0]


Task = Annotated[
    str,
    Field(description="The task's text or its number", min_length=1, max_length=500),
]


def add_todo(
    task: Annotated[
        str, Field(description="What is to be done", min_length=1, max_length=500)
    ],
    priority: Annotated[
        Literal["low", "normal", "high"], Field(description="How important it is")
    ] = "normal",
) -> str:
    """Add a task to the todo list."""
    if len(_todos) >= _MOST:
        raise DemoToolError(f"there are {_MOST} tasks already; delete_todo first")
    todo = _Todo(
        max((known.id for known in _todos), default=0) + 1, task.strip(), priority
    )
    _todos.append(todo)
    return f"Added task {todo.id}: {todo.task}"


def list_todos(
    status: Annotated[
        Literal["open", "done", "all"], Field(description="Which tasks to list")
    ] = "open",
) -> list[dict[str, Any]]:
    """List the tasks of the todo list."""
    return [
        asdict(todo)
        for todo in _todos
        if status == "all" or todo.done == (status == "done")
    ]


def complete_todo(task: Task) -> str:
    """Mark a task of the todo list as done."""
    todo = _find_todo(task)
    todo.done = True
    return f"Done: {todo.task}"


def delete_todo(task: Task) -> str:
    """Delete a task from the todo list."""
    todo = _find_todo(task)
    _todos.remove(todo)
    return f"Deleted task {todo.id}: {todo.task}"


DELETING = (delete_note, delete_todo)
WRITING = (add_note, add_todo, complete_todo, *DELETING)
