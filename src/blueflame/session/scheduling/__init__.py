"""Which task may start next: ranks, dependencies, locks, and verified work that a new attempt builds on.

A plain scan in rank order; docs/decisions/0017 says why there are no other indexes.
"""
