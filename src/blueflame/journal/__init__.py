"""The journal: every event of every session, in SQLite, and the inbox of the orchestrator.

Here: reading, appending, encoding and migrating. Not here: what an event means (session/replay). One process appends;
all others read, or send messages to the inbox.
"""
