#compdef mcpagent
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
