"""Secrets in added lines: the rules (rules.toml), the scan, and the test for random tokens."""
