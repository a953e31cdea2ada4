#!/bin/bash -p
# Asks the warden whether an agent may use a tool: the agent's PreToolUse hook.
#
#     stdin   the call, as JSON          exit 0, and JSON on stdout   only when the warden allows it
#                                        exit 2, and why on stderr    in every other case there is
#
# With the argument "quiet" stdout stays empty: for agents that take exit code 0 as consent and our JSON as an error.
# Agents take any other exit code, and death by a signal, as consent: nothing here may end in one.
# No program is started. -p: neither BASH_ENV nor functions from the environment are read.
# The answer that allows is compared whole, byte for byte: nothing that an agent writes can make a refusal look like it.
LC_ALL=C
LIMIT=10485760
ALLOWED=$'HTTP/1.1 200 OK\r\nX-Blueflame-Decision: allow\r\nContent-Type: application/json\r\nContent-Length: 129\r\nConnection: close\r\n\r\n{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"allowed by policy"}}'
DENIED=$'HTTP/1.1 200 OK\r\nX-Blueflame-Decision: deny\r\n'
END=$'\r\n\r\n'

refuse() {
    trap '' ALRM
    trap - EXIT
    kill -KILL $! # the shell that writes the call, or the deadline
    printf '%s\n' "$1" >&5
    exit 2
}
late() { refuse 'blueflame: refused, because the watcher did not answer in time'; }
trap 'exit 2' EXIT
trap "refuse 'blueflame: refused, because the question was interrupted'" HUP INT QUIT PIPE TERM USR1 USR2
trap late ALRM
exec 5>&2 # for our own messages: bash's messages about broken pipes do not help
exec 2> /dev/null

# One deadline for everything: a write or a connect can wait as well, and only another process can end that.
# (read -t would look after reads alone, and takes twenty times as long for a megabyte.)
# It signals until we have ended: one signal is lost when it comes just before the connect or the read that waits.
exec 4> >(
    exec >&- 2>&- 5>&-
    read -r -t 4
    while (($? > 128)) && kill -ALRM $$; do read -r -t 0.1; done
) || refuse 'blueflame: refused, because no deadline could be set'

port=$BLUEFLAME_HOOK_PORT
[[ $port == [1-9]* && $port != *[!0-9]* && ${#port} -le 5 && $port -le 65535 ]] ||
    refuse 'blueflame: refused, because BLUEFLAME_HOOK_PORT does not name the watcher'

IFS= read -r -N $((LIMIT + 1)) call
[[ $call ]] || refuse 'blueflame: refused, because there was no call on stdin'
((${#call} <= LIMIT)) || refuse 'blueflame: refused, because the call is larger than 10 MB'

exec 3<> "/dev/tcp/127.0.0.1/$port" || refuse 'blueflame: refused, because the watcher is not running'
head=$'POST /hook HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/plain\r\nContent-Type: application/json\r\nContent-Length: '
head+="$((${#call} + 1))$END"
if ((${#call} < 32768)); then # fits into the socket's buffers even if it is not read
    printf '%s\n' "$head$call" >&3 || refuse 'blueflame: refused, because the watcher does not accept the call'
else # a blocked write cannot be interrupted from within: a separate shell can be left behind
    (
        exec >&3 4>&- 5>&-
        printf '%s\n' "$head$call"
    ) &
fi
IFS= read -r -N 65536 -u 3 answer # until the warden has closed its side

if [[ $answer == "$ALLOWED" ]]; then
    [[ $1 == quiet ]] || printf '%s\n' "${answer#*"$END"}" || refuse 'blueflame: refused, because the answer could not be passed on'
    trap - EXIT
    exit 0
fi
[[ $answer == "$DENIED"*"$END"?* ]] && refuse "${answer#*"$END"}"
refuse 'blueflame: refused, because the answer of the watcher cannot be understood'
