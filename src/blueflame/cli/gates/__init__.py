"""Asking a person at the terminal: the prompt, the evidence of a gate drawn, and what answers it."""
