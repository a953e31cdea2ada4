"""Asking a person at the terminal."""
