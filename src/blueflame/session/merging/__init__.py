"""Changesets: formed, grouped, queued."""
