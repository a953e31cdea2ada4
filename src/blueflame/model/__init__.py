"""Frozen values that every other package uses; imports no other package."""
