#!/usr/bin/env bash
# Make .venv with everything that `make demo` (run), `make quick` (dev) or `make test` (test) needs, on a machine that has only Python, git and make.
# Missing system packages are installed with apt-get when that is possible, otherwise the exact command is printed.
set -euo pipefail
cd "$(dirname "$0")/.."

kind=${1:-run}
venv=.venv

say() { printf 'setup: %s\n' "$*" >&2; }

need_packages() {
    local command="apt-get install -y --no-install-recommends $*"
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        say "installing missing system packages: $*"
        { apt-get install -y --no-install-recommends "$@" || { apt-get update && apt-get install -y --no-install-recommends "$@"; }; } >&2
    else
        say "missing on this system: $*"
        say "install it and run make again. On Debian or Ubuntu:  sudo $command"
        exit 3
    fi
}

new_enough() { "$1" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null && new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    say "Python 3.11 or newer is needed; found: $(python3 --version 2>&1 || echo none). Set PYTHON=/path/to/python3 if it is elsewhere."
    exit 3
}

check_git() {
    command -v git >/dev/null || need_packages git
    # merge-tree --write-tree, with which changesets are built in the object store, came with git 2.38
    if [ "$(printf '%s\n2.38\n' "$(git --version | awk '{print $3}')" | sort -V | head -n 1)" != 2.38 ]; then
        say "git 2.38 or newer is needed; found $(git --version)"
        exit 3
    fi
}

check_sandbox() {
    # agents run behind bubblewrap on Linux; a session refuses to start without it (docs/reference/attacks.md)
    [ "$(uname -s)" != Linux ] || command -v bwrap >/dev/null || need_packages bubblewrap
}

want_programs() {
    # tests of optional parts need them, and are skipped without: a parser for code maps, a server for the Redis mirror
    local missing=()
    command -v ctags >/dev/null || missing+=(universal-ctags)
    command -v redis-server >/dev/null || missing+=(redis-server)
    [ ${#missing[@]} -eq 0 ] && return
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        # no service is started: tests start their own
        RUNLEVEL=1 need_packages "${missing[@]}" || say "tests that need ${missing[*]} are skipped"
    else
        say "tests that need ${missing[*]} are skipped; on Debian or Ubuntu:  sudo apt-get install ${missing[*]}"
    fi
}

make_venv() {
    [ -x "$venv/bin/python" ] && new_enough "$venv/bin/python" && return
    rm -rf "$venv"
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        need_packages "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    fi
    say "making $venv with $python"
    "$python" -m venv "$venv"
}

install() {
    local stamp="$venv/.installed-$1" wanted
    wanted=$(cksum <pyproject.toml)
    if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
        say "installing $2 (first time: about a minute)"
        # to compile all of it takes a third of the time
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile -e "$2"
        compile_commands
        printf '%s' "$wanted" >"$stamp"
    fi
}

# What a session imports: where PYTHONDONTWRITEBYTECODE is set, each command would compile it again, for half a second.
compile_commands() {
    env -u PYTHONDONTWRITEBYTECODE "$venv/bin/python" -m compileall -q -j 0 -x /plugin/ src  # a plugin's files are copied as they are
    env -u PYTHONDONTWRITEBYTECODE "$venv/bin/python" -c 'import blueflame.cli.commands.run, blueflame.cli.foreground, pathspec'
}

check_git
[ "$kind" = dev ] || check_sandbox
[ "$kind" != test ] || want_programs
python=$(find_python)
make_venv
case $kind in
    run) [ -f "$venv/.installed-dev" ] || install run . ;;
    dev | test) install dev '.[dev]' ;;
    *)   say "unknown kind '$kind': run, dev or test"; exit 2 ;;
esac
