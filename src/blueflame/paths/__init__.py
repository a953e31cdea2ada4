"""Paths as rules: file locks, glob patterns and naming styles. Pure.

Belongs here: whether a path is covered, matched or well named. Reading the file system belongs to system/ or git/.
"""
