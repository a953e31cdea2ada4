"""One file for each command: its options, its help, and the calls it makes.

A file is imported only when its command is run (`command_table`). Only the engine, the house and the libraries that
just one of its commands needs are imported inside functions, so that the others stay fast.
"""
