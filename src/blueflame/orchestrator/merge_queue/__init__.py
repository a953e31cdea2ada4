"""Build a changeset on the newest base, check it, find the culprit of a failure, land it.

Here: the order of git operations and checks. Not here: git itself (git/), which changeset is next (session/changesets).
"""
