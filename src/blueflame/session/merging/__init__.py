"""Changesets: which tasks land together (`groups`), when (`form`), and whose turn it is (`queue`).

The git side of a merge is in git/ and orchestrator/merging/.
"""
