"""Recorded model answers: matched, merged, kept in a file."""
