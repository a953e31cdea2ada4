"""The story: what each wave does, and the conductor that tells it."""
