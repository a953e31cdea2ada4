"""The terminal: parse a command line, call the orchestrator, print the result, return an exit code.

`main` is the only error boundary, `command_table` lists the commands without importing them, `commands/` has one file
per command, `render/` draws what `views/` builds, `live/` shows a running session, `gates/` asks a person.
Not here: what is shown (views/), what happens (orchestrator/, session/), wording of events (text/).
"""
