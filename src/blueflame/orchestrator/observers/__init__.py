"""Called with each event after it was recorded: exports, memory, notifications.

An observer never delays the loop: it works beside it, and a failure is reported once. It records no event.
"""
