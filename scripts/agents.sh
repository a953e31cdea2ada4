#!/usr/bin/env bash
# Install the agents that `make test-agents` drives for real, into .agents/, by npm and in the very versions that are relied on.
set -euo pipefail
cd "$(dirname "$0")/.."

place=.agents
packages=(
    @openai/codex@0.166.0
    @google/gemini-cli@0.61.0
    opencode-ai@1.18.33
    @agentclientprotocol/claude-agent-acp@0.49.0 # later ones want a newer node
)

say() { printf 'agents: %s\n' "$*" >&2; }

command -v npm >/dev/null || { say "npm is needed: install Node.js 20 or newer, which brings it"; exit 3; }

wanted=$(printf '%s\n' "${packages[@]}")
if [ "$(cat "$place/.installed" 2>/dev/null)" != "$wanted" ]; then
    say "installing ${packages[*]} (about a gigabyte)"
    rm -rf "$place"
    mkdir -p "$place"
    # no install scripts: the programs come in packages of their own, and nothing else of them is needed
    npm install --prefix "$place" --no-fund --no-audit --ignore-scripts --loglevel error "${packages[@]}" >&2
    printf '%s' "$wanted" >"$place/.installed"
fi
