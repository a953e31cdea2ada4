"""Poll running attempts for limits, overlaps, stalls and rate limits."""
