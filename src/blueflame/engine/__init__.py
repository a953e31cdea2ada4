"""The machinery between decisions and the world: attempts, landing, gates, recovery."""
