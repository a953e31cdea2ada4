"""The map of a code base: what is in a commit, who changes it, and what it defines.

All of it follows from the commit: what is kept between two maps is facts about contents and commits that never change,
by their ids. So a map that was made after every commit is the same as one that is made at once.
"""
