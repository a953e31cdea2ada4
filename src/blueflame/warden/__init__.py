"""One small process for each attempt, which outlives the orchestrator. Standard library only."""
