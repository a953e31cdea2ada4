"""Processes, files, clock, locks, terminals: nothing about sessions."""
