"""File locks, globs and file names. Pure."""
