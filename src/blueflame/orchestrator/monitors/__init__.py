"""Poll running attempts for limits, overlaps, stalls and rate limits.

A monitor reports what it sees as an event; what follows from it is decided in session/.
"""
