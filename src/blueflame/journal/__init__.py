"""The one source of truth, in SQLite."""
