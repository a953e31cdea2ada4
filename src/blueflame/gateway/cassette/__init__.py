"""Recorded model answers: `file` writes and reads them, `match` finds the answer to a request, `merge` joins deltas."""
