"""Find the files that a command names: scripts, modules, configurations, and manifests that launchers read.

Consent to `python server.py` covers that `server.py`. Commands name files in more ways than can be listed (`-um
server`, `node ./server`, `server:app`, `NODE_OPTIONS=--require ./hook`, `"$PWD/run.sh"`). Therefore every word of a
command is tried as a file of that name, with any ending, and as a module. Files that these files load are not followed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mcpagent.config.bounded_files import open_regular
from mcpagent.config.user_folders import project_folders
from mcpagent.text.globs import fits
from mcpagent.trust.launches import Launch

MOST_FILE_BYTES = 128_000_000
MOST_BYTES = 256_000_000
"""Of one file, and of all that one command names; they are read in pieces of a megabyte."""

MOST_NAMES = 2_000
MOST_FOLDERS = 16
_PIECE = 1_000_000

_BREAKS = re.compile(r"""[\s;|&<>()"'`$=,:{}\[\]@!]+""")
_SPACES = re.compile(r"\s+")
_QUOTES = str.maketrans("", "", "'\"\\")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_PACKAGE = re.compile(r"(?:@[\w.-]+/)?[A-Za-z0-9][\w.-]*")
_ENTRIES = ("__init__", "__main__", "index", "main", "mod")
"""Stems of the files that are run or loaded by the name of their folder."""

_OF_A_FOLDER = ("pyproject.toml", "package.json", "go.mod", "Dockerfile", ".dockerignore")
_CODE = re.compile(
    r"\.(?:py[cdwi]?|so(?:\.\d+)*|pth|[mc]?[jt]s|[jt]sx|wasm|node|rb|p[lm]|php|lua|sh|bash|zsh|go|rs|java|kt|scala|class"
    r"|jar|cs|fs|vb|exe|dll|dylib|swift|r|jl|exs?|erl|beam|ml|hs|clj|groovy|ps1|bat|cmd|nix)\Z",
    re.IGNORECASE,
)
"""What runs if a folder is named is code right in it, or the entry of a package in it: `python .`, `node .`,
`go run .`, `PYTHONPATH=lib`, `java -cp classes`, `ruby -I lib`."""

MOST_ENTRIES = 2_000
"""Of a folder that are looked at."""

