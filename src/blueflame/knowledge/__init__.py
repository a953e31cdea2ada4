"""What sessions taught: decisions on values, without I/O. An entry is a lesson (model/memory).

`distill` reads lessons out of a session, `selection` chooses for an attempt, `effect` compares attempts with and
without a lesson. `entry` and `page` are the format of the files that people edit, `edits` compares a file with what
was last written, `curate` holds budgets, and `screen` refuses text that is no lesson. The store is memory/, the
prompts are in orchestrator/.
"""
