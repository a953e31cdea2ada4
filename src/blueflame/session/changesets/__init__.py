"""Changesets: which tasks land together (`groups`), when (`form`), and in which order (`queue`).

The git side of a merge is in git/ and orchestrator/merge_queue/.
"""
