# mcpagent completion for bash: eval "$(mcpagent completion bash)" in ~/.bashrc
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
