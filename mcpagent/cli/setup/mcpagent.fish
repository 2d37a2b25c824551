# mcpagent completion for fish: mcpagent completion fish > ~/.config/fish/completions/mcpagent.fish
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
