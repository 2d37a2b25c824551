"""`mcpagent completion`: the script for a shell, and what that script asks for at each press of the key.

Each script hands the words over as they are and takes lines back; nothing that a server named is ever evaluated.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mcpagent.cli.candidates import Candidate, candidates, plain_names
from mcpagent.cli.exit_codes import ExitCode
from mcpagent.cli.options import Options, Shell
from mcpagent.errors import McpAgentError

if TYPE_CHECKING:
    from mcpagent.config import ServerConfig
    from mcpagent.messages import ToolDefinition

BASH = r"""# mcpagent completion for bash: eval "$(mcpagent completion bash)" in ~/.bashrc
_mcpagent() {
    local line="${COMP_LINE:0:COMP_POINT}" word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <(command mcpagent completion bash --complete -- "$line" "$COMP_WORDBREAKS" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *[=:] ]] && compopt -o nospace
    return 0
}
complete -o default -F _mcpagent mcpagent
"""

ZSH = r"""#compdef mcpagent
# mcpagent completion for zsh: eval "$(mcpagent completion zsh)" in ~/.zshrc, after compinit
_mcpagent() {
    local line
    local -a values shown
    while IFS= read -r line; do
        values+=("${line%%$'\t'*}")
        shown+=("${line/$'\t'/  -- }")
    done < <(command mcpagent completion zsh --complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#values} )); then
        compadd -l -d shown -a values
    else
        _files
    fi
}
if [[ "${funcstack[1]}" == _mcpagent ]]; then
    _mcpagent "$@"
else
    compdef _mcpagent mcpagent
fi
"""

FISH = r"""# mcpagent completion for fish: mcpagent completion fish > ~/.config/fish/completions/mcpagent.fish
function __mcpagent_complete
    set -l words (commandline -opc)[2..-1]
    set -l found (command mcpagent completion fish --complete -- $words (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        string join \n -- $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c mcpagent -f -a '(__mcpagent_complete)'
"""

PWSH = r"""# mcpagent completion for PowerShell: mcpagent completion pwsh | Out-String | Invoke-Expression, in $PROFILE
Register-ArgumentCompleter -Native -CommandName mcpagent -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 |
        Where-Object { $_.Extent.EndOffset -lt $cursorPosition -or $wordToComplete -eq '' } |
        ForEach-Object { if ($_.PSObject.Properties['Value']) { [string]$_.Value } else { $_.Extent.Text } })
    $last = if ($wordToComplete -eq '') { '--blank' } else { '--complete' }
    $given = if ($wordToComplete -eq '') { $words } else { $words + $wordToComplete }
    mcpagent completion pwsh $last -- @given 2>$null | ForEach-Object {
        $value, $about = $_ -split "`t", 2
        if (-not $about) { $about = $value }
        [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $about)
    }
}
"""

SCRIPTS = {Shell.bash: BASH, Shell.zsh: ZSH, Shell.fish: FISH, Shell.pwsh: PWSH}


def print_script(shell: Shell) -> ExitCode:
    """The script on stdout, to be evaluated or kept by the shell."""
    sys.stdout.write(SCRIPTS[shell])
    return ExitCode.OK


def print_candidates(request: Sequence[str], command: Any) -> ExitCode:
    """What a script asks for: `SHELL --complete -- WORDS`, of which the last one is open (`--blank`: an empty one is).

    One candidate a line, with what it is after a tab. bash gives the line and its word breaks instead of words, and
    gets what is still to be typed.
    """
    shell, *flags = request[: request.index("--")]
    words = list(request[request.index("--") + 1 :])
    breaks = ""
    if shell == Shell.bash:
        line, breaks = (*words, "", "")[:2]
        words = split_line(line)
    if "--blank" in flags or not words:
        words.append("")
    found = candidates(words[:-1], words[-1], command, KnownNames(Options()))
    if shell == Shell.bash:
        done = _already_there(words[-1], breaks)
        lines = [shlex.quote(item.word)[done:] if done else shlex.quote(item.word) for item in found]
    else:
        lines = [f"{item.word}\t{item.about}" if item.about else item.word for item in found]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return ExitCode.OK


def split_line(line: str) -> list[str]:
    """The words behind the command, the last one open: empty after a space, its quote maybe not closed yet."""
    for closing in ("", "'", '"'):
        try:
            words = shlex.split(line + closing)
        except ValueError:
            continue
        return [*words[1:], ""] if not closing and line[-1:].isspace() else words[1:]
    return []


def _already_there(open_word: str, breaks: str) -> int:
    """How much of the word bash takes for words before it: it breaks them at `:` and `=` too."""
    return max((open_word.rfind(mark) + 1 for mark in ":=" if mark in breaks), default=0)


class KnownNames:
    """Servers from the configuration and tools from the cache; nothing is started, what cannot be read is left out."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def servers(self) -> Iterable[Candidate]:
        known = self._configured
        return plain_names((server.name, server.description or server.command or server.url) for server in known)

    def tools(self) -> Iterable[Candidate]:
        return plain_names((f"{tool.server}.{tool.original_name}", tool.description) for tool in self._listed)

    def parameters(self, tool: str) -> Iterable[Candidate]:
        named = (item for item in self._listed if tool in (f"{item.server}.{item.original_name}", item.original_name))
        properties = next((item.parameters.get("properties") for item in named), None)
        texts = [(str(name), _description(schema)) for name, schema in properties.items()] if properties else []
        return [Candidate(f"{item.word}=", item.about) for item in plain_names(texts)]

    @cached_property
    def _configured(self) -> tuple[ServerConfig, ...]:
        from mcpagent.cli.configuration import load_configuration

        try:
            found = load_configuration(self._options).servers
        except (McpAgentError, OSError):
            return ()
        from mcpagent.config import ServerConfig

        return (*found.servers, *(ServerConfig(problem.name) for problem in found.problems))

    @cached_property
    def _listed(self) -> list[ToolDefinition]:
        from mcpagent.cli.folders import cache_folder
        from mcpagent.mcp.cache import ListCache

        cache = ListCache(cache_folder(self._options.environ) / "catalog")
        lists = [cache.load(server) for server in self._configured if not server.disabled]
        return [tool for cached in lists if cached is not None for tool in cached.lists.tools]


def _description(schema: object) -> str:
    return str(schema.get("description") or "") if isinstance(schema, dict) else ""
