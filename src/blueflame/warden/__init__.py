"""The per-attempt process that outlives the orchestrator. Stdlib only, so that it starts at once."""
