"""One file for each command: its options, its help, and the calls it makes.

A file is imported only when its command is run (`command_table`). Inside functions are imported only the engine, the
house, rich where programs poll the command's JSON, and what one of several commands needs: the others stay fast.
"""
