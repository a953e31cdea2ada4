"""What a session taught, which of it an agent is given, and whether it helps: decisions on values, without I/O.

`distill` reads lessons out of a session, `selection` chooses for an attempt, `effect` compares attempts with and
without a lesson. The store is memory/, the prompts are in orchestrator/.
"""
