"""The view of a running session."""