_NPM = ("package.json", ".npmrc", ".yarnrc.yml", "bunfig.toml")
_PYTHON = ("pyproject.toml", "uv.toml", ".python-version", "pixi.toml")
_COMPOSE = (
    *("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml", "Dockerfile", ".env"),
    *("compose.override.yaml", "compose.override.yml", "docker-compose.override.yaml", "docker-compose.override.yml"),
)
_MANIFESTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("npx", "npm", "pnpm", "pnpx", "yarn", "bun", "bunx"), _NPM),
    **dict.fromkeys(("uv", "poetry", "pdm", "hatch", "pixi", "rye"), _PYTHON),
    **dict.fromkeys(("compose", "docker-compose", "podman-compose"), _COMPOSE),
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("just",), ("justfile", "Justfile", ".justfile")),
    **dict.fromkeys(("deno",), ("deno.json", "deno.jsonc", "package.json")),
    **dict.fromkeys(("cargo",), ("Cargo.toml", ".cargo/config.toml", "build.rs", "src/main.rs")),
    **dict.fromkeys(("go",), ("go.mod", "go.work", "main.go")),
    **dict.fromkeys(("docker", "podman", "buildah"), ("Dockerfile", "Containerfile", ".dockerignore")),
    **dict.fromkeys(("rake",), ("Rakefile", "rakefile", "Rakefile.rb")),
    **dict.fromkeys(("bundle", "bundler"), ("Gemfile", ".bundle/config")),
    **dict.fromkeys(("task", "go-task"), ("Taskfile.yml", "Taskfile.yaml", "taskfile.yml", "taskfile.yaml")),
    **dict.fromkeys(("mise", "rtx"), ("mise.toml", ".mise.toml", ".tool-versions")),
    **dict.fromkeys(("nix", "nix-shell"), ("flake.nix", "default.nix", "shell.nix")),
    **dict.fromkeys(("mvn", "mvnw"), ("pom.xml", ".mvn/jvm.config", ".mvn/extensions.xml")),
    **dict.fromkeys(("gradle", "gradlew"), ("build.gradle", "build.gradle.kts", "settings.gradle")),
    **dict.fromkeys(("composer", "php"), ("composer.json", "php.ini")),
    **dict.fromkeys(("pipenv",), ("Pipfile",)),
    **dict.fromkeys(("pytest", "tox", "nox"), ("conftest.py", "pytest.ini", "tox.ini", "noxfile.py")),
    **dict.fromkeys(("fastmcp",), ("fastmcp.json",)),
    **dict.fromkeys(("dotnet",), ("Program.cs", "Directory.Build.props", "global.json")),
}
"""Launcher -> what it reads in the folder it runs in, and in those above it up to the project's top."""


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A regular file: its real path and the SHA-256 of its content."""

    path: str
    digest: str


@dataclass(slots=True)
class NamedFiles:
    """The files found, by path. `too_much` is the reason why some files were not read, "" if all were."""

    files: dict[str, NamedFile] = field(default_factory=dict[str, NamedFile])
    too_much: str = ""
    left: int = MOST_BYTES

    def take(self, path: Path) -> None:
        """Add the file if it exists and is not empty; an empty file has no more effect than a missing one."""
        try:
            real = os.path.realpath(path)
            if real in self.files or not os.path.isfile(real) or not os.path.getsize(real):
                return
            digest = self._digest(real)
        except (OSError, ValueError):
            digest = "cannot be read"
        self.files[real] = NamedFile(real, digest)

    def _digest(self, path: str) -> str:
        found, size = hashlib.sha256(), 0
        with open_regular(path) as file:
            while piece := file.read(_PIECE):
                size += len(piece)
                self.left -= len(piece)
                if size > MOST_FILE_BYTES or self.left < 0:
                    self.too_much = f"{path} is more than what is read of the files that a command names"
                    return "not read to its end"
                found.update(piece)
        return found.hexdigest()


def named_files(launch: Launch, declared: Iterable[str], origin: Path) -> NamedFiles:
    """Find the files named by the command, its arguments and the declared variables, relative to the folder it runs in.

    The program itself is included if it lies in a project: that of the folder `origin` or that of the folder it runs
    in. Programs installed on the machine are excluded, because updates change them.
    """
    folder = Path(launch.folder or os.curdir).absolute()
    above = project_folders(folder)
    found = NamedFiles()
    if any(_is_inside(launch.program, project) for project in (above[0], project_folders(origin)[0])):
        found.take(Path(launch.program))
    declared = list(declared)
    words = [*launch.arguments, *declared]
    if any(os.pathsep in value and "" in value.split(os.pathsep) for value in declared):
        words.append(".")  # which is what nothing means in a search path
    tokens = [token for word in words for token in _tokens(word)]
    home = launch.environment.get("HOME", "")
    written = [f"{home}{name[1:]}" if name.startswith("~/") else name for name in [*words, *tokens]]
    names = list(dict.fromkeys([*written, *_modules(tokens)]))
    if len(names) > MOST_NAMES:
        found.too_much = f"it names more than {MOST_NAMES:,} things"
        names = names[:MOST_NAMES]
    folders = list(dict.fromkeys([folder, *_folders(folder, written)]))[:MOST_FOLDERS]
    for base in folders:
        _take_named(found, base, names)
    for base in folders[1:] if "." not in names else folders:
        _take_code(found, base)
    for name in _manifests([launch.program, *tokens]):
        for base in dict.fromkeys([*above, *folders]):
            found.take(base / name)
    return found


def _is_inside(path: str, folder: Path) -> bool:
    """Return whether the path is inside the folder, as written or with links resolved."""
    forms = (os.path.normpath, os.path.realpath)
    return any(Path(form(path)).is_relative_to(form(folder)) for form in forms)


def _take_named(found: NamedFiles, base: Path, names: Sequence[str]) -> None:
    """Add the files of these names; for a name without a file, those that have it as their stem."""
    stems: dict[Path, set[str]] = {}
    for name in names:
        path = base / name
        try:
            if path.is_file():
                found.take(path)
                continue
        except (OSError, ValueError):  # not a name that a file can have
            continue
        if path.name and path.name != "..":
            stems.setdefault(path.parent, set()).add(path.name)
    for parent, wanted in stems.items():
        globs = [stem for stem in wanted if "*" in stem or "?" in stem]
        for entry in _entries(parent):
            is_stem = entry.partition(".")[0] in wanted or os.path.splitext(entry)[0] in wanted
            if is_stem or any(fits(entry, glob) for glob in globs):
                found.take(parent / entry)


def _take_code(found: NamedFiles, folder: Path) -> None:
    """Add the code in a named folder, and the entries of the packages in it."""
    for entry in _entries(folder):
        if entry in _OF_A_FOLDER or _CODE.search(entry):
            found.take(folder / entry)
        elif "." not in entry:
            for inner in _entries(folder / entry):
                if inner.partition(".")[0] in _ENTRIES:
                    found.take(folder / entry / inner)


def _entries(folder: Path) -> list[str]:
    """Return the names in a folder, sorted and at most `MOST_ENTRIES`; an empty list if it is no folder."""
    try:
        return sorted(os.listdir(folder))[:MOST_ENTRIES]
    except (OSError, ValueError):
        return []


def _folders(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    for name in names:
        try:
            if (folder / name).is_dir():
                yield Path(os.path.realpath(folder / name))
        except (OSError, ValueError):
            continue


def _tokens(word: str) -> Iterator[str]:
    """Yield the parts of a word that may be names.

    Examples: `--config=./x`, `bash -c "./x; y"`, `-r./x`, `a:b`, `"$PWD/x"`, `x""y`.
    """
    whole = word.translate(_QUOTES)
    for part in dict.fromkeys([*_BREAKS.split(word), *_SPACES.split(whole), *_BREAKS.split(whole)]):
        if part:
            yield part
        if part.startswith("-") and len(part) > 2 and part[1] != "-":
            yield from (part[:2], part[2:])
            yield from (part[place:] for place in range(3, min(len(part), 6)))  # -um server, -umserver
        if "/" in part:
            yield part.partition("/")[2].lstrip("/")  # behind a variable


def _modules(tokens: Sequence[str]) -> Iterator[str]:
    for token in tokens:
        for module in (token, token.replace("::", ".").replace("\\", ".")):
            if _MODULE.fullmatch(module):
                yield from _module_files(module.split("."))


def _module_files(steps: Sequence[str]) -> Iterator[str]:
    for depth in range(1, len(steps) + 1):
        inner = "/".join(steps[:depth])
        yield from (inner, f"{inner}/__init__", f"{inner}/__main__")


def _manifests(tokens: Sequence[str]) -> Iterator[str]:
    programs = {os.path.basename(token).lower().removesuffix(".exe").removesuffix(".cmd") for token in tokens}
    for program in sorted(programs & _MANIFESTS.keys()):
        yield from _MANIFESTS[program]
    if any(_MANIFESTS[program] is _PYTHON for program in programs & _MANIFESTS.keys()):
        for token in dict.fromkeys(tokens):
            if _PACKAGE.fullmatch(token):
                yield from (f".venv/bin/{token}", f".venv/Scripts/{token}.exe")
    if any(_MANIFESTS[program] is _NPM for program in programs & _MANIFESTS.keys()):
        for token in dict.fromkeys(tokens):  # what is installed in the project goes before what would be fetched
            if _PACKAGE.fullmatch(token):
                yield from (f"node_modules/.bin/{token}", f"node_modules/{token}/package.json")
