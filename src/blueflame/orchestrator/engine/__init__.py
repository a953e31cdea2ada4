"""Start, watch and end attempts and commands.

`interface` is what the orchestrator asks of any engine, by attempt id; `local` runs attempts on this machine, each
under its own warden. Not here: what an attempt is for, retries, budgets and gates (session/).
"""
