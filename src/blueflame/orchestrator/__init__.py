"""The process that runs a session: the loop, its effects, and what runs beside them.

Here: what waits or combines several packages. `loop` decides and records, `attempts` and `merge_queue` do the work,
`monitors` and `observers` run beside it, `engine` starts processes, `wiring` names the concrete parts, `project` and
`sessions` are all that a read-only command needs. Not here: pure decisions (session/), single outside programs or
files (git/, agents/, memory/), drawing (cli/).
"""
