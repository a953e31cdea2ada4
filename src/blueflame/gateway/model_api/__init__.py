"""Calls of an agent to a model, forwarded to its provider.

`handler` serves a call: it checks the attempt's token, reserves budget, asks the provider until it answers
(`connections`, `backoff`, `failures`), streams the answer to the agent and writes what it used (`usage_log`).
"""
