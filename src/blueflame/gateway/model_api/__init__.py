"""Calls to a model: credential, budget, backoff, usage."""
