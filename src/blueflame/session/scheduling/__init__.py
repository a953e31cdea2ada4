"""Which task may start next: ranks, dependencies, locks, and verified work that a new attempt builds on.

The ready queue is a plain scan in rank order (docs/decisions/0017); the rest are indexes (0057).
"""
