"""What `blueflame init` finds out about a repository."""
