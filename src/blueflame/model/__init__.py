"""Frozen values that every other package uses: tasks, attempts, events, gates, settings, errors.

A type belongs here when two packages exchange it. No I/O, no decisions, and no import of another package.
Events and what they hold are written to journals: their names and fields never change.
"""
