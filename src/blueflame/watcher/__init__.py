"""The first wall in operation: answer an agent's hooks, and record every decision.

`server` is the hook server, `http` its protocol, `decision` the time limit and the canary, `policy_file` policy.json,
`audit_log` the record, `world` the file system and the shell parser. Runs inside the warden with only the standard
library. The rules themselves are in `policy/`; starting and stopping it belongs to `warden/`.
"""
