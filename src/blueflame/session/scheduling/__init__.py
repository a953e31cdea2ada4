"""Which task may start."""
