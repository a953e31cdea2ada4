"""The one process that runs a session."""
