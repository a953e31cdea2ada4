"""One attempt, from its checkout to its checked result; one module per role.

Here: the prompt input, launch, walls and result of planner, worker, validator and merger. Not here: starting and
watching processes (engine/), deciding what an ending means (session/attempt_verdict).
"""
