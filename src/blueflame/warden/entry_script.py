"""The first program inside the box: a few lines of shell that run nothing until the warden says "go".

bubblewrap killed within its first milliseconds leaves its payload running as an orphan (bubblewrap #633, #700). So the
payload is this entry, and it waits on file 9, a socket to the warden: "ready" out, "go" in. Whoever was killed before
that, the entry reads an end of file and leaves with 125. When "go" comes, the warden has seen bubblewrap alive after
"ready", and by then bubblewrap's death takes everything inside along.

With a hook, the canary comes first: a call that the watcher must refuse. Only then "passed" is told to the warden, so
that an agent's own exit code 126 cannot be mistaken for a watcher that does not bite.
"""

from __future__ import annotations

CONTROL_FD = 9  # the entry's end of the socket to the warden
SECCOMP_FD = 10  # the seccomp program, read and closed by bubblewrap
READY, GO, PASSED = b"ready\n", b"go\n", b"passed\n"
EXIT_NO_GO, EXIT_CANARY_FAILED, EXIT_NO_PROGRAM = 125, 126, 127
SCRIPT_NAME = "blueflame-entry"

# The words after NAME: the hook ("" for none), "terminal" or "", then the program with its arguments. Neither 9 nor the
# canary's pipe is left open for the agent; its stdin is not touched.
ENTRY_SCRIPT = """\
hook=$1 terminal=$2; shift 2
command -v "$1" >/dev/null || { printf 'cannot run %s: there is no such program in here\\n' "$1" >&2; exit 127; }
printf 'ready\\n' >&9 && IFS= read -r word <&9 && [ "$word" = go ] || exit 125
if [ -n "$hook" ]; then
  printf '%s' '{"hook_event_name":"PreToolUse","tool_name":"BlueflameCanary","tool_input":{},"cwd":"/"}' |
    "$hook" >/dev/null 9>&-
  [ $? -eq 2 ] || { printf 'the canary call was not refused by the watcher\\n' >&2; exit 126; }
  printf 'passed\\n' >&9 || exit 125
fi
exec 9>&-
# its own session, with the terminal as its own: Ctrl-C reaches it. bubblewrap's new session is led by bubblewrap.
[ -n "$terminal" ] && command -v setsid >/dev/null && set -- setsid -c "$@"
unset hook terminal word
exec "$@"
"""


def build_entry_command(argv: list[str], hook: str, *, terminal: bool = False) -> list[str]:
    """What to run so that `argv` runs behind the entry. `terminal`: its stdin is one, to be taken as its own."""
    return ["/bin/sh", "-c", ENTRY_SCRIPT, SCRIPT_NAME, hook, "terminal" if terminal else "", *argv]
