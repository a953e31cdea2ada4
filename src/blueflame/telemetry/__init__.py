"""What attempts leave in their folders, read from outside: output, audit log, usage, status.

`activity`, `progress` and `transcript` follow running agents for views; `audit` and `usage` read complete logs for
decisions; `observed_prices` records how prices differ from the built-in table. The files are written by the warden, the
watcher and the gateway; what an agent's output means is in agents/.
"""
