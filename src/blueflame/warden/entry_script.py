"""The first program inside the sandbox: a shell script that runs nothing until the warden sends "go".

bubblewrap killed within its first milliseconds leaves its payload running as an orphan (bubblewrap #633, #700). So the
payload is this script, which waits on descriptor 9, a socket to the warden: "ready" out, "go" in. If the warden or
bubblewrap died before that, the script reads an end of file and exits with 125. The warden sends "go" after it has
seen bubblewrap alive, and from then on the death of bubblewrap ends everything inside.

With a hook, the canary comes first: a call that the watcher must refuse. Only then "passed" goes to the warden, so that
an agent that exits with 126 is not mistaken for a watcher that fails.
"""

from __future__ import annotations

CONTROL_FD = 9  # the script's end of the socket to the warden
SECCOMP_FD = 10  # the seccomp program, read and closed by bubblewrap
READY, GO, PASSED = b"ready\n", b"go\n", b"passed\n"
EXIT_CANARY_FAILED = 126
SCRIPT_NAME = "blueflame-entry"

# Arguments: the hook ("" for none), "terminal" or "", then the program with its arguments. Neither descriptor 9 nor the
# canary's pipe stays open for the agent; its stdin is not touched.
ENTRY_SCRIPT = """\
hook=$1 terminal=$2; shift 2
command -v "$1" >/dev/null || { printf 'cannot run %s: no such program in the sandbox\\n' "$1" >&2; exit 127; }
printf 'ready\\n' >&9 && IFS= read -r word <&9 && [ "$word" = go ] || exit 125
if [ -n "$hook" ]; then
  printf '%s' '{"hook_event_name":"PreToolUse","tool_name":"BlueflameCanary","tool_input":{},"cwd":"/"}' |
    "$hook" >/dev/null 9>&-
  [ $? -eq 2 ] || { printf 'the canary call was not refused by the watcher\\n' >&2; exit 126; }
  printf 'passed\\n' >&9 || exit 125
fi
exec 9>&-
# a new session with the terminal: Ctrl-C reaches it. The session that bubblewrap makes is led by bubblewrap.
[ -n "$terminal" ] && command -v setsid >/dev/null && set -- setsid -c "$@"
unset hook terminal word
exec "$@"
"""


def build_entry_command(argv: list[str], hook: str, *, terminal: bool = False) -> list[str]:
    """Build the command that runs `argv` behind the entry script. `terminal`: its stdin becomes its own terminal."""
    return ["/bin/sh", "-c", ENTRY_SCRIPT, SCRIPT_NAME, hook, "terminal" if terminal else "", *argv]
