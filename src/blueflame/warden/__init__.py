"""The warden: one small process for each attempt, which outlives the orchestrator.

It locks the attempt's folder, starts the agent (in the sandbox, with hook server and gateway), enforces its limits and
records how it ended. Here belongs what runs in that process, with the standard library only: it has to start within
milliseconds and stay below 20 MB, so pathlib, typing and dataclasses are not imported. What the orchestrator does with
an attempt is in orchestrator/engine, what an attempt left in its folder is read by telemetry/.
"""
