"""Spare checkouts: files of large checkouts that the next ones take over."""
