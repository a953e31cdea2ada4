"""Read a shell command and judge every simple command in it.

`judge` is the entry: `reader` walks shfmt's syntax tree with `state`, `words` and `nested` into simple commands with
real words; `judge_command` and `judge_words` decide about each by `programs/`, `paths` and `blocked_patterns`.
What is only known when the command runs is a mark (`marks`) or an opaque construct, and is refused.
Running the parser belongs to `watcher/world`.
"""
