"""Git, in verbs."""
