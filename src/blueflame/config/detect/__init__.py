"""Detects a repository's languages, layout and commands, for `blueflame init`. It changes nothing."""
