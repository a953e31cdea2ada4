"""The report of a session, shared by all interfaces."""
