"""The rules of the first wall: whether an agent may make a tool call. `watcher/` serves them.

`decide` is the entry; `tool_calls` parses what a hook sends, `dialects/` translates the calls of other agents,
`access` checks paths and `shell/` shell commands. `compile` makes the policy from the configuration.
Pure: what a decision needs of links, files and the shell parser comes in as `PolicyEnvironment`. Serving hooks and
writing the audit log belong to `watcher/`; checks of the result belong to `checks/`.
"""
