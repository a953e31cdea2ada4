"""Questions to people, and what follows from the answers."""
