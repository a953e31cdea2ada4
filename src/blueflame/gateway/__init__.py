"""The gateway: an agent's only way out of its sandbox, in a process forked from the warden.

It serves CONNECT tunnels and plain requests to listed hosts, and calls to a model (`model_api/`): it adds the person's
credential, meters usage, keeps budgets, waits out rate limits, and records or replays answers (`cassette/`).
What a call costs is computed in `billing/`; starting and ending the process is `warden/gateway_process`.
"""
