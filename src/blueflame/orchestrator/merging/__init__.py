"""Build, check, bisect and land changesets."""
