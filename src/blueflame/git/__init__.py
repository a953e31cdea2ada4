"""Everything that runs git or reads its files: repository, checkouts, merges, landing, results of agents.

No git process uses an agent's folder as its repository: an agent's configuration could run code as the user.
Judging what was read belongs to `checks/`, deciding what happens next to `session/`.
"""
