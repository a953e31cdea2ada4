"""The third wall: checks of what a result changed, made after its agent has ended.

Here: postcheck rules, secrets, lost lines, weakened tests, risks, leftovers, gaps in the audit log. All functions are
pure: `git/` reads what they compare. Not here: whether a tool call is allowed (`policy/`), what follows from a
violation (`session/`).
"""
