"""Observers get each event after it was recorded: exports, memory, notifications.

An observer runs beside the loop and never delays it; a failure is reported once. It records no event.
"""
