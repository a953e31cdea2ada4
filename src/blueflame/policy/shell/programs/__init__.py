"""What the arguments of known programs mean: which are files, which run or load code.

A program gets an entry in `filters` (needs no rule, only reads), `table` (needs a rule) or `wrappers` (runs another
command). `allow_rules` matches commands against the configured rules. Judging itself is in `shell/`.
"""
