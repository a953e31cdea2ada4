#!/bin/sh
# Asks the watcher of a taken task about a call of its subagent. Calls of the person's own conversation pass at once.
call=$(cat)
case $call in
*'"agent_type":"blueflame-subagents:worker"'* | *'"agent_type": "blueflame-subagents:worker"'*) ;;
*) exit 0 ;;
esac
printf '%s' "$call" | python3 -I -S "${0%/*}/ask.py" && exit 0
exit 2
