"""One file for each command: its options, its help, and the calls it makes.

Heavy modules are imported inside the functions, so that --help and read-only commands stay fast.
"""
