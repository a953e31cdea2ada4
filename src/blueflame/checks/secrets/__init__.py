"""Secrets in added lines: the rules, the scan, and telling random tokens from words."""
